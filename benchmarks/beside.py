"""The effect of other sessions on a session's turns: of one that sends a megabyte a second, and of ten open pages."""

import itertools
import json
import statistics
from collections.abc import Sequence

import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import history, kind_of
from benchmarks.load import Client, history_request, request_bytes
from benchmarks.pages import ask_page, read_page
from benchmarks.upstream_server import Played, Script
from benchmarks.variants import BARE, DIRECT, OURS, VARIANTS

TURN_GOAL = 2.0
"""p99 of a turn beside a megabyte ÷ p99 of the same turn alone."""

TURN_KB, LARGE_KB = 50, 1_000
TURN = Script(deltas=5, gap_seconds=0.02)
LARGE = Script(deltas=5, gap_seconds=0.02)

PAUSE_SECONDS = 0.02
"""Between two turns of the session that is measured."""

LARGE_EVERY_SECONDS = 1.0
"""Each large body is the first of a session of its own, so all of it is new."""


def turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Turns of 50 KB, from the first byte sent to the last received, alone and while other sessions send 1 MB."""
    rows: list[Row] = []
    count = 8 if quick else 300
    for server in servers:
        alone = trio.run(_turns, server, count, False)
        beside = trio.run(_turns, server, count, True)
        rows.append(spread("turn, alone", server.name, "ms", alone))
        rows.append(spread("turn, beside 1 MB", server.name, "ms", beside))
        ratio = _p99(beside) / _p99(alone)
        goal = TURN_GOAL if server.name == OURS else None
        rows.append(single("p99 of a turn, beside 1 MB ÷ alone", server.name, "ratio", ratio, goal))
    return rows


def _p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


async def _turns(server: Server, count: int, disturbed: bool) -> list[float]:
    client, taken = await Client.connect(server.address), list[float]()
    request = request_bytes(TURN_KB * 1000, TURN, "beside-measured")
    await client.exchange(request, TURN.deltas)
    async with trio.open_nursery() as nursery:
        if disturbed:
            nursery.start_soon(_send_large_bodies, server)
        for _ in range(count):
            before = trio.current_time()
            await client.exchange(request, TURN.deltas)
            taken.append((trio.current_time() - before) * 1000)
            await trio.sleep(PAUSE_SECONDS)
        nursery.cancel_scope.cancel()
    await client.aclose()
    return taken


async def _send_large_bodies(server: Server) -> None:
    for number in itertools.count():
        request = request_bytes(LARGE_KB * 1000, LARGE, f"beside-{server.name.replace(' ', '-')}-{number}")
        client = await Client.connect(server.address)
        await client.exchange(request, LARGE.deltas)
        await client.aclose()
        await trio.sleep(LARGE_EVERY_SECONDS)


PAGES, FIRST_SHOWN, SHOWN_TURNS, BLOCK = 10, 60, 80, 10
"""So many pages of a session are open, while these turns of it are taken, every other block of them."""

PACE_SECONDS = 0.5


def pages(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Turns of a long session, and the same while ten browsers show it and show it again whenever something happens."""
    rows: list[Row] = []
    for server in servers:
        if server.name == OURS:
            alone, beside = trio.run(_turns_with_open_pages, server, quick)
            rows.append(spread("first byte, no page open", server.name, "ms", alone))
            rows.append(spread(f"first byte, {PAGES} pages open", server.name, "ms", beside))
            ratio = statistics.median(beside) / statistics.median(alone)
            rows.append(single(f"first byte, {PAGES} pages ÷ none", server.name, "ratio", ratio))
    return rows


async def _turns_with_open_pages(server: Server, quick: bool) -> tuple[list[float], list[float]]:
    whole = history(kind_of(quick))
    first, turns = (4, 8) if quick else (FIRST_SHOWN, SHOWN_TURNS)
    block = turns // 4 if quick else BLOCK
    client = await Client.connect(server.address)
    alone, beside = list[float](), list[float]()
    await client.exchange(history_request(whole, Played(whole.kind, first), "shown"), 1)
    for start in range(first + 1, first + turns + 1, block):
        async with trio.open_nursery() as nursery:
            open_now = (start - first) // block % 2
            for _ in range(PAGES if open_now else 0):
                await nursery.start(_show, server)
            for turn in range(start, start + block):
                request = history_request(whole, Played(whole.kind, turn), "shown")
                exchange = await client.exchange(request, 1)
                (beside if open_now else alone).append(exchange.first_byte / 1e6)
                await trio.sleep(PACE_SECONDS)
            nursery.cancel_scope.cancel()
    await client.aclose()
    return alone, beside


async def _show(server: Server, task_status: trio.TaskStatus[None]) -> None:
    """Act as a browser with a session's page: load it, follow the log, and load it again after each change."""
    listed = json.loads(await read_page(server, "/-/sessions.json"))
    page = f"/-/session/{listed['sessions'][0]['stream']}"
    await read_page(server, page)
    following = await ask_page(server, f"/-/events?session={page.rpartition('/')[2]}")
    told = b""
    task_status.started()
    async for data in following:
        told = told[-32:] + data
        if b"event: changed" in told:
            told = b""
            await read_page(server, page)


GROUP = Group(
    "beside",
    tuple(each for each in VARIANTS if each.name in (DIRECT, BARE, OURS)),
    (Part("turns", turns), Part("pages", pages)),
    by_default=False,
)
