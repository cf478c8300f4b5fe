"""The cost of the log: latency, processor time, space, and their growth with a session.

The session is that of ``history.py``. A server's cost is the difference to the same application without its log, for
the same requests, taken in turns.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

from benchmarks import log_context, log_inside
from benchmarks.harness import DATABASE, SERVING, Group, Part, Row, Server, single, spread
from benchmarks.history import History, history, kind_of
from benchmarks.inside import open_log, record
from benchmarks.load import Client, history_request
from benchmarks.upstream_server import Played
from benchmarks.variants import BARE, OURS, UNLOGGED, VARIANTS, data_dir

CPU_RATIO_GOAL = 1.3

BODY_KB = (50, 150, 600, 1200)
THINKING_SECONDS = 0.05
"""How soon a model can begin to answer, at the very least."""
GAP_SECONDS = 0.01
"""Between a reply's beginning and its end."""

SETTLE_SECONDS = 0.005

LOG_COSTS = "added by the log"
"""The whole server less the one without its log: the difference within each round, and its median."""


@attrs.frozen
class Window:
    """Turns of a session whose processor time is compared."""

    name: str
    first: int
    last: int

    @property
    def session(self) -> str:
        return f"cpu-{self.name}"


def durability(servers: Sequence[Server], quick: bool) -> list[Row]:
    """What durability adds to the first and the last byte of turns that go on from each other."""
    whole = history(kind_of(quick))
    sizes, rounds = ((50,), 4) if quick else (BODY_KB, 60)
    rows: list[Row] = []
    for size in sizes:
        first = next((turn for turn in range(1, whole.turns) if len(whole.body(turn)) >= size * 1000), 1)
        for wait, named in ((0.0, "answered at once"), (THINKING_SECONDS, f"after {THINKING_SECONDS * 1000:g} ms")):
            session = f"durability-{size}-{named.replace(' ', '-')}"
            plan = [Played(whole.kind, first + number, wait, GAP_SECONDS) for number in range(rounds + 2)]
            begins, ends = trio.run(_first_and_last, _with_relays(servers), whole, plan, session)
            rows += _compared(f"first byte, {size} KB, {named}", begins)
            if wait:
                rows += _compared(f"last byte, {size} KB", ends)
    return rows


Times = dict[str, list[float]]


async def _first_and_last(
    servers: Sequence[Server], whole: History, plan: Sequence[Played], session: str
) -> tuple[Times, Times]:
    clients = {server.name: await Client.connect(server.address) for server in servers}
    begins: Times = {server.name: [] for server in servers}
    ends: Times = {server.name: [] for server in servers}
    for number, asked in enumerate(plan):
        request = history_request(whole, asked, session)
        for name, client in clients.items():
            exchange = await client.exchange(request, 1)
            await trio.sleep(SETTLE_SECONDS)
            if number >= 2:
                begins[name].append(exchange.first_byte / 1e6 - asked.wait_seconds * 1000)
                ends[name].append(exchange.last_byte / 1e6)
    for client in clients.values():
        await client.aclose()
    return begins, ends


def _with_relays(servers: Sequence[Server]) -> list[Server]:
    return [server for server in servers if server.name in (BARE, UNLOGGED, OURS)]


def _compared(name: str, times: Times) -> list[Row]:
    rows = [spread(name, variant, "ms", values) for variant, values in times.items()]
    return [*rows, spread(name, LOG_COSTS, "ms", _differences(times))]


def _differences(times: Times) -> list[float]:
    return [ours - without for ours, without in zip(times[OURS], times[UNLOGGED], strict=True)]


def cpu(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Processor time for each turn above the relay's, late in a long session against early."""
    whole = history(kind_of(quick))
    early, late = (Window("early", 4, 11), Window("late", 44, 51)) if quick else _windows(whole)
    server = {server.name: server for server in servers}
    trio.run(_prepare, data_dir(server[OURS].own), whole, (early, late))
    taken = trio.run(_cpu_of_turns, [server[UNLOGGED], server[OURS]], whole, (early, late))
    rows: list[Row] = []
    above = {}
    for window in (early, late):
        name = f"CPU per turn, turns {window.first}-{window.last}"
        of_window = {variant: taken[window.name, variant] for variant in (UNLOGGED, OURS)}
        above[window.name] = _differences(of_window)
        rows += _compared(name, of_window)
        rows.append(spread(name, DATABASE, "ms", taken[window.name, DATABASE]))
        rows.append(single(f"body, turn {window.last}", "client", "KB", len(whole.body(window.last)) / 1000))
    ratio = statistics.median(above["late"]) / max(statistics.median(above["early"]), 1e-9)
    name = f"CPU above the relay, turns {late.first}-{late.last} ÷ {early.first}-{early.last}"
    return [*rows, single(name, LOG_COSTS, "ratio", ratio, CPU_RATIO_GOAL)]


def _windows(whole: History) -> tuple[Window, Window]:
    late = min(1_960, whole.turns - 80)
    return Window("early", 60, 140), Window("late", late, late + 80)


async def _prepare(directory: Path, whole: History, windows: Sequence[Window]) -> None:
    async with open_log(directory) as log:
        for window in windows:
            await record(log, whole, window.session, 1, window.first - 1)


async def _cpu_of_turns(
    servers: Sequence[Server], whole: History, windows: Sequence[Window]
) -> dict[tuple[str, str], list[float]]:
    """Milliseconds of processor time by window and variant, for each turn but the first two: those wake the session."""
    clients = {server.name: await Client.connect(server.address) for server in servers}
    taken: dict[tuple[str, str], list[float]] = {}
    for number in range(windows[0].last - windows[0].first + 1):
        for window in windows:
            asked = Played(whole.kind, window.first + number)
            request = history_request(whole, asked, window.session)
            for server in servers:
                before = server.cpu_by_process()
                await clients[server.name].exchange(request, 1)
                # Work after the last byte counts, too.
                await trio.sleep(SETTLE_SECONDS)
                spent = {who: used - before.get(who, 0.0) for who, used in server.cpu_by_process().items()}
                if number >= 2:
                    taken.setdefault((window.name, server.name), []).append(spent[SERVING] * 1000)
                    if DATABASE in spent:
                        taken.setdefault((window.name, DATABASE), []).append(spent[DATABASE] * 1000)
    for client in clients.values():
        await client.aclose()
    return taken


GROUP = Group(
    "log",
    VARIANTS,
    (
        Part("durability", durability),
        Part("cpu", cpu),
        Part("space", log_inside.space),
        Part("context", log_context.context),
        Part("appends", log_inside.appends),
    ),
)
