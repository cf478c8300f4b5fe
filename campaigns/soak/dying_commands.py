"""``python -m campaigns.soak.dying_commands``: run commands, each of which dies by ``kill -9`` before one of its steps.

A step is a call that reaches the database or a disk: a statement, a commit, a part of a copy; a file that is made
durable, renamed or deleted. Each input line is a JSON array of the step and the command's words; each output line is
the exit code. Each command runs in a fork of this process, which has imported all modules.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from campaigns.soak.dying import Countdown, watch
from mnemosyne.cli import main

PLACES: tuple[tuple[Any, str], ...] = (
    (psycopg.Connection, "wait"),
    (os, "fsync"),
    (os, "replace"),
    (os, "rename"),
    (os, "unlink"),
    (Path, "unlink"),
)
"""The functions whose calls are steps."""


def run_until(step: int, words: Sequence[str]) -> int:
    """The exit code of a command that dies before this step (never, for 0); negative if a signal ended it."""
    child = os.fork()
    if child == 0:
        _die_before(step)
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        try:
            main(list(words), prog_name="mnemosyne")
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        os._exit(3)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _die_before(step: int) -> None:
    countdown = Countdown(step, lambda: os.kill(os.getpid(), signal.SIGKILL))
    for owner, name in PLACES:
        watch(owner, name, before=countdown.passed)


if __name__ == "__main__":
    for name in list(main.places()):
        main.get_command(None, name)
    for line in sys.stdin:
        step, *command = json.loads(line)
        sys.stdout.write(f"{run_until(step, command)}\n")
        sys.stdout.flush()
