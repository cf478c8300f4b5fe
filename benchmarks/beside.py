"""The effect of other sessions on a session's turns: of large bodies, some with very many or very long values, and of
ten open pages.
"""

import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import history, kind_of
from benchmarks.load import Client, history_request, message_request
from benchmarks.pages import ask_page, read_page
from benchmarks.upstream_server import Played, Script
from benchmarks.variants import MANAGING, OURS, PEERS

TURN = Script(deltas=5, gap_seconds=0.02)
PAUSE_SECONDS = 0.02
"""Between two turns of the session that is measured."""

TOOLS = [{"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}]
"""A conversation without tools is not managed."""

LARGE = 200_000


def user(*content: Mapping[str, object]) -> dict[str, object]:
    return {"role": "user", "content": list(content)}


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def calls(inputs: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """A prompt, the calls that it led to, and their results."""
    ids = [f"toolu_{number}" for number in range(len(inputs))]
    used = [
        {"type": "tool_use", "id": each, "name": "Look", "input": given}
        for each, given in zip(ids, inputs, strict=True)
    ]
    results = [{"type": "tool_result", "tool_use_id": each, "content": "seen"} for each in ids]
    return [user(text("Look.")), {"role": "assistant", "content": used}, user(*results)]


def bodies(count: int) -> dict[str, dict[str, Any]]:
    """Requests by their content: ``count`` values, or half, a tenth, or 25 times as many."""
    keys = {f"key{number}": number for number in range(count)}
    return {
        f"{count * 5 // 1_000_000} MB of lines": {"messages": [user(text("def first():\n" * (count * 5 // 13)))]},
        f"{count // 2:,} blocks in a message": {"messages": [user(*[text("x")] * (count // 2))]},
        f"{count // 7:,} blocks, which are read": {"messages": [user(*[text("x")] * (count // 7))]},
        f"{count:,} members at the top": {**keys, "messages": [user(text("Hi."))]},
        f"a call with {count:,} members": {"messages": calls([keys])},
        f"{count // 10:,} calls and their results": {"messages": calls([{}] * (count // 10))},
        f"a line of {count // 40_000} MB": {"messages": [user(text("abc, " * (count * 5)))]},
        f"a word of {count // 40_000} MB": {"messages": [user(text("abcde" * (count * 5)))]},
    }


def turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Turns of 50 KB from the first byte sent to the last received, alone and while another session sends each body."""
    times, count, rows = 1 if quick else 20, 4 if quick else 60, list[Row]()
    for server in servers:
        alone = trio.run(_measure, server, "alone", list[float](), count)
        rows.append(spread("turn, alone", server.name, "ms", alone))
        for about, body in bodies(4_000 if quick else LARGE).items():
            beside = trio.run(_turns_next_to, server, about, body, times)
            rows.append(spread(f"turn, beside {about}", server.name, "ms", beside))
    return rows


async def _turns_next_to(server: Server, about: str, body: Mapping[str, Any], times: int) -> list[float]:
    taken: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_measure, server, about, taken)
        for number in range(times):
            # Built in a thread, because this loop is measured.
            request = await trio.to_thread.run_sync(_request, body, f"{about} {number}")
            client = await Client.connect(server.address)
            await client.exchange(request, TURN.deltas)
            await client.aclose()
            await trio.sleep(10 * PAUSE_SECONDS)  # for work after the reply
        nursery.cancel_scope.cancel()
    return taken


async def _measure(server: Server, about: str, taken: list[float], count: int | None = None) -> list[float]:
    client = await Client.connect(server.address)
    file = "".join(f"def add_{number}(first: int, second: int) -> int:\n" for number in range(1_000))
    for number in itertools.count() if count is None else range(count):
        body = {"messages": [user(text(file), text(f"And {number}?"))]}
        before = trio.current_time()
        await client.exchange(_request(body, f"beside {about} {number}"), TURN.deltas)
        taken.append((trio.current_time() - before) * 1000)
        await trio.sleep(PAUSE_SECONDS)
    await client.aclose()
    return taken


def _request(body: Mapping[str, Any], session: str) -> bytes:
    whole = {"model": "benchmark", "max_tokens": 1024, "stream": True, "tools": TOOLS, **body}
    return message_request(TURN.query, json.dumps(whole).encode(), session, "mnemosyne-benchmark")


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
    tuple(each for each in PEERS if each.name in (OURS, MANAGING)),
    (Part("turns", turns), Part("pages", pages)),
    by_default=False,
)
