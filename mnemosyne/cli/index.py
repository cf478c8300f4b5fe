"""``mnemosyne index``: an approximate index for searching very many sessions."""

import click

from mnemosyne.app.object_index import fill_index, open_index
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.printing import say
from mnemosyne.cli.reading import log_of, with_read_models
from mnemosyne.cli.settings import log_options


@click.group()
def index() -> None:
    """An index for approximate semantic search (HNSW). Only `mnemosyne search --all-sessions` without filters uses it;
    all other searches compare every passage and miss nothing.

    Up to 100,000 passages it brings no gain. It may miss results, needs about a kilobyte for each passage, and adds a
    millisecond to the indexing of each new one. `mnemosyne doctor` shows whether it exists.
    """


@index.command(short_help="Build the index.")
@log_options()
def build(**options: object) -> None:
    """Build or rebuild the index for the current embedding model. It takes a minute or two for some hundred thousand
    passages; servers can keep running. After you install another model, build it again.
    """

    async def work(models: OpenReadModels) -> None:
        filled = await fill_index(models)
        say("Building the index.", err=True)
        await filled.build_near_index()

    with_read_models(log_of(options), work)
    say("The index was built; `mnemosyne index drop` removes it.")


@index.command(short_help="Drop the index.")
@log_options()
def drop(**options: object) -> None:
    """Drop the index. Nothing else is lost: searches across all sessions compare every vector again."""

    async def work(models: OpenReadModels) -> bool:
        return await (await open_index(models.config, models.database)).drop_near_index()

    was_dropped = with_read_models(log_of(options), work)
    say("The index was dropped." if was_dropped else "There was no index.")
