"""``mnemosyne checkpoint``: a name for a turn."""

import secrets

import click

from mnemosyne.cli.log_access import branch_option, json_option, log_of, session_argument, with_log
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.figures import local_time
from mnemosyne.services import checkpoints
from mnemosyne.services.unstructuring import members

MEMBERS = "name branch turn at"
"""The JSON keys of a checkpoint."""


@click.command()
@session_argument
@click.argument("name", required=False)
@branch_option
@click.option("--turn", type=click.IntRange(1), metavar="TURN", help="Which turn.  [default: the last]")
@log_options()
@json_option
def checkpoint(session: str, name: str | None, branch: str, turn: int | None, as_json: bool, **options: object) -> None:
    """Name a turn of a session, so that you can refer to it; without a NAME, list the names.

    \b
      mnemosyne checkpoint 319a before-the-rewrite
      mnemosyne diff 319a --turn before-the-rewrite 40
      mnemosyne fork 319a --turn before-the-rewrite

    A name cannot be moved to another turn.
    """
    config = log_of(options)
    if name is None:
        if turn is not None:
            raise click.UsageError("--turn needs a NAME; without a NAME, the names are listed.")
        _, named = with_log(config, lambda storage: checkpoints.read_all(storage, session))
        if as_json:
            print_json([members(point, MEMBERS) for point in named])
            return
        if not named:
            say("The session has no checkpoints.", err=True)
        for point in named:
            say(f"{point.name}  turn {point.turn} of {point.branch}, named {local_time(point.at)}")
        return
    done = with_log(
        config,
        lambda storage: checkpoints.name(
            storage, session, name, branch=branch, turn=turn, at=now_us(), correlation_id=secrets.token_hex(8)
        ),
    )
    if as_json:
        print_json({"id": str(done.stream), **members(done.checkpoint, MEMBERS), "recorded": done.recorded})
    else:
        place = f"turn {done.checkpoint.turn} of {done.checkpoint.branch}"
        say(f"{name} is {place}{'' if done.recorded else ' already'}.")
