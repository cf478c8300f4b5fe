"""``mnemosyne report``: the page of one session as a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mnemosyne.app.process import now
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.settings import limits_of
from mnemosyne.cli.context import print_kinds
from mnemosyne.cli.log_access import json_option, log_of, session_argument, with_read_models
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.private_files import write_private
from mnemosyne.cli.settings import log_options
from mnemosyne.http.inspector.session_report import page_as_json, read_shown, session_report
from mnemosyne.services.budgets import Budgets
from mnemosyne.services.observing import no_observations
from mnemosyne.services.overviews import read_overview
from mnemosyne.services.read_models import find
from mnemosyne.services.unstructuring import as_json as unstructured


@click.command()
@session_argument
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="OUT",
    help="The file to write.  [default: session-SESSION.html]",
)
@click.option("--redact", is_flag=True, help="Omit texts and file names.")
@log_options()
@json_option
def report(session: str, page: Path | None, redact: bool, as_json: bool, **options: object) -> None:
    """Write the page of a session to a single file that you can share: what fills its window, what was evicted
    and needed again, its compactions and its cost. The file loads nothing from the network.

    \b
      mnemosyne report 319a
      mnemosyne report 319a --html report.html --redact

    --json prints the contents of the page instead.
    """
    if redact and as_json:
        raise click.UsageError("--redact and --json cannot be combined.")
    shown = with_read_models(log_of(options), lambda models: _read(models, session))
    if as_json:
        print_json(unstructured(page_as_json(shown)))
        return
    path = page or Path(f"session-{str(shown['view'].stream)[:8]}.html")
    write_private(path, session_report(shown, redacted=redact))
    say(shown["view"].verdict)
    if shown["contents"] is not None:
        print_kinds(shown["contents"])
    say(f"Wrote {path}.")


async def _read(models: OpenReadModels, session: str) -> Mapping[str, Any]:
    stream, budgets = await find(models, session), Budgets(lambda: limits_of(models.config), now)
    overview = await read_overview(models.archive, models, stream, openings={})
    return await read_shown(models.archive, models, overview, None, seen=no_observations(), budgets=budgets)
