"""What one session feels of another whose bodies hold very many values, or very long ones."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import trio

from benchmarks.harness import Group, Part, Row, Server, spread
from benchmarks.load import Client, message_request
from benchmarks.upstream_server import Script
from benchmarks.variants import MANAGING, OURS, PEERS

TURN = Script(deltas=5, gap_seconds=0.02)
PAUSE_SECONDS = 0.02
"""Between two turns of the session that is measured."""

TOOLS = [{"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}]
"""A conversation without tools is not managed."""

LARGE = 200_000

BURNING = "while True: pass"
"""A program that has nothing to do with us and keeps a processor busy."""


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
    """Requests by what they hold ``count`` of, or half of it, a tenth, or 25 times as many."""
    keys = {f"key{number}": number for number in range(count)}
    return {
        f"{count // 2:,} blocks in a message": {"messages": [user(*[text("x")] * (count // 2))]},
        f"{count // 7:,} blocks, which are read": {"messages": [user(*[text("x")] * (count // 7))]},
        f"{count:,} members at the top": {**keys, "messages": [user(text("Hi."))]},
        f"a call with {count:,} members": {"messages": calls([keys])},
        f"{count // 10:,} calls and their results": {"messages": calls([{}] * (count // 10))},
        f"a line of {count // 40_000} MB": {"messages": [user(text("abc, " * (count * 5)))]},
        f"a word of {count // 40_000} MB": {"messages": [user(text("abcde" * (count * 5)))]},
    }


def turns(servers: Sequence[Server], quick: bool) -> list[Row]:
    """A turn of 50 KB, from its first byte sent to its last received: alone; beside programs that burn one processor
    and two, which says what a busy machine alone costs; and while another session brings each of the bodies, one after
    the other.
    """
    times, count, rows = 1 if quick else 20, 4 if quick else 60, list[Row]()
    for server in servers:
        for programs, about in enumerate(("alone", "beside a busy processor", "beside two busy processors")):
            with _burning(programs):
                alone = trio.run(_measure, server, about, list[float](), count)
            rows.append(spread(f"turn, {about}", server.name, "ms", alone))
        for about, body in bodies(4_000 if quick else LARGE).items():
            beside = trio.run(_beside, server, about, body, times)
            rows.append(spread(f"turn, beside {about}", server.name, "ms", beside))
    return rows


@contextmanager
def _burning(programs: int) -> Iterator[None]:
    """So many processors are busy for as long as the block runs."""
    with ExitStack() as stack:
        for _ in range(programs):
            program = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURNING]))
            stack.callback(program.kill)
        yield


async def _beside(server: Server, about: str, body: Mapping[str, Any], times: int) -> list[float]:
    taken: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_measure, server, about, taken)
        for number in range(times):
            # Made in a thread: what is measured shares this loop.
            request = await trio.to_thread.run_sync(_request, body, f"{about} {number}")
            client = await Client.connect(server.address)
            await client.exchange(request, TURN.deltas)
            await client.aclose()
            await trio.sleep(10 * PAUSE_SECONDS)  # what is done behind the reply
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


GROUP = Group(
    "hostile",
    tuple(each for each in PEERS if each.name in (OURS, MANAGING)),
    (Part("turns", turns),),
    by_default=False,
)
