"""Processor time of commands on a large log: of the process and of all that it started and waited for, together.

A server runs on the same directory. Wall time would say how busy the machine is.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from benchmarks.harness import DATABASE, WORKER, Group, Part, Row, Server, find_process, single, spread
from benchmarks.history import history, kind_of
from benchmarks.inside import open_log, record
from benchmarks.variants import OURS, VARIANTS, data_dir

TURNS, SESSIONS, SESSION_TURNS = 2_100, 45, 20
"""Turns of the long session, number of short sessions, and their turns."""

QUICK_TURNS, QUICK_SESSIONS, QUICK_SESSION_TURNS = 12, 3, 2
ROUNDS, QUICK_ROUNDS = 10, 1

UNINDEXED_TURNS = 500
"""Turns recorded before the first search, which has to index them."""

LONG, SHORT = "long", "short-0"

COMMANDS: Sequence[tuple[str, tuple[str, ...], float | None]] = (
    ("--version", ("--version",), None),
    ("--help", ("--help",), 0.15),
    ("statusline", ("statusline",), 0.1),
    ("hook", ("hook",), 0.1),
    ("sessions", ("sessions",), 0.35),
    ("context, the last turn of a short session", ("context", SHORT), 0.35),
    ("context, turn 10 of the long session", ("context", LONG, "--turn", "10"), 0.35),
    ("context, the last turn of the long session", ("context", LONG), 0.35),
    ("search in a short session", ("search", SHORT, "pool"), 0.35),
    ("search in the long session", ("search", LONG, "pool"), 0.35),
)
"""Commands, their arguments, and the allowed seconds."""

TOLD = b'{"hook_event_name": "UserPromptSubmit", "session_id": "a", "cwd": "/", "prompt": "Go on."}'
"""Input for the commands that read stdin."""


def times(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Seconds of processor time, the commands one after the other, over and over."""
    (ours,) = servers
    directory = data_dir(ours.own)
    counts = (QUICK_TURNS, QUICK_SESSIONS, QUICK_SESSION_TURNS) if quick else (TURNS, SESSIONS, SESSION_TURNS)
    trio.run(record_sessions, directory, quick, *counts)
    environ = {**os.environ, "MNEMOSYNE_DATA_DIR": str(directory), "MNEMOSYNE_PORT": str(ours.address.port)}
    taken: dict[str, list[float]] = {name: [] for name, _, _ in COMMANDS}
    # The first round is a warm-up, which also completes the worker's pending work.
    for counted in (False, *[True] * (QUICK_ROUNDS if quick else ROUNDS)):
        for name, arguments, _ in COMMANDS:
            seconds = _processor_seconds(arguments, environ)
            if counted:
                taken[name].append(seconds)
    return [spread(name, OURS, "s", taken[name], goal) for name, _, goal in COMMANDS]


def first(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Processor time in seconds, PostgreSQL included, of the first search after many turns and of a second one. The
    worker is stopped, so the first search has to index the turns.
    """
    (ours,) = servers
    directory, turns = data_dir(ours.own), QUICK_TURNS if quick else UNINDEXED_TURNS
    environ = {**os.environ, "MNEMOSYNE_DATA_DIR": str(directory), "MNEMOSYNE_PORT": str(ours.address.port)}
    worker = find_process(ours, WORKER)
    os.kill(worker, signal.SIGSTOP)
    try:
        trio.run(record_sessions, directory, quick, turns, 0, 0)
        taken = []
        for _ in range(2):
            before = ours.cpu_by_process()[DATABASE]
            seconds = _processor_seconds(("search", LONG, "pool"), environ)
            taken.append(seconds + ours.cpu_by_process()[DATABASE] - before)
    finally:
        os.kill(worker, signal.SIGCONT)
    found, again = taken
    name = f"search after {turns} turns"
    return [
        single(f"first {name}", OURS, "s", found),
        single(f"second {name}", OURS, "s", again),
        single(f"first {name}, more than the second", OURS, "s", found - again, 1.0),
    ]


async def record_sessions(directory: Path, quick: bool, turns: int, sessions: int, each: int) -> None:
    """A long session of so many turns, and beside it so many short ones with so many turns each."""
    whole = history(kind_of(quick))
    async with open_log(directory) as log:
        await record(log, whole, LONG, 1, turns)
        for number in range(sessions):
            await record(log, whole, f"short-{number}", 1, each)


def _processor_seconds(arguments: Sequence[str], environ: dict[str, str]) -> float:
    """Processor seconds of a command in user and system mode. Raises RuntimeError if it failed."""
    command = (sys.executable, "-m", "mnemosyne", *arguments)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ
    ) as process:
        assert process.stdin is not None
        process.stdin.write(TOLD)
        process.stdin.close()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"mnemosyne {' '.join(arguments)} failed")
    return used.ru_utime + used.ru_stime


GROUP = Group(
    "commands",
    [each for each in VARIANTS if each.name == OURS],
    (Part("first", first), Part("times", times)),
    by_default=False,
)
