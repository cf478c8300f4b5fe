"""A turn's processor time in each process, and its latency, at an agent's pace.

Variants take turns in groups, so that work after a turn affects the same variant's next turn, and other load affects
all variants alike. Work after the last byte is included: the measurement ends when all is idle. The time that idle
processes take meanwhile is measured afterwards and subtracted.
"""

import math
import time
from collections.abc import Sequence

import trio

from benchmarks.harness import SERVING, WORKER, Group, Row, Server, find_process, read_memory_mb, single, spread
from benchmarks.history import history, kind_of
from benchmarks.load import Player, Throughput, keep_busy, requests_of
from benchmarks.variants import BARE, DIRECT, MANAGING, OURS, TWO, choose

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


def turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    """First byte and processor time of each process, for turns of one session."""
    return trio.run(_measure, [each for each in servers if each.name != TWO], quick)


async def _measure(servers: Sequence[Server], quick: bool) -> list[Row]:
    whole, turns = history(kind_of(quick)), QUICK_TURNS if quick else TURNS
    firsts: dict[str, list[float]] = {each.name: [] for each in servers}
    first, quiet = (4, QUICK_QUIET_SECONDS) if quick else (FIRST, QUIET_SECONDS)
    players = [Player(each, requests_of(whole, "processes", first=first)) for each in servers]
    for player in players:
        await player.play()
    await wait_until_quiet(servers, quiet)
    began, begun = trio.current_time(), _cpu(servers)
    for done in range(0, turns, BLOCK):
        for player in players:
            for _ in range(min(BLOCK, turns - done)):
                firsts[player.server.name].append((await player.play()).first_byte)
                await trio.sleep(PACE_SECONDS)
    await wait_until_quiet(servers, quiet)
    ended, done_by = trio.current_time(), _cpu(servers)
    await trio.sleep(quiet)
    after, passed = _cpu(servers), trio.current_time() - ended
    name = f"turns {first + 1}-{first + turns}"
    rows = [spread(f"first byte, {name}", variant, "ms", values) for variant, values in firsts.items()]
    direct = firsts.pop(DIRECT)
    for variant, values in firsts.items():
        added = [ours - floor for ours, floor in zip(values, direct, strict=True)]
        rows.append(spread(f"added first byte, {name}", variant, "ms", added))
    for variant in firsts:
        idle = {who: (used - done_by[variant].get(who, 0)) / passed for who, used in after[variant].items()}
        used = {
            who: 1000 * (until - begun[variant].get(who, 0) - idle[who] * (ended - began)) / turns
            for who, until in done_by[variant].items()
        }
        rows += [single(f"CPU per turn, {name}, {variant}", who, "ms", value) for who, value in used.items()]
        if len(used) > 1:
            rows.append(single(f"CPU per turn, {name}, {variant}", "all", "ms", sum(used.values())))
            idles = sum(idle.values())
            rows.append(single(f"CPU of idle processes a second, {variant}", "all", "ms", 1000 * idles))
    return rows


def _cpu(servers: Sequence[Server]) -> dict[str, dict[str, float]]:
    return {each.name: each.cpu_by_process() for each in servers}


async def wait_until_quiet(servers: Sequence[Server], seconds: float) -> None:
    """Wait until all servers have been idle for ``seconds``."""

    def sum_cpu() -> float:
        return sum(sum(each.values()) for each in _cpu(servers).values())

    with trio.move_on_after(LONGEST_QUIET):
        before = -math.inf
        while (used := sum_cpu()) - before > QUIET * seconds * len(servers):
            before = used
            await trio.sleep(seconds)


def cores(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Turns a second and processor time per turn, with 8 clients that never wait, for one process and for two."""
    compared, whole = [each for each in servers if each.name in (MANAGING, TWO)], history(kind_of(quick=False))
    taken: dict[str, list[Throughput]] = {each.name: [] for each in compared}
    for number in range(1 if quick else 6):
        for each in compared if number % 2 else compared[::-1]:
            sessions = [requests_of(whole, f"cores-{number}-{client}") for client in range(8)]
            taken[each.name].append(trio.run(keep_busy, each, sessions, 1, 0.5 if quick else 5.0))
    rows = []
    for variant, slices in taken.items():
        rows.append(spread("turns, 8 clients", variant, "1/s", [each.rate for each in slices]))
        rows += [
            spread(f"{who}, 8 clients", variant, "ms", [each.cpu_ms.get(who, 0.0) for each in slices])
            for who in slices[-1].cpu
        ]
    return rows


def memory(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Memory of the idle server and its worker after 8 sessions, when freed memory has been returned to the system.
    Libraries count once.
    """
    (ours,) = (each for each in servers if each.name == OURS)
    trio.run(_fill, ours, quick)
    if not quick:
        time.sleep(LONGEST_QUIET)
    assert ours.pid is not None
    pids = {SERVING: ours.pid, WORKER: find_process(ours, WORKER)}
    used = {kind: read_memory_mb(pid, "Anonymous") for kind, pid in pids.items()}
    used["libraries and programs"] = max(read_memory_mb(pid, "Rss") - used[kind] for kind, pid in pids.items())
    name = "memory, idle after 8 sessions"
    return [
        *(single(name, who, "MB", size) for who, size in used.items()),
        single(name, "all", "MB", sum(used.values()), 130.0),
    ]


async def _fill(server: Server, quick: bool) -> None:
    async def play(player: Player) -> None:
        for _ in range(QUICK_TURNS if quick else TURNS):
            await player.play()

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(play, Player(server, requests_of(history(kind_of(quick)), f"memory-{number}")))


GROUP = Group(
    "processes", choose(DIRECT, BARE, OURS, MANAGING, TWO), {"memory": memory, "turns": turns, "cores": cores}
)
