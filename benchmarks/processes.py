"""A turn's processor time in each process, and its latency, at an agent's pace.

Variants take turns in groups, so that work after a turn affects the same variant's next turn, and other load affects
all variants alike. Work after the last byte is included: the measurement ends when all is idle. The time that idle
processes take meanwhile is measured afterwards and subtracted.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import trio

from benchmarks.harness import Group, Part, Row, Server, Variant, single, spread
from benchmarks.history import History, history, kind_of
from benchmarks.load import Client, history_request
from benchmarks.peers import busy_clients
from benchmarks.upstream_server import Played
from benchmarks.variants import BARE, DIRECT, OURS, VARIANTS

MANAGED = "mnemosyne, managing"
ONE, TWO = MANAGED, "mnemosyne, managing, 2 processes"
RATE = "turns"

FIRST, TURNS, QUICK_TURNS = 60, 40, 6
"""The session's first turn, and the number of turns measured after it."""

BLOCK = 10
"""Turns before the next variant has its turn."""

PACE_SECONDS = 0.5
"""Between two turns."""

QUIET_SECONDS, QUICK_QUIET_SECONDS, LONGEST_QUIET = 12.0, 0.7, 120.0
"""How long the servers must be idle before a measurement begins or ends, the same for quick runs, and the longest wait
for that. The worker begins when the log has been quiet for up to ten seconds.
"""

QUIET = 0.01
"""Seconds of processor time per second up to which a server is idle: its processes still report to each other."""


def _turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    return trio.run(_measure, [each for each in servers if each.name in (DIRECT, BARE, OURS, MANAGED)], quick)


async def _measure(servers: Sequence[Server], quick: bool) -> list[Row]:
    whole, turns = history(kind_of(quick)), QUICK_TURNS if quick else TURNS
    clients = {each.name: await Client.connect(each.address) for each in servers}
    firsts: dict[str, list[float]] = {each.name: [] for each in servers}
    first, quiet = (4, QUICK_QUIET_SECONDS) if quick else (FIRST, QUIET_SECONDS)
    for each in servers:
        await _play(clients[each.name], whole, range(first, first + 1))
    await wait_until_quiet(servers, quiet)
    began, begun = trio.current_time(), {each.name: each.cpu_by_process() for each in servers}
    for turn in range(first + 1, first + turns + 1, BLOCK):
        block = range(turn, min(turn + BLOCK, first + turns + 1))
        for each in servers:
            firsts[each.name] += await _play(clients[each.name], whole, block)
    await wait_until_quiet(servers, quiet)
    ended, done = trio.current_time(), {each.name: each.cpu_by_process() for each in servers}
    await trio.sleep(quiet)
    idle = {
        each.name: {
            who: (used - done[each.name].get(who, 0)) / (trio.current_time() - ended)
            for who, used in each.cpu_by_process().items()
        }
        for each in servers
    }
    name = f"turns {first + 1}-{first + turns}"
    rows = [spread(f"first byte, {name}", variant, "ms", values) for variant, values in firsts.items()]
    for each in servers[1:]:
        added = [ours - direct for ours, direct in zip(firsts[each.name], firsts[DIRECT], strict=True)]
        rows.append(spread(f"added first byte, {name}", each.name, "ms", added))
    for each in servers[1:]:
        used = {
            who: 1000 * (after - begun[each.name].get(who, 0) - idle[each.name][who] * (ended - began)) / turns
            for who, after in done[each.name].items()
        }
        rows += [single(f"CPU per turn, {name}, {each.name}", who, "ms", value) for who, value in used.items()]
        if len(used) > 1:
            rows.append(single(f"CPU per turn, {name}, {each.name}", "all", "ms", sum(used.values())))
            idles = sum(idle[each.name].values())
            rows.append(single(f"CPU of idle processes a second, {each.name}", "all", "ms", 1000 * idles))
    for client in clients.values():
        await client.aclose()
    return rows


async def _play(client: Client, whole: History, turns: range) -> list[float]:
    """Turns as an agent sends them; milliseconds to the first byte of each."""
    taken = []
    for turn in turns:
        exchange = await client.exchange(history_request(whole, Played(whole.kind, turn), "processes"), 1)
        taken.append(exchange.first_byte / 1e6)
        await trio.sleep(PACE_SECONDS)
    return taken


async def wait_until_quiet(servers: Sequence[Server], seconds: float) -> None:
    """Wait until all servers have been idle for ``seconds``."""
    with trio.move_on_after(LONGEST_QUIET):
        while True:
            before = sum(sum(each.cpu_by_process().values()) for each in servers)
            await trio.sleep(seconds)
            used = sum(sum(each.cpu_by_process().values()) for each in servers) - before
            if used <= QUIET * seconds * len(servers):
                return


def _cores(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Turns a second and processor time per turn, with 8 clients that never wait, for one process and for two."""
    names, rounds = ([ONE, TWO], 1 if quick else 6)
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for each in servers if number % 2 else servers[::-1]:
            if each.name in names:
                taken[each.name].append(trio.run(_busy, each, f"cores-{number}", 0.5 if quick else 5.0))
    return [
        spread(f"{what}, 8 clients", variant, "1/s" if what == RATE else "ms", [each.get(what, 0.0) for each in slices])
        for variant, slices in taken.items()
        for what in slices[-1]
    ]


async def _busy(server: Server, session: str, seconds: float) -> dict[str, float]:
    """Turns a second, and ms of processor time per turn by process; the first second does not count."""
    whole = history(kind_of(quick=False))
    async with busy_clients(server, whole, session, 8) as count_turns:
        await trio.sleep(1)
        began, first = trio.current_time(), count_turns()
        before = server.cpu_by_process() | {"client": time.process_time()}
        await trio.sleep(seconds)
        turns, taken = max(count_turns() - first, 1), trio.current_time() - began
        after = server.cpu_by_process() | {"client": time.process_time()}
    used = {who: 1000 * (seconds - before.get(who, 0.0)) / turns for who, seconds in after.items()}
    return {RATE: turns / taken, **used}


def _memory(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Memory of the idle server and its worker after 8 sessions, when freed memory has been returned to the system."""
    (ours,) = (each for each in servers if each.name == OURS)
    trio.run(_fill, ours, QUICK_TURNS if quick else TURNS)
    if not quick:
        time.sleep(LONGEST_QUIET)
    used = ours.own_memory_mb()
    name = "memory, idle after 8 sessions"
    return [
        *(single(name, who, "MB", size) for who, size in used.items()),
        single(name, "all", "MB", sum(used.values()), 130.0),
    ]


async def _fill(server: Server, turns: int) -> None:
    whole = history(kind_of(turns == QUICK_TURNS))

    async def play(session: str) -> None:
        client = await Client.connect(server.address)
        for turn in range(1, turns + 1):
            await client.exchange(history_request(whole, Played(whole.kind, turn), session), 1)
        await client.aclose()

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(play, f"memory-{number}")


def _managed(url: str, own: Path) -> Sequence[str]:
    (command,) = (each.command for each in VARIANTS if each.name == OURS)
    assert command is not None
    return (*command(url, own), "--mode", "manage")


def _two(url: str, own: Path) -> Sequence[str]:
    return (*_managed(url, own), "--processes", "2")


GROUP = Group(
    "processes",
    (
        *(each for each in VARIANTS if each.name in (DIRECT, BARE, OURS)),
        Variant(MANAGED, _managed),
        Variant(TWO, _two),
    ),
    (Part("memory", _memory), Part("turns", _turns), Part("cores", _cores)),
)
