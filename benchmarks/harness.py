"""Shared code of the groups: rows, the compared servers, and their figures from the kernel."""

import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import attrs

from benchmarks.load import Address

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
    ordered = sorted(values)
    return Row(
        name,
        variant,
        unit,
        statistics.median(ordered),
        _nearest(ordered, 95),
        _nearest(ordered, 99),
        len(ordered),
        goal,
    )


def single(name: str, variant: str, unit: str, value: float, goal: float | None = None) -> Row:
    """The row for a number that has no spread: a ratio of medians, an amount of memory."""
    return Row(name, variant, unit, value, None, None, 1, goal)


def _nearest(ordered: Sequence[float], percent: int) -> float:
    rank = -(-len(ordered) * percent // 100)
    return ordered[rank - 1]


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


def cpu_seconds_of_all(pid: int) -> float:
    """Processor time of a process and of all that it started, also of those that have ended by now."""
    return sum(map(_seconds_waited_for, (pid, *processes_below(pid))))


def _seconds_waited_for(pid: int) -> float:
    """Processor time of a process and of those that it started and that ended, in hundredths of a second."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0.0
    return sum(map(int, fields[11:15])) * _TICK


SERVING, WORKER, DATABASE = "serving process", "worker", "PostgreSQL"
"""Kinds of a server's processes."""

FILES = "libraries and programs"
"""Files in memory that the server and its worker share."""

_TELLING = {b"\0worker\0": WORKER, b"\0--place\0": SERVING}
"""By what in its command line a process is known."""


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

    def cpu_seconds(self) -> float:
        """Processor time of the process so far, with all its threads; 0 without one."""
        return 0.0 if self.pid is None else cpu_seconds_of(self.pid)

    def cpu_by_process(self) -> dict[str, float]:
        """Processor time by kind of process; a finished process counts for its parent."""
        if self.pid is None:
            return {}
        used = {SERVING: self.cpu_seconds()}
        for pid in processes_below(self.pid):
            with suppress(OSError):  # it ended meanwhile
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                kind = next((kind for word, kind in _TELLING.items() if word in command), DATABASE)
                used[kind] = used.get(kind, 0.0) + _seconds_waited_for(pid)
        return used

    def own_memory_mb(self) -> dict[str, float]:
        """Memory in MB: anonymous memory of the serving process and of the worker, and, once, their mapped files."""
        used = {}
        for kind, pid in ((SERVING, self.pid), (WORKER, find_process(self, WORKER))):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
            kilobytes = {name: int(size.split()[0]) for name, size in (line.split(":") for line in rollup)}
            used[kind] = kilobytes["Anonymous"] / 1000
            used[FILES] = max(used.get(FILES, 0.0), (kilobytes["Rss"] - kilobytes["Anonymous"]) / 1000)
        return used

    def memory_mb(self) -> tuple[float, float]:
        """Resident memory in MB: now, and at its highest since the start or since ``forget_peak``."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Vm")}
        return int(kilobytes["VmRSS"]) / 1000, int(kilobytes["VmHWM"]) / 1000

    def forget_peak(self) -> None:
        """Reset the peak of the resident memory to its current value."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


def find_process(server: Server, kind: str) -> int:
    """A process of this kind below a server, which may still be starting. Raises RuntimeError after START_SECONDS."""
    (word,) = (word for word, named in _TELLING.items() if named == kind)
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        for pid in processes_below(server.pid):
            with suppress(OSError):  # it ended meanwhile
                if word in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        time.sleep(0.1)
    raise RuntimeError(f"{server.name} has no {kind}")


@attrs.frozen
class Part:
    """One measurement of a group; ``run`` gets the group's servers in their order, and whether to be quick."""

    name: str
    run: Callable[[Sequence[Server], bool], list[Row]]


@attrs.frozen
class Group:
    """Measurements that share their variants, which run side by side for all of them."""

    name: str
    variants: Sequence[Variant]
    parts: Sequence[Part]
    by_default: bool = True
    """Whether it runs where nothing is named; not one that installs something first."""


def run_group(group: Group, parts: Sequence[Part], *, quick: bool, say: Callable[[str], None]) -> list[Row]:
    """Start the group's servers, take the measurements, stop the servers."""
    rows = []
    with running(group.variants) as servers:
        for part in parts:
            say(f"{group.name}.{part.name} …")
            rows += part.run(servers, quick)
    return rows


@contextmanager
def running(variants: Sequence[Variant]) -> Iterator[list[Server]]:
    """The variants' servers and one upstream for all of them, for as long as the context lasts."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-")))
        module = [sys.executable, "-m", "benchmarks.upstream_server"]
        address, _ = stack.enter_context(serve_process(module, base / "upstream"))
        url = f"http://{address.host}:{address.port}"
        servers = []
        for number, variant in enumerate(variants):
            own = base / f"variant-{number}"
            if variant.command is None:
                servers.append(Server(variant.name, address, None, own))
                continue
            own_address, pid = stack.enter_context(serve_process(variant.command(url, own), own))
            servers.append(Server(variant.name, own_address, pid, own))
        yield servers


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
