"""``python -m tests.cli.dying_commands``: runs our commands, each of which dies by ``kill -9`` before one of its steps.

A step is what reaches the database or a disk: a statement, a commit, a piece of a copy; a file that is made durable,
renamed or deleted. Each line of the input is a JSON array, the step and the command's words; each line of the output
says how that ended. A command is a fork of this process, which has read all modules already and never runs one itself.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg

from mnemosyne.cli import main

PLACES: tuple[tuple[Any, str], ...] = (
    (psycopg.Connection, "wait"),
    (os, "fsync"),
    (os, "replace"),
    (os, "rename"),
    (os, "unlink"),
    (Path, "unlink"),
)
"""What a step is a call of."""


def run_until(step: int, words: Sequence[str]) -> int:
    """How a command ended that dies before so many steps: its exit code, negative where a signal ended it. It never
    comes to step 0.
    """
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
    left = step

    def passed() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for owner, name in PLACES:
        setattr(owner, name, _watched(getattr(owner, name), passed))


def _watched(done: Callable[..., Any], passed: Callable[[], None]) -> Callable[..., Any]:
    @wraps(done)
    def do(*given: Any, **named: Any) -> Any:
        passed()
        return done(*given, **named)

    return do


if __name__ == "__main__":
    for name in list(main.commands):
        main.get_command(None, name)  # type: ignore[arg-type]  # it needs no context
    for line in sys.stdin:
        asked, *command = json.loads(line)
        sys.stdout.write(f"{run_until(asked, command)}\n")
        sys.stdout.flush()
