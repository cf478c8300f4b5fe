"""``mnemosyne fork``: a session of a client's own that begins with a turn of another one."""

import os
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import click

from mnemosyne.adapters.claude_transcripts import list_calls, list_folders
from mnemosyne.app import clients
from mnemosyne.app.clients import Fork, command_of
from mnemosyne.app.worktrees import find_files
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.reading import json_option, log_of, session_argument, with_log
from mnemosyne.cli.run import OFF, refuse_deaf
from mnemosyne.cli.settings import log_options
from mnemosyne.config import Config
from mnemosyne.domain.history.time_travel import CHECKPOINT
from mnemosyne.services.forks import ForkPoint, find_fork_point

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
        print_json(told | ({"files": restore_folder(point)} if with_files else {}))
        return
    say(f"Session {made.session} begins {place_sentence(point)}.")
    if with_files:
        say(f"{restore_folder(point).capitalize()}.")
    say(f"It goes on, in this folder, with:\n  {line}")


def _option(name: str) -> str:
    return "--config" if name == "config_file" else f"--{name.replace('_', '-')}"


# Shared with ``run --fork``


def find_point(session: str, at: str | None, config: Config) -> ForkPoint:
    """Where a recorded session is to be left: at a turn, at a checkpoint, or at its end.

    Raises BadParameter for what is no turn's number and no name.
    """
    if at is not None and not re.fullmatch(rf"\d+|{CHECKPOINT.pattern}", at, re.ASCII):
        raise click.BadParameter(f"{at!r} is no turn's number and no checkpoint's name, such as 30.")
    turn = int(at) if at is not None and at.isdecimal() else at
    return with_log(config, lambda storage: find_fork_point(storage, session, turn))


def make_fork(command: Sequence[str], point: ForkPoint) -> Fork:
    """Have a client begin a session there, in the folder of today. Raises BadOption, NotFound."""
    return clients.fork(command, point, os.environ, Path.cwd())


def place_sentence(point: ForkPoint) -> str:
    """What is said of where a fork begins."""
    instead = f", since turn {point.wanted} has no whole reply" if point.turn < point.wanted else ""
    return f"after turn {point.turn} of session {point.session}{instead}"


def restore_folder(point: ForkPoint) -> str:
    """Make the folder's files what they were when that turn had answered; what was done, in a sentence."""
    calls = list_calls(list_folders(os.environ), point.session, point.message_id)
    found = find_files(Path.cwd(), point.session, calls)
    if found is None:
        return "no call behind that turn changed files, as far as they were kept: they stay as they are"
    done = found.restore_files(time.time_ns() // 1000)
    return (
        f"the files are what they were when turn {point.turn} had answered: {done.written} written, {done.removed}"
        f" removed. As they were until now: git restore --source {done.ref} -- :/"
    )
