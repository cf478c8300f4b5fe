"""How long ``mnemosyne context`` takes beside the running server, as a process of its own, from start to end."""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import trio

from benchmarks.harness import Row, Server, single, spread
from benchmarks.history import History, history, kind_of
from benchmarks.inside import open_log, record, recorded_turns
from benchmarks.variants import OURS, data_dir

RATIO_GOAL = 1.5
SHORT = 100
COMMAND = "mnemosyne context --raw"
START = "mnemosyne --version"


def context(servers: Sequence[Server], quick: bool) -> list[Row]:
    """The last turn of a long session against turn 100 of the same and of one that ended there."""
    whole = history(kind_of(quick))
    short, rounds = (10, 1) if quick else (SHORT, 9)
    directory = data_dir(next(server.own for server in servers if server.name == OURS))
    trio.run(_prepare, directory, whole, short)
    late, early, alone = ("whole", whole.turns), ("whole", short), ("short", short)
    cases = (late, early) if quick else (late, early, alone)
    times: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    starts = []
    for _ in range(rounds):
        starts.append(_timed("--version")[0])
        for session, turn in cases:
            place = ("--branch", "main", "--turn", str(turn))
            seconds, body = _timed("context", session, *place, "--raw", "--data-dir", str(directory))
            if body != whole.body(turn):
                raise ValueError(f"turn {turn} of {session!r} did not come back as it was sent: {body[:200]!r}")
            times[session, turn].append(seconds)
    rows = [spread("a process that does nothing", START, "s", starts)]
    length = {"whole": whole.turns, "short": short}
    names = {case: f"context at turn {case[1]} of {length[case[0]]}" for case in cases}
    rows += [spread(names[case], COMMAND, "s", values) for case, values in times.items()]
    for other in cases[1:]:
        ratio = statistics.median(times[late]) / statistics.median(times[other])
        rows.append(single(f"{names[late]} ÷ turn {short} of {length[other[0]]}", COMMAND, "ratio", ratio, RATIO_GOAL))
    return rows


async def _prepare(directory: Path, whole: History, short: int) -> None:
    async with open_log(directory) as log:
        for session, turns in (("whole", whole.turns), ("short", short)):
            await record(log, whole, session, await recorded_turns(log, session) + 1, turns)


def _timed(*arguments: str) -> tuple[float, bytes]:
    """Wall time and output of a command. Raises RuntimeError if it failed."""
    started = time.perf_counter()
    done = subprocess.run((sys.executable, "-m", "mnemosyne", *arguments), capture_output=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"mnemosyne {' '.join(arguments)} failed: {done.stderr.decode()}")
    return seconds, done.stdout
