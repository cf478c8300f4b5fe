"""Turns of a growing session through this proxy and through another one.

All servers play the same recorded session in turns, from its first request, so that it can be managed. A relay's
*added* time is the median difference to the direct request of the same turn.
"""

import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, cpu_seconds_of, processes_below, single, spread
from benchmarks.history import History, history, kind_of
from benchmarks.load import Client, peer_request
from benchmarks.upstream_server import Played
from benchmarks.variants import BARE, DIRECT, LITELLM, MANAGING, OURS, PEERS

BODY_KB = (50, 150, 600, 1200)
GAP_SECONDS = 0.01
"""Between a reply's beginning and its end."""

PACE_SECONDS = 1.0
"""Seconds between two turns of a session, enough for the work after a turn."""

SETTLE_SECONDS = 0.2
"""Seconds after a burst, so that its remaining work is counted."""

PACED, BURST = "a turn a second", "back to back"

GOALS = {(PACED, OURS): 0.2, (BURST, OURS): 0.3, (PACED, MANAGING): 0.35, (BURST, MANAGING): 0.35}
"""The most that a first byte may be delayed, as a share of what LiteLLM adds."""

P95_GOAL, LAST_GOAL, THROUGHPUT_GOAL = 0.4, 0.4, 3.5
SERVING_GOAL, ALL_GOAL = 3.0, 7.0
"""Processor time a turn over the bare relay's: of the serving process, and of all together."""


@attrs.define
class Player:
    """One session played through one server, turn by turn."""

    server: Server
    whole: History
    session: str
    client: Client
    turn: int = 0

    async def play(self, gap: float = 0.0) -> tuple[float, float]:
        """The next turn: ms to the reply's first byte, and from the sending of its last to its arrival. Behind the last
        turn of the history another session begins.
        """
        if self.turn == self.whole.turns:
            self.turn, self.session = 0, self.session + "+"
        self.turn += 1
        asked = Played(self.whole.kind, self.turn, gap_seconds=gap)
        exchange = await self.client.exchange(peer_request(self.whole, asked, self.session), 1)
        return exchange.first_byte / 1e6, exchange.last_byte / 1e6


async def _players(servers: Sequence[Server], whole: History, session: str) -> list[Player]:
    return [Player(each, whole, session, await Client.connect(each.address)) for each in servers]


@attrs.define
class Times:
    """What one server took, in ms."""

    first: list[float] = attrs.field(factory=list)
    last: list[float] = attrs.field(factory=list)
    serving: list[float] = attrs.field(factory=list)
    """Of processor, in its own process, a turn."""
    all: list[float] = attrs.field(factory=list)
    """Of processor, in all its processes, a turn."""


def turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    """First and last byte, and processor time, of a session's turns at several sizes, paced and back to back."""
    whole = history(kind_of(quick))
    sizes, count = ((50,), 3) if quick else (BODY_KB, 20)
    return trio.run(_turns, servers, whole, sizes, count, 0.05 if quick else PACE_SECONDS)


async def _turns(servers: Sequence[Server], whole: History, sizes: Sequence[int], count: int, pace: float) -> list[Row]:
    players = await _players(servers, whole, "peers-turns")
    rows: list[Row] = []
    for size in sizes:
        first = next(turn for turn in range(1, whole.turns) if len(whole.body(turn)) >= size * 1000)
        for player in players:
            while player.turn < first:
                await player.play()
        rows += _compared(f"{size} KB, {PACED}", PACED, await _paced(players, count, pace))
        rows += _compared(f"{size} KB, {BURST}", BURST, await _bursts(players, count))
    return rows


async def _paced(players: Sequence[Player], count: int, pace: float) -> dict[str, Times]:
    taken = {player.server.name: Times() for player in players}
    for _ in range(count):
        for player in players:
            times, before = taken[player.server.name], _cpu(player.server)
            first, last = await player.play(GAP_SECONDS)
            await trio.sleep(pace / len(players))  # paced, because users pause
            times.first.append(first)
            times.last.append(last)
            _add_cpu(times, player.server, before, 1)
    return taken


