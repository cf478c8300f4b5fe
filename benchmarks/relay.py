"""The cost of the relay compared with no proxy and with a minimal relay.

The goals apply to the application without its log; the whole server is shown for comparison.

Each measurement takes the variants in turn, so that other load affects all alike. A relay's *added* time is the median
difference to the direct request of the same turn.
"""

import statistics
from collections.abc import Mapping, Sequence

import attrs
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.load import Address, Client, one_stream, request_bytes, streams_at_once
from benchmarks.upstream_server import Script
from benchmarks.variants import BARE, DIRECT, OURS, UNLOGGED, VARIANTS

COMPARED = (UNLOGGED, OURS)
"""Measurements shown relative to the bare relay."""

FIRST_BYTE_RATIO_GOAL = 3.0
DELTA_GOAL_MS = 0.5
RSS_GOAL_MB = 120.0
RSS_QUIET_MB = 110.0
QUIET_SECONDS = 15.0

BODY_KB = (1, 50, 150, 600, 1200)
REPLY_DELTAS = 26
TYPICAL_KB = 50
"""The default size of a request body."""

SETTLE_SECONDS = 0.003
"""Pause after each request of which the first byte is timed."""


def first_byte(servers: Sequence[Server], quick: bool) -> list[Row]:
    """From the request's first byte sent to the reply's first byte received, for requests of several sizes."""
    sizes, rounds = ((1, 150), 5) if quick else (BODY_KB, 300)
    rows: list[Row] = []
    cases = [(size, f"{size} KB", f"first-byte-{size}") for size in sizes]
    for size, named, session in [*cases, (TYPICAL_KB, f"{TYPICAL_KB} KB, session not named", None)]:
        times = trio.run(_first_byte_times, servers, size * 1000, session, rounds)
        rows += [spread(f"first byte, {named}", name, "ms", values) for name, values in times.items()]
        rows += _added(f"added first byte, {named}", times)
    return rows


