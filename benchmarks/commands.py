"""Processor time of commands on a large log, of the process and of all that it started and waited for; and the time to
the first byte of its pages.

A server runs on the same directory. Wall time would say how busy the machine is.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import trio

from benchmarks.harness import START_SECONDS, Group, Row, Server, single, spread
from benchmarks.history import history, kind_of
from benchmarks.inside import open_log, record
from benchmarks.variants import OURS, choose
from mnemosyne.data_dir import local_token

SIZES = {False: (2_100, 45, 20), True: (12, 3, 2)}
"""Turns of the long session, number of short sessions, and their turns; in a quick run the latter."""

ROUNDS = {False: 10, True: 1}

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

PAGES: Sequence[tuple[str, str]] = (
    ("the sessions", "/-/"),
    ("a session", "{session}"),
    ("a turn", "{session}/turn/{turn}"),
    ("its window", "{session}/window"),
    ("what if", "{session}/what-if"),
)
"""The pages, in order of the first request."""

FIRST_BYTE_MS = 200
"""Goal for the time to the first byte of a page of the long session."""


def times(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Seconds of processor time, the commands one after the other, over and over."""
    (ours,) = servers
    _fill(ours.data_dir, quick)
    taken: dict[str, list[float]] = {name: [] for name, _, _ in COMMANDS}
    # The first round is a warm-up, which also completes the worker's pending work.
    for counted in (False, *[True] * ROUNDS[quick]):
        for name, arguments, _ in COMMANDS:
            seconds = _run(arguments, ours)
            if counted:
                taken[name].append(seconds)
    return [spread(name, OURS, "s", taken[name], goal) for name, _, goal in COMMANDS]


def pages(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Milliseconds to each page's first byte, on the first request and on later ones."""
    (ours,) = servers
    _fill(ours.data_dir, quick)
    listed = json.loads(_get(ours, "/-/sessions.json?all")[1])["sessions"]
    session = f"/-/session/{next(each['stream'] for each in listed if each['name'] == LONG)}"
    rows = []
    for name, pattern in PAGES:
        path = pattern.format(session=session, turn=SIZES[quick][0] - 1)
        once, *again = (_get(ours, path)[0] for _ in range(1 + ROUNDS[quick]))
        rows.append(single(f"{name}, the first time: first byte", OURS, "ms", once, FIRST_BYTE_MS))
        rows.append(spread(f"{name}, again: first byte", OURS, "ms", again, FIRST_BYTE_MS))
    return rows


@cache
def _fill(directory: Path, quick: bool) -> None:
    """Record one long session and many short ones."""
    trio.run(_record, directory, quick)


async def _record(directory: Path, quick: bool) -> None:
    whole, (turns, sessions, session_turns) = history(kind_of(quick)), SIZES[quick]
    async with open_log(directory) as (_, storage):
        await record(storage, whole, LONG, turns)
        for number in range(sessions):
            await record(storage, whole, f"short-{number}", session_turns)


def _run(arguments: Sequence[str], server: Server) -> float:
    """Processor seconds of a command in user and system mode. Raises RuntimeError if it failed."""
    environ = {"MNEMOSYNE_DATA_DIR": str(server.data_dir), "MNEMOSYNE_PORT": str(server.address.port)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = (sys.executable, "-m", "mnemosyne", *arguments)
    done = subprocess.run(command, input=TOLD, capture_output=True, env=os.environ | environ, check=False)
    if done.returncode:
        raise RuntimeError(f"mnemosyne {' '.join(arguments)} failed: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _get(server: Server, path: str) -> tuple[float, bytes]:
    """Milliseconds to the first byte of a page, and the page. Waits while the server opens its database for pages."""
    request = Request(f"http://{server.address.host}:{server.address.port}{path}")
    request.add_header("Authorization", f"Bearer {local_token(server.data_dir)}")
    end = time.monotonic() + START_SECONDS
    while True:
        began = time.perf_counter()
        try:
            with urlopen(request) as reply:
                first = reply.read(1)
                milliseconds = 1000 * (time.perf_counter() - began)
                return milliseconds, first + reply.read()
        except HTTPError as error:
            if error.code != 503 or time.monotonic() > end:
                raise
            time.sleep(1.0)  # the pages are not served yet


GROUP = Group("commands", choose(OURS), {"times": times, "pages": pages}, by_default=False)
