"""What ``fork`` and ``run --fork`` have in common: where a session is left, and its files of then."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

import click

from mnemosyne.adapters.claude_transcripts import list_calls, list_folders
from mnemosyne.app.clients import Fork, fork
from mnemosyne.app.worktrees import find_files
from mnemosyne.cli.reading import with_log
from mnemosyne.config import Config
from mnemosyne.domain.history.time_travel import CHECKPOINT
from mnemosyne.services.forks import ForkPoint, find_fork_point


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
    return fork(command, point, os.environ, Path.cwd())


def place_sentence(point: ForkPoint) -> str:
    """What is said of where a fork begins."""
    instead = f", since turn {point.wanted} has no whole reply" if point.turn < point.wanted else ""
    return f"after turn {point.turn} of session {point.session}{instead}"


def bring_files_back(point: ForkPoint) -> str:
    """Make the folder's files what they were when that turn had answered; what was done, in a sentence."""
    calls = list_calls(list_folders(os.environ), point.session, point.message_id)
    found = find_files(Path.cwd(), point.session, calls)
    if found is None:
        return "no call behind that turn changed files, as far as they were kept: they stay as they are"
    done = found.bring_back(time.time_ns() // 1000)
    return (
        f"the files are what they were when turn {point.turn} had answered: {done.written} written, {done.removed}"
        f" removed. As they were until now: git restore --source {done.ref} -- :/"
    )
