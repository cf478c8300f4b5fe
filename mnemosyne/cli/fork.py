"""``mnemosyne fork``: start a new session from a turn of a recorded one."""

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
from mnemosyne.app.hooks import find_files
from mnemosyne.cli.log_access import json_option, log_of, session_argument, with_log
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.run import OFF, require_mode_support
from mnemosyne.cli.settings import log_options
from mnemosyne.config import Config
from mnemosyne.domain.history.time_travel import CHECKPOINT
from mnemosyne.services.forks import ForkPoint, find_fork_point

MODES = {"manage": "--manage", "off": "--off"}
"""The option of ``run`` for each mode."""


@click.command()
@session_argument
@click.argument("client", nargs=-1, type=click.UNPROCESSED, metavar="[-- CLIENT [ARGS]...]")
@click.option("--turn", metavar="TURN|CHECKPOINT", help="Fork after this turn.  [default: the last]")
@click.option("--mode", type=click.Choice(list(MODES)), help="Manage the fork or not.  [default: as its parent]")
@click.option("--with-files", is_flag=True, help="Also restore this folder's files to their state at that turn.")
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
    """Start a new session from an earlier turn of a recorded one, which is not changed.

    \b
      mnemosyne fork 319a --turn 30
      mnemosyne fork 319a --turn before-the-rewrite --mode off
      mnemosyne fork 319a -- npx opencode

    The command prints the id of the fork and the command line that continues it in this folder; `mnemosyne run --fork
    319a@30 -- claude` also starts the client. CLIENT defaults to the client of the session: Claude Code, opencode or
    Codex. If the turn has no complete reply, the fork starts at the last one before it.
    """
    config = log_of(options)
    point = find_point(session, turn, config)
    command = client or command_of(point.client)
    if mode == OFF:
        require_mode_support(command, "--mode off")
    made = make_fork(command, point)
    log = [word for name, value in options.items() if value is not None for word in (_option(name), str(value))]
    asked = [MODES[mode]] if mode is not None else []
    line = shlex.join(["mnemosyne", "run", *log, *asked, "--", *made.command])
    if as_json:
        fields = {"id": made.session, "parent": point.session, "turn": point.turn, "command": line}
        print_json(fields | ({"files": restore_folder(point)} if with_files else {}))
        return
    say(f"Session {made.session} begins {place_sentence(point)}.")
    if with_files:
        say(f"{restore_folder(point).capitalize()}.")
    say(f"To continue it in this folder:\n  {line}")


def _option(name: str) -> str:
    return "--config" if name == "config_file" else f"--{name.replace('_', '-')}"


# Shared with ``run --fork``


def find_point(session: str, at: str | None, config: Config) -> ForkPoint:
    """The point at which to fork a recorded session: a turn, a checkpoint, or its end.

    Raises BadParameter if ``at`` is neither a turn number nor a checkpoint name.
    """
    if at is not None and not re.fullmatch(rf"\d+|{CHECKPOINT.pattern}", at, re.ASCII):
        raise click.BadParameter(f"{at!r} is neither a turn number, such as 30, nor a checkpoint name.")
    turn = int(at) if at is not None and at.isdecimal() else at
    return with_log(config, lambda storage: find_fork_point(storage, session, turn))


def make_fork(command: Sequence[str], point: ForkPoint) -> Fork:
    """Create the forked session for a client, in the current folder. Raises BadOption, NotFound."""
    return clients.fork(command, point, os.environ, Path.cwd())


def place_sentence(point: ForkPoint) -> str:
    """``after turn 30 of session 319a``; names a later turn that cannot be forked."""
    instead = f", because turn {point.wanted} has no complete reply" if point.turn < point.wanted else ""
    return f"after turn {point.turn} of session {point.session}{instead}"


def restore_folder(point: ForkPoint) -> str:
    """Restore the folder's files to their state after that turn's reply. Returns a sentence about the result."""
    calls = list_calls(list_folders(os.environ), point.session, point.message_id)
    found = find_files(Path.cwd(), point.session, calls)
    if found is None:
        return "no recorded call after that turn changed files, so they stay unchanged"
    done = found.restore_files(time.time_ns() // 1000)
    return (
        f"files restored to their state after turn {point.turn}: {done.written} written, {done.removed}"
        f" removed. To undo: git restore --source {done.ref} -- :/"
    )
