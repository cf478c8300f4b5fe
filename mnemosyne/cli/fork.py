"""``mnemosyne fork``: start a new session from a turn of a recorded one."""

import os
import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from mnemosyne.adapters.git_worktree import RestoredFiles
from mnemosyne.app import clients
from mnemosyne.app.clients import Fork, command_of
from mnemosyne.app.kept_files import find_files
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
@click.option(
    "--at",
    metavar="TURN|CALL|CHECKPOINT",
    help="Fork after this turn, or the one with this call, including the results of its calls.  [default: the last]",
)
@click.option("--branch", metavar="BRANCH", help="The branch of that turn or call.  [default: main]")
@click.option("--mode", type=click.Choice(list(MODES)), help="Manage the fork or not.  [default: as its parent]")
@click.option("--with-files", is_flag=True, help="Also restore this folder's files to their state at that point.")
@log_options()
@json_option
def fork(
    session: str,
    client: tuple[str, ...],
    at: str | None,
    branch: str | None,
    mode: str | None,
    with_files: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Start a new session from an earlier point of a recorded one, which is not changed.

    \b
      mnemosyne fork 319a --at 30
      mnemosyne fork 319a --at toolu_01A09q90qw90lq917835lq9
      mnemosyne fork 319a --at before-the-rewrite --mode off
      mnemosyne fork 319a -- npx opencode

    The command prints the id of the fork and the command line that continues it in this folder; `mnemosyne run --fork
    319a@30 -- claude` also starts the client. CLIENT defaults to the client of the session: Claude Code, opencode or
    Codex. Each request with its reply is a turn, so a fork can also start between the calls of one prompt. If a turn
    has no complete reply, or its calls have no results, the fork starts at the last turn before it that has them.
    """
    config = log_of(options)
    point = find_point(session, at, config, branch)
    command = client or command_of(point.client)
    if mode == OFF:
        require_mode_support(command, "--mode off")
    kept = find_kept_files(point) if with_files else None
    made = make_fork(command, point)
    log = [word for name, value in options.items() if value is not None for word in (_option(name), str(value))]
    asked = [MODES[mode]] if mode is not None else []
    line = shlex.join(["mnemosyne", "run", *log, *asked, "--", *made.command])
    if as_json:
        fields = {"id": made.session, "parent": point.session, "turn": point.turn, "command": line}
        print_json(fields | ({"files": restore_folder(kept, point)} if kept is not None else {}))
        return
    say(f"Session {made.session} begins {place_sentence(point)}.")
    if kept is not None:
        files = restore_folder(kept, point)
        say(f"{files[0].upper()}{files[1:]}")
    say(f"To continue it in this folder:\n  {line}")


def _option(name: str) -> str:
    return "--config" if name == "config_file" else f"--{name.replace('_', '-')}"


# Shared with ``run --fork``


def find_point(session: str, at: str | None, config: Config, branch: str | None = None) -> ForkPoint:
    """The point at which to fork a recorded session: a turn, a call, a checkpoint, or its end.

    Raises BadParameter if ``at`` cannot be any of these.
    """
    if at is not None and not re.fullmatch(rf"\d+|{CHECKPOINT.pattern}", at, re.ASCII):
        raise click.BadParameter(
            f"{at!r} is neither a turn number, such as 30, nor the id of a call, nor a checkpoint's name."
        )
    place = int(at) if at is not None and at.isdecimal() else at
    return with_log(config, lambda storage: find_fork_point(storage, session, place, branch))


def make_fork(command: Sequence[str], point: ForkPoint) -> Fork:
    """Create the forked session for a client, in the current folder. Raises BadOption, NotFound."""
    return clients.fork(command, point, os.environ, Path.cwd())


def place_sentence(point: ForkPoint) -> str:
    """``after turn 30 of session 319a``; names a later turn that cannot be forked."""
    answered = ", with the results of its calls" if point.calls else ""
    missing = "no complete reply, or no results of its calls"
    instead = f", because turn {point.wanted} has {missing}" if point.turn < point.wanted else ""
    return f"after turn {point.turn} of session {point.session}{answered}{instead}"


def find_kept_files(point: ForkPoint) -> Callable[[int], RestoredFiles]:
    """Find this folder's files after the turn of the fork, as ``find_files`` does."""
    return find_files(Path.cwd(), point.stream, point.reached)


def restore_folder(restore: Callable[[int], RestoredFiles], point: ForkPoint) -> str:
    """Restore the folder's files to their state at the fork. Returns a sentence about the result."""
    done = restore(time.time_ns() // 1000)
    return (
        f"files restored to their state after turn {point.turn}: {done.written} written, {done.removed}"
        f" removed. To undo: git restore --source {done.ref} -- :/"
    )
