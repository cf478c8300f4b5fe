"""``mnemosyne checkpoint``: a name for a turn."""

import secrets

import click

from mnemosyne.cli.printing import local_time, print_json, say
from mnemosyne.cli.reading import branch_option, json_option, log_of, session_argument, with_log
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.services import checkpoints
from mnemosyne.services.unstructuring import members

MEMBERS = "name branch turn at"
"""Of a checkpoint in JSON."""


@click.command()
@session_argument
@click.argument("name", required=False)
@branch_option
@click.option("--turn", type=click.IntRange(1), metavar="TURN", help="Which turn.  [default: the last]")
@log_options()
@json_option
def checkpoint(session: str, name: str | None, branch: str, turn: int | None, as_json: bool, **options: object) -> None:
    """Give a turn of a session the name NAME, to come back to it by; without a NAME, list the names.

    \b
      mnemosyne checkpoint SESSION before-the-rewrite
      mnemosyne diff SESSION --turn before-the-rewrite 40
      mnemosyne fork SESSION --turn before-the-rewrite

    Wherever a command takes a TURN[.ATTEMPT][/ROUND], it takes a name, too. A name stays with its turn. It works beside
    a running server and without one.
    """
    config = log_of(options)
    if name is None:
        if turn is not None:
            raise click.UsageError("--turn needs a NAME: without one the names are listed.")
        _, held = with_log(config, lambda storage: checkpoints.read_all(storage, session))
        if as_json:
            print_json([members(each, MEMBERS) for each in held])
        elif not held:
            say("The session has no checkpoints.", err=True)
        for each in () if as_json else held:
            say(f"{each.name}  turn {each.turn} of {each.branch}, named {local_time(each.at)}")
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
