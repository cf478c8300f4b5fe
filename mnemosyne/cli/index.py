"""``mnemosyne index``: an index for approximate search across sessions, for those who have very many."""

import click

from mnemosyne.app.object_index import fill_index, open_index
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.printing import say
from mnemosyne.cli.reading import log_of, with_read_models
from mnemosyne.cli.settings import log_options


@click.group()
def index() -> None:
    """An index for approximate search by meaning (HNSW), which only `mnemosyne search --all-sessions` without any
    filter uses. Everything else is compared one by one, which misses nothing.

    At 100,000 passages it gains nothing yet; it is for stores of many more. It may miss some, needs about a kilobyte
    for each, and each one that is added later takes a millisecond more. `mnemosyne doctor` says whether it is there.
    """


@index.command(short_help="Make the index.")
@log_options()
def build(**options: object) -> None:
    """Make the index for the vectors that search uses now, anew if it is there. It takes a minute or two for some
    hundred thousand passages, while a server goes on working. After another model was installed, make it again.
    """

    async def work(models: OpenReadModels) -> None:
        filled = await fill_index(models)
        say("Making the index.", err=True)
        await filled.build_near_index()

    with_read_models(log_of(options), work)
    say("The index is there; `mnemosyne index drop` takes it away.")


@index.command(short_help="Take the index away.")
@log_options()
def drop(**options: object) -> None:
    """Take the index away. Nothing else is lost: search across all sessions reads every vector again."""

    async def work(models: OpenReadModels) -> bool:
        return await (await open_index(models.config, models.database)).drop_near_index()

    there = with_read_models(log_of(options), work)
    say("The index is gone." if there else "There was no index.")