async def _first_byte_times(
    servers: Sequence[Server], body_bytes: int, session: str | None, rounds: int
) -> dict[str, list[float]]:
    # The rest of the reply comes later, so that one variant's first byte does not compete with another's last ones.
    script = Script(deltas=2, gap_seconds=0.001)
    request = request_bytes(body_bytes, script, session)
    clients = {server.name: await Client.connect(server.address) for server in servers}
    times: dict[str, list[float]] = {server.name: [] for server in servers}
    for number in range(-max(2, rounds // 20), rounds):
        for name, client in clients.items():
            exchange = await client.exchange(request, script.deltas)
            await trio.sleep(SETTLE_SECONDS)
            if number >= 0:
                times[name].append(exchange.first_byte / 1e6)
    for client in clients.values():
        await client.aclose()
    return times


def _added(name: str, times: dict[str, list[float]]) -> list[Row]:
    """What each relay adds to the direct request of the same turn, and how much more ours do than the bare one."""
    added = {
        variant: [value - direct for value, direct in zip(values, times[DIRECT], strict=True)]
        for variant, values in times.items()
        if variant != DIRECT
    }
    rows = [spread(name, variant, "ms", values) for variant, values in added.items()]
    return [*rows, *_ratios(name, added, FIRST_BYTE_RATIO_GOAL)]


def _ratios(name: str, values: Mapping[str, Sequence[float]], goal: float | None = None) -> list[Row]:
    """Ours against the bare relay, as ratios of medians."""
    bare = max(statistics.median(values[BARE]), 1e-9)
    return [
        single(
            name,
            f"{variant} ÷ {BARE}",
            "ratio",
            statistics.median(values[variant]) / bare,
            goal if variant == UNLOGGED else None,
        )
        for variant in COMPARED
    ]


def deltas(servers: Sequence[Server], quick: bool) -> list[Row]:
    """From a delta sent by the upstream to the same delta received, on streams paced like a model's."""
    script, rounds = (Script(5, 0.01), 2) if quick else (Script(40, 0.02), 15)
    rows: list[Row] = []
    for clients in (1, 4) if quick else (1, 16):
        delays = trio.run(_delta_delays, servers, script, clients, rounds if clients == 1 else max(1, rounds // 3))
        name = f"delta, {clients} paced stream{'s' if clients > 1 else ''}"
        rows += [spread(name, variant, "ms", values) for variant, values in delays.items()]
        direct = statistics.median(delays[DIRECT])
        for variant, values in delays.items():
            if variant != DIRECT:
                goal = DELTA_GOAL_MS if variant == UNLOGGED and clients == 1 else None
                rows.append(spread(f"added {name}", variant, "ms", [value - direct for value in values], goal))
    return rows


async def _delta_delays(servers: Sequence[Server], script: Script, clients: int, rounds: int) -> dict[str, list[float]]:
    requests = _of_sessions("deltas", TYPICAL_KB, script, clients)
    apart = script.gap_seconds / clients
    delays: dict[str, list[float]] = {server.name: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            for exchange in await streams_at_once(server.address, requests, script.deltas, apart):
                delays[server.name] += [delay / 1e6 for delay in exchange.delays]
    return delays


def throughput(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Requests per second, and the relay's processor time for each, with clients that never wait."""
    seconds, rounds = (0.2, 1) if quick else (2.0, 5)
    rows: list[Row] = []
    for clients in (1, 8) if quick else (1, 8, 64):
        # Many clients work in lockstep: a longer slice reduces the share of the unfinished last round.
        length = seconds * 3 if clients > 8 else seconds
        slices: dict[str, list[_Slice]] = {server.name: [] for server in servers}
        for _ in range(rounds):
            for server in servers:
                slices[server.name].append(trio.run(_busy_slice, server, clients, length))
        named = f"{clients} client{'s' if clients > 1 else ''}"
        for variant, taken in slices.items():
            rows.append(spread(f"requests, {named}", variant, "1/s", [one.requests / one.seconds for one in taken]))
        cpu = {
            variant: [one.cpu_seconds * 1000 / one.requests for one in taken]
            for variant, taken in slices.items()
            if variant != DIRECT
        }
        rows += [spread(f"CPU per request, {named}", variant, "ms", values) for variant, values in cpu.items()]
        rows += _ratios(f"CPU per request, {named}", cpu)
    return rows


@attrs.frozen
class _Slice:
    """Work within a time slice."""

    requests: int
    seconds: float
    cpu_seconds: float


async def _busy_slice(server: Server, clients: int, seconds: float) -> _Slice:
    """Let clients send one request after the other; connections and their first requests are not counted."""
    script = Script(REPLY_DELTAS, 0)
    requests = _of_sessions("throughput", TYPICAL_KB, script, clients)
    connections = [await Client.connect(server.address) for _ in range(clients)]
    done = 0
    running = True

    async def first(client: Client, request: bytes) -> None:
        await client.exchange(request, script.deltas)

    async def repeat(client: Client, request: bytes) -> None:
        nonlocal done
        while running:
            await client.exchange(request, script.deltas)
            done += 1

    async with trio.open_nursery() as nursery:
        for client, request in zip(connections, requests, strict=True):
            nursery.start_soon(first, client, request)
    async with trio.open_nursery() as nursery:
        for client, request in zip(connections, requests, strict=True):
            nursery.start_soon(repeat, client, request)
        started, cpu = trio.current_time(), server.cpu_seconds()
        await trio.sleep(seconds)
        result = _Slice(max(done, 1), trio.current_time() - started, server.cpu_seconds() - cpu)
        running = False
    for client in connections:
        await client.aclose()
    return result


def memory(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Resident memory after all that the group did before, and its peak while large requests go through at once."""
    at_once, kilobytes = (2, 150) if quick else (8, 1200)
    rows: list[Row] = []
    for server in servers:
        if server.pid is None:
            continue
        now, peak = server.memory_mb()
        goal = RSS_GOAL_MB if server.name == UNLOGGED else None
        rows.append(single("RSS after the load", server.name, "MB", now))
        rows.append(single("RSS, highest so far", server.name, "MB", peak, goal))
        server.forget_peak()
        trio.run(_large_requests, server.address, at_once, kilobytes, Script(5, 0.02) if quick else Script(10, 0.05))
        name = f"RSS, highest with {at_once} requests of {kilobytes} KB at once"
        rows.append(single(name, server.name, "MB", server.memory_mb()[1]))
        megabytes = 1 if quick else 20
        trio.run(_long_request, server.address, megabytes)
        name = f"RSS, 15 s after one request of {megabytes} MB"
        rows.append(
            single(name, server.name, "MB", server.memory_mb()[0], RSS_QUIET_MB if server.name == OURS else None)
        )
    return rows


async def _long_request(address: Address, megabytes: int) -> None:
    (request,) = _of_sessions("long", megabytes * 1000, Script(5, 0.02), 1)
    await one_stream(address, request, 5)
    await trio.sleep(QUIET_SECONDS)


async def _large_requests(address: Address, at_once: int, kilobytes: int, script: Script) -> None:
    requests = _of_sessions("memory", kilobytes, script, at_once)
    await one_stream(address, requests[0], script.deltas)
    await streams_at_once(address, requests, script.deltas)


def _of_sessions(name: str, kilobytes: int, script: Script, count: int) -> list[bytes]:
    """The same request of so many sessions, each named by its client."""
    return [request_bytes(kilobytes * 1000, script, f"{name}-{kilobytes}-{number}") for number in range(count)]


GROUP = Group(
    "relay",
    VARIANTS,
    (
        Part("first-byte", first_byte),
        Part("deltas", deltas),
        Part("throughput", throughput),
        Part("memory", memory),
    ),
)
