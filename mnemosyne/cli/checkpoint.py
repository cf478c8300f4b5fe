"""``mnemosyne checkpoint``: a name for a turn."""

from typing import Any

import click

from mnemosyne.app.process import new_id, now
from mnemosyne.cli.log_access import branch_option, log_of, prints, session_argument, with_log
from mnemosyne.cli.printing import say
from mnemosyne.cli.settings import log_options
from mnemosyne.figures import local_time
from mnemosyne.services import checkpoints
from mnemosyne.services.checkpoints import Naming
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.unstructuring import members

MEMBERS = "name branch turn at"
"""The JSON keys of a checkpoint."""


def _as_json(found: Any) -> object:
    if isinstance(found, Naming):
        return {"id": str(found.stream), **members(found.checkpoint, MEMBERS), "recorded": found.recorded}
    return [members(point, MEMBERS) for point in found]


def _print(found: Any) -> None:
    if isinstance(found, Naming):
        point = found.checkpoint
        say(f"{point.name} is turn {point.turn} of {point.branch}{'' if found.recorded else ' already'}.")
        return
    if not found:
        say("The session has no checkpoints.", err=True)
    for point in found:
        say(f"{point.name}  turn {point.turn} of {point.branch}, named {local_time(point.at)}")


@click.command()
@session_argument
@click.argument("name", required=False)
@branch_option
@click.option("--turn", type=click.IntRange(1), metavar="TURN", help="Which turn.  [default: the last]")
@log_options()
@prints(_as_json, _print)
def checkpoint(session: str, name: str | None, branch: str, turn: int | None, **options: Any) -> object:
    """Name a turn of a session, so that you can refer to it; without a NAME, list the names.

    \b
      mnemosyne checkpoint 319a before-the-rewrite
      mnemosyne diff 319a --turn before-the-rewrite 40
      mnemosyne fork 319a --at before-the-rewrite

    A name cannot be moved to another turn.
    """
    config = log_of(options)
    if name is None:
        if turn is not None:
            raise click.UsageError("--turn needs a NAME; without a NAME, the names are listed.")
        return with_log(config, lambda storage: checkpoints.read_all(storage, session))[1]
    stamp = WriteStamp(now(), new_id())
    return with_log(
        config,
        lambda storage: checkpoints.name(storage, session, name, branch=branch, turn=turn, stamp=stamp),
    )
