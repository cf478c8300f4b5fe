"""``mnemosyne fork``: a session of a client's own that begins with a turn of another one."""

import shlex

import click

from mnemosyne.app.clients import command_of
from mnemosyne.cli.forking import bring_files_back, find_point, make_fork, place_sentence
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.reading import json_option, log_of, session_argument
from mnemosyne.cli.run import OFF, refuse_deaf
from mnemosyne.cli.settings import log_options

MODES = {"manage": "--manage", "off": "--off"}
"""What ``run`` is given for each."""


@click.command()
@session_argument
@click.argument("client", nargs=-1, type=click.UNPROCESSED, metavar="[-- CLIENT [ARGS]...]")
@click.option("--turn", metavar="TURN|CHECKPOINT", help="After which turn.  [default: the last]")
@click.option("--mode", type=click.Choice(list(MODES)), help="Manage the fork, or end that.  [default: as its parent]")
@click.option("--with-files", is_flag=True, help="Make this folder's files what they were there, too.")
@log_options()
@json_option
def fork(
    session: str,
    client: tuple[str, ...],
    turn: str | None,
    mode: str | None,
    with_files: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Begin a session of a client's own with what another one was after any of its turns; the other stays as it is.

    \b
      mnemosyne fork 319a --turn 30
      mnemosyne fork 319a --turn before-the-rewrite --mode off
      mnemosyne fork 319a -- npx opencode

    SESSION may be a fork itself, by the name that its client has for it. Where the turn left a call open or is under
    way, the last whole reply before it counts, and that is said.

    The client finds the fork under the id that is told, in this folder; the line with which it goes on is printed. With
    its first request it is on record: as a branch that shares all with its parent, if that was managed, and goes on
    from what was sent there. Without a CLIENT it is the one of the session: Claude Code, opencode or Codex.

    `mnemosyne run --fork SESSION@TURN -- CLIENT` does the same and starts the client.
    """
    config = log_of(options)
    point = find_point(session, turn, config)
    command = client or command_of(point.client)
    if mode == OFF:
        refuse_deaf(command, "--mode off")
    made = make_fork(command, point)
    log = [word for name, value in options.items() if value is not None for word in (_option(name), str(value))]
    asked = [MODES[mode]] if mode is not None else []
    line = shlex.join(["mnemosyne", "run", *log, *asked, "--", *made.command])
    if as_json:
        told = {"id": made.session, "parent": point.session, "turn": point.turn, "command": line}
        print_json(told | ({"files": bring_files_back(point)} if with_files else {}))
        return
    say(f"Session {made.session} begins {place_sentence(point)}.")
    if with_files:
        say(f"{bring_files_back(point).capitalize()}.")
    say(f"It goes on, in this folder, with:\n  {line}")


def _option(name: str) -> str:
    return "--config" if name == "config_file" else f"--{name.replace('_', '-')}"
