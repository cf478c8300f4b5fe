"""Shared code of the groups: rows, the compared servers, and their figures from the kernel."""

import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import attrs
import click
import trio

START_SECONDS = 300.0
"""How long a server may take until it says where it listens."""

STOP_SECONDS = 5.0

_URL = re.compile(r"http://([\d.]+):(\d+)")


@attrs.frozen
class Row:
    """One result. ``goal`` is the most that ``median`` may be; None where nothing is promised."""

    name: str
    variant: str
    unit: str
    median: float
    p95: float | None
    p99: float | None
    n: int
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.median <= self.goal


def spread(name: str, variant: str, unit: str, values: Sequence[float], goal: float | None = None) -> Row:
    """The row for many measurements of one thing."""
    ninth, last = percentile(values, 95), percentile(values, 99)
    return Row(name, variant, unit, statistics.median(values), ninth, last, len(values), goal)


def single(name: str, variant: str, unit: str, value: float, goal: float | None = None) -> Row:
    """The row for a number that has no spread: a ratio of medians, an amount of memory."""
    return Row(name, variant, unit, value, None, None, 1, goal)


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that this many percent of the values do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]


def ratio(name: str, ours: str, other: str, values: Mapping[str, Sequence[float]], goal: float | None = None) -> Row:
    """The row for a variant's median divided by another's."""
    value = statistics.median(values[ours]) / max(statistics.median(values[other]), 1e-9)
    return single(name, f"{ours} ÷ {other}", "ratio", value, goal)


def cpu_seconds_of(pid: int) -> float:
    """Processor time of a process: what /proc/PID/stat has in hundredths of a second, in nanoseconds."""
    # clock_getcpuclockid(3), which Python does not have: Linux makes the clock's number of the process's.
    return time.clock_gettime(~pid << 3 | 2)


def processes_below(pid: int | None) -> list[int]:
    """The processes that a process started, and those that they started."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    below = [pid] if pid is not None else []
    for known in below:
        below += [child for child, parent in parents.items() if parent == known]
    return below[1:]


_TICK = 1 / os.sysconf("SC_CLK_TCK")


def _seconds_with_ended(pid: int) -> float:
    """Processor time of a process and of those that it started and that ended; theirs in hundredths of a second."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cpu_seconds_of(pid) + sum(map(int, fields[13:15])) * _TICK
    except OSError:  # it ended meanwhile
        return 0.0


SERVING, WORKER, DATABASE = "serving process", "worker", "PostgreSQL"
"""Kinds of a server's processes."""

_TELLING = {b"\0worker\0": WORKER, b"\0--place\0": SERVING}
"""By what in its command line a process is known."""


def _kind_of(pid: int) -> str:
    with suppress(OSError):  # it ended meanwhile
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return next((kind for word, kind in _TELLING.items() if word in command), DATABASE)
    return DATABASE


@attrs.frozen
class Address:
    """Where a server listens."""

    host: str
    port: int


@attrs.frozen
class Variant:
    """One of the things compared. ``command`` makes the command line that serves it from the upstream's URL and a
    directory of its own; None means that the client speaks to the upstream itself.
    """

    name: str
    command: Callable[[str, Path], Sequence[str]] | None = None


@attrs.frozen
class Server:
    """A running variant. ``pid`` is None without a process between client and upstream; ``own`` is its directory."""

    name: str
    address: Address
    pid: int | None
    own: Path

    @property
    def data_dir(self) -> Path:
        """Where Mnemosyne keeps its log."""
        return self.own / "data"

    def cpu_by_process(self) -> dict[str, float]:
        """Processor seconds so far by kind of process; a finished process counts for its parent."""
        if self.pid is None:
            return {}
        used = {SERVING: cpu_seconds_of(self.pid)}
        for pid in processes_below(self.pid):
            kind = _kind_of(pid)
            used[kind] = used.get(kind, 0.0) + _seconds_with_ended(pid)
        return used


def read_memory_mb(pid: int, kind: str) -> float:
    """MB of a process: of kind ``Anonymous``, ``Rss``, or ``Pss``, which divides what processes share among them."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition(f"\n{kind}:")[2].split()[0]) / 1000


def find_process(server: Server, kind: str) -> int:
    """A process of this kind below a server, which may still be starting. Raises RuntimeError after START_SECONDS."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if found := [pid for pid in processes_below(server.pid) if _kind_of(pid) == kind]:
            return found[0]
        time.sleep(0.1)
    raise RuntimeError(f"{server.name} has no {kind}")


Run = Callable[[Sequence[Server], bool], list[Row]]
"""Measures the group's servers, in their order; ``quick`` only checks that it runs."""


@attrs.frozen
class Group:
    """Measurements that share their variants, which run side by side for all of them."""

    name: str
    variants: Sequence[Variant]
    parts: Mapping[str, Run]
    by_default: bool = True
    """Whether it runs where nothing is named; not one that installs something first."""


def run_group(group: Group, parts: Collection[str], *, quick: bool, say: Callable[[str], None]) -> list[Row]:
    """Start the servers of the group's variants and one upstream for all of them, take the measurements, stop them."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-")))
        module = [sys.executable, "-m", "benchmarks.upstream_server"]
        address, _ = stack.enter_context(serve_process(module, base / "upstream"))
        url = f"http://{address.host}:{address.port}"
        servers = []
        for number, variant in enumerate(group.variants):
            own = base / f"variant-{number}"
            if variant.command is None:
                servers.append(Server(variant.name, address, None, own))
                continue
            own_address, pid = stack.enter_context(serve_process(variant.command(url, own), own))
            servers.append(Server(variant.name, own_address, pid, own))
        rows = []
        for name in parts:
            say(f"{group.name}.{name} …")
            rows += group.parts[name](servers, quick)
        return rows


async def serve(name: str, handler: Callable[[trio.SocketStream], Awaitable[object]]) -> None:
    """Serve connections on loopback, on a free port that it prints."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=512)
    click.echo(f"{name} listening on http://127.0.0.1:{listener.socket.getsockname()[1]}")
    await trio.serve_listeners(handler, [listener])


@contextmanager
def serve_process(command: Sequence[str], own: Path) -> Iterator[tuple[Address, int]]:
    """Run a server process that prints its address; its stderr is shown if it fails to."""
    own.mkdir(mode=0o700)
    with (
        (own / "stderr").open("w+") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=_environment(os.environ)) as process,
    ):
        try:
            address = _address(process, own / "stderr")
            if "serve" in command:
                _wait_for_log(process, own / "stderr")
            yield address, process.pid
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: "subprocess.Popen[bytes]", stderr: Path) -> Address:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline().decode() if ready else ""
    found = _URL.search(line)
    if found is None:
        raise RuntimeError(f"{process.args!r} did not start: {line}{stderr.read_text()}")
    return Address(found[1], int(found[2]))


def _wait_for_log(process: "subprocess.Popen[bytes]", stderr: Path) -> None:
    """Wait until a server has opened its log: it plans all turns of a conversation that it could not look up."""
    end = time.monotonic() + START_SECONDS
    while "the log is open" not in stderr.read_text():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{process.args!r} has not opened its log: {stderr.read_text()}")
        time.sleep(0.1)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would configure the proxy: it runs with its defaults, but downloads no model."""
    kept = {name: value for name, value in environ.items() if not name.startswith("MNEMOSYNE_")}
    return kept | {"MNEMOSYNE_SEMANTIC_SEARCH": "false"}