async def _bursts(players: Sequence[Player], count: int) -> dict[str, Times]:
    taken = {player.server.name: Times() for player in players}
    for _ in range(4):
        for player in players:
            times, before = taken[player.server.name], _cpu(player.server)
            for _ in range(max(1, count // 4)):
                first, last = await player.play(GAP_SECONDS)
                times.first.append(first)
                times.last.append(last)
            await trio.sleep(SETTLE_SECONDS)
            _add_cpu(times, player.server, before, max(1, count // 4))
    return taken


def _cpu(server: Server) -> tuple[float, float]:
    """Seconds of processor time so far: in the serving process, and in all that it started."""
    if server.pid is None:
        return 0.0, 0.0
    below = processes_below(server.pid)
    # LiteLLM is below a process of ours that waits for it.
    serving = below[0] if server.name == LITELLM and below else server.pid
    return cpu_seconds_of(serving), sum(map(cpu_seconds_of, {server.pid, *below}))


def _add_cpu(times: Times, server: Server, before: tuple[float, float], turns: int) -> None:
    serving, every = _cpu(server)
    times.serving.append((serving - before[0]) * 1000 / turns)
    times.all.append((every - before[1]) * 1000 / turns)


def _compared(name: str, pace: str, taken: dict[str, Times]) -> list[Row]:
    rows: list[Row] = []
    direct = taken[DIRECT]
    added = {
        variant: Times(
            first=[value - floor for value, floor in zip(times.first, direct.first, strict=True)],
            last=[value - floor for value, floor in zip(times.last, direct.last, strict=True)],
        )
        for variant, times in taken.items()
        if variant != DIRECT
    }
    for variant, times in added.items():
        rows.append(spread(f"added first byte, {name}", variant, "ms", times.first))
        rows.append(spread(f"added last byte, {name}", variant, "ms", times.last))
        rows.append(spread(f"CPU of the serving process a turn, {name}", variant, "ms", taken[variant].serving))
        rows.append(spread(f"CPU of all processes a turn, {name}", variant, "ms", taken[variant].all))
    for ours in (OURS, MANAGING):
        rows += _ratios(name, ours, GOALS[pace, ours], added, taken)
    return rows


def _ratios(name: str, ours: str, goal: float, added: dict[str, Times], taken: dict[str, Times]) -> list[Row]:
    def over(numbers: Sequence[float], others: Sequence[float], percent: int = 50) -> float:
        return _percentile(numbers, percent) / max(_percentile(others, percent), 1e-9)

    mine, theirs, named = added[ours], added[LITELLM], f"{ours} ÷ {LITELLM}"
    used, bare, of_bare = taken[ours], taken[BARE], f"{ours} ÷ {BARE}"
    return [
        single(f"added first byte, {name}", named, "ratio", over(mine.first, theirs.first), goal),
        single(f"added first byte, p95, {name}", named, "ratio", over(mine.first, theirs.first, 95), P95_GOAL),
        single(f"added last byte, {name}", named, "ratio", over(mine.last, theirs.last), LAST_GOAL),
        single(f"CPU of the serving process, {name}", of_bare, "ratio", over(used.serving, bare.serving), SERVING_GOAL),
        single(f"CPU of all processes, {name}", of_bare, "ratio", over(used.all, bare.all), ALL_GOAL),
    ]


def _percentile(values: Sequence[float], percent: int) -> float:
    if percent == 50:
        return statistics.median(values)
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1]


def clients(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Turns a second with clients that never wait, each with a session of its own that grows."""
    whole = history(kind_of(quick))
    seconds, rounds = (0.3, 1) if quick else (3.0, 3)
    rows: list[Row] = []
    for count in (1, 8) if quick else (1, 8, 64):
        taken: dict[str, list[float]] = {server.name: [] for server in servers}
        for number in range(rounds):
            for server in servers:
                rate = trio.run(_busy, server, whole, f"peers-{count}-{number}", count, seconds)
                taken[server.name].append(rate)
        name = f"turns, {count} client{'s' if count > 1 else ''}"
        rows += [spread(name, variant, "1/s", rates) for variant, rates in taken.items()]
        for ours in (OURS, MANAGING):
            slower = statistics.median(taken[LITELLM]) / max(statistics.median(taken[ours]), 1e-9)
            goal = 1 / THROUGHPUT_GOAL if ours == OURS and count == 8 else None
            rows.append(single(f"time of a turn, {name}", f"{ours} ÷ {LITELLM}", "ratio", slower, goal))
    return rows


async def _busy(server: Server, whole: History, session: str, count: int, seconds: float) -> float:
    async with busy_clients(server, whole, session, count) as count_turns:
        started, first = trio.current_time(), count_turns()
        await trio.sleep(seconds)
        return max((count_turns() - first) / (trio.current_time() - started), 0.1)


@asynccontextmanager
async def busy_clients(server: Server, whole: History, session: str, count: int) -> AsyncIterator[Callable[[], int]]:
    """Clients that never wait, each with a session of its own; the function counts their turns so far."""
    players = [
        Player(server, whole, f"{session}-{number}", await Client.connect(server.address)) for number in range(count)
    ]
    done, running = 0, True

    async def play(player: Player) -> None:
        nonlocal done
        while running:
            await player.play()
            done += 1

    async with trio.open_nursery() as nursery:
        for player in players:
            nursery.start_soon(play, player)
        yield lambda: done
        running = False
    for player in players:
        await player.client.aclose()


GROUP = Group("peers", PEERS, (Part("turns", turns), Part("clients", clients)), by_default=False)
