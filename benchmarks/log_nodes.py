"""How many appends a second several processes make on one database, and where the processor goes.

Each is a process of its own with a journal of its own, as servers that share a database are.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import process_time

import trio

from benchmarks.harness import DATABASE, Row, Server, spread
from benchmarks.inside import open_log
from benchmarks.log_inside import append_repeatedly
from benchmarks.variants import OURS, data_dir

SESSIONS = 8
"""Sessions of each process."""


def nodes(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Appends a second by 1, 2 and 4 processes together, and the processor time of each append."""
    server = next(server for server in servers if server.name == OURS)
    seconds, rounds, counts = (0.3, 1, (1, 2)) if quick else (2.0, 5, (1, 2, 4))
    rates: dict[int, list[float]] = {count: [] for count in counts}
    writers: dict[int, list[float]] = {count: [] for count in counts}
    database: dict[int, list[float]] = {count: [] for count in counts}
    for number in range(rounds):
        for count in counts:
            before = server.cpu_by_process()
            told = _append(data_dir(server.own), f"{number}-{count}", count, seconds)
            spent = server.cpu_by_process()
            made = sum(each["appends"] for each in told)
            rates[count].append(sum(each["appends"] / each["seconds"] for each in told))
            writers[count].append(sum(each["cpu"] for each in told) / made * 1e6)
            database[count].append((spent[DATABASE] - before[DATABASE]) / made * 1e6)
    rows: list[Row] = []
    for count in counts:
        named = f"{count} process{'es' if count > 1 else ''} of {SESSIONS} sessions"
        rows.append(spread(f"appends, {named}", "journals", "1/s", rates[count]))
        rows.append(spread(f"CPU per append, {named}", "journals", "µs", writers[count]))
        rows.append(spread(f"CPU per append, {named}", DATABASE, "µs", database[count]))
    return rows


def _append(directory: Path, name: str, count: int, seconds: float) -> list[dict[str, float]]:
    """What each of the processes says of itself. They begin together, once all are there."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.log_nodes", str(directory), f"{name}-{number}", str(seconds)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(count)
        ]
        for process in made:
            _line(process)
        for process in made:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return [json.loads(_line(process)) for process in made]


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _node(directory: Path, name: str, seconds: float) -> None:
    """One of the processes: append, once told to begin, and say how that went."""
    done: list[float] = []
    async with open_log(directory) as log:
        _say("ready")
        sys.stdin.readline()
        began, cpu = trio.current_time(), process_time()
        async with trio.open_nursery() as nursery:
            for session in range(SESSIONS):
                nursery.start_soon(append_repeatedly, log, f"nodes-{name}-{session}", began + seconds, done)
        told = {"appends": len(done), "seconds": trio.current_time() - began, "cpu": process_time() - cpu}
    _say(json.dumps(told))


if __name__ == "__main__":
    trio.run(_node, Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
