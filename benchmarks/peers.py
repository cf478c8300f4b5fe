"""Turns of a growing session through this proxy and through others.

All servers play the same recorded session in turns, from its first request, so that it can be managed. A relay's
*added* time is the median difference to the direct request of the same turn.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import trio

from benchmarks.harness import SERVING, Group, Row, Server, percentile, ratio, spread
from benchmarks.history import history, kind_of
from benchmarks.load import Player, keep_busy, requests_of
from benchmarks.variants import BARE, DIRECT, LITELLM, MANAGING, OURS, choose

BODY_KB = (50, 150, 600, 1200)
GAP_SECONDS = 0.01
"""Between a reply's beginning and its end."""

PACE_SECONDS = 1.0
"""Seconds between two turns of a session, enough for the work after a turn."""

SETTLE_SECONDS = 0.2
"""Seconds after a burst, so that its remaining work is counted."""

PACED, BURST = "a turn a second", "back to back"
FIRST, LAST, CPU, ALL = "first byte", "last byte", "CPU of the serving process", "CPU of all processes"

GOALS = {(PACED, OURS): 0.2, (BURST, OURS): 0.3, (PACED, MANAGING): 0.35, (BURST, MANAGING): 0.35}
"""The most that a first byte may be delayed, as a share of what LiteLLM adds."""

P95_GOAL, LAST_GOAL, THROUGHPUT_GOAL = 0.4, 0.4, 3.5
SERVING_GOAL, ALL_GOAL = 3.0, 7.0
"""Processor time a turn over the bare relay's: of the serving process, and of all together."""

Times = Mapping[str, Mapping[str, list[float]]]
"""In ms, by figure and variant; times to a byte are those added to the direct request."""


def turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    """First and last byte, and processor time, of a session's turns at several sizes, paced and back to back."""
    rows: list[Row] = []
    for size, pace, times in trio.run(play_turns, servers, quick):
        name = f"{size} KB, {pace}"
        figures = {FIRST: f"added {FIRST}", LAST: f"added {LAST}", CPU: f"{CPU} a turn", ALL: f"{ALL} a turn"}
        for variant, (figure, said) in product(times[FIRST], figures.items()):
            rows.append(spread(f"{said}, {name}", variant, "ms", times[figure][variant]))
        for ours in (OURS, MANAGING):
            slowest = {variant: [percentile(values, 95)] for variant, values in times[FIRST].items()}
            rows += [
                ratio(f"added first byte, {name}", ours, LITELLM, times[FIRST], GOALS[pace, ours]),
                ratio(f"added first byte, p95, {name}", ours, LITELLM, slowest, P95_GOAL),
                ratio(f"added last byte, {name}", ours, LITELLM, times[LAST], LAST_GOAL),
                ratio(f"{CPU}, {name}", ours, BARE, times[CPU], SERVING_GOAL),
                ratio(f"{ALL}, {name}", ours, BARE, times[ALL], ALL_GOAL),
            ]
    return rows


async def play_turns(servers: Sequence[Server], quick: bool) -> list[tuple[int, str, Times]]:
    """The times of turns of each size in KB and at each pace."""
    whole = history(kind_of(quick))
    sizes, count, pace = ((50,), 3, 0.05) if quick else (BODY_KB, 20, PACE_SECONDS)
    players = [Player(each, requests_of(whole, "peers-turns", gap=GAP_SECONDS)) for each in servers]
    found = []
    for size in sizes:
        first = next(turn for turn in range(1, whole.turns) if len(whole.body(turn)) >= size * 1000)
        for player in players:
            while player.turn < first:
                await player.play()
        found.append((size, PACED, await _take(players, count, 1, pace / len(players))))
        found.append((size, BURST, await _take(players, 4, max(1, count // 4), SETTLE_SECONDS)))
    return found


async def _take(players: Sequence[Player], rounds: int, count: int, pause: float) -> Times:
    """Rounds in which each server takes so many turns one after the other, and then rests for ``pause`` seconds."""
    times: dict[str, dict[str, list[float]]] = {
        figure: {each.server.name: [] for each in players} for figure in (FIRST, LAST, CPU, ALL)
    }
    for _ in range(rounds):
        for player in players:
            name, before = player.server.name, _cpu_ms(player.server)
            for _ in range(count):
                exchange = await player.play()
                times[FIRST][name].append(exchange.first_byte)
                times[LAST][name].append(exchange.last_byte)
            await trio.sleep(pause)
            for figure, used in _cpu_ms(player.server).items():
                times[figure][name].append((used - before[figure]) / count)
    for figure, taken in times.items():
        direct = taken.pop(DIRECT)
        for name, values in taken.items() if figure in (FIRST, LAST) else ():
            taken[name] = [value - floor for value, floor in zip(values, direct, strict=True)]
    return times


def _cpu_ms(server: Server) -> dict[str, float]:
    """Processor time so far in ms, by figure."""
    used = {who: 1000 * seconds for who, seconds in server.cpu_by_process().items()}
    every = sum(used.values())
    # LiteLLM is below a process of ours that waits for it.
    return {CPU: every if server.name == LITELLM else used.get(SERVING, 0.0), ALL: every}


def clients(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Turns a second with clients that never wait, each with a session of its own that grows."""
    whole, seconds, rounds = history(kind_of(quick)), *((0.3, 1) if quick else (3.0, 3))
    rows: list[Row] = []
    for count in (1, 8) if quick else (1, 8, 64):
        rates: dict[str, list[float]] = {server.name: [] for server in servers}
        for number in range(rounds):
            for server in servers:
                sessions = [requests_of(whole, f"peers-{count}-{number}-{each}") for each in range(count)]
                rates[server.name].append(trio.run(keep_busy, server, sessions, 1, seconds).rate)
        name = f"turns, {count} client{'s' if count > 1 else ''}"
        rows += [spread(name, variant, "1/s", values) for variant, values in rates.items()]
        times = {variant: [1 / value for value in values] for variant, values in rates.items()}
        for ours in (OURS, MANAGING):
            goal = 1 / THROUGHPUT_GOAL if ours == OURS and count == 8 else None
            rows.append(ratio(f"time of a turn, {name}", ours, LITELLM, times, goal))
    return rows


GROUP = Group(
    "peers", choose(DIRECT, BARE, LITELLM, OURS, MANAGING), {"turns": turns, "clients": clients}, by_default=False
)
