"""The effect of other sessions on a session's turns: large bodies, and some with very many or very long values."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

import trio

from benchmarks.harness import Group, Row, Server, spread
from benchmarks.load import Client, message_request
from benchmarks.upstream_server import Script
from benchmarks.variants import MANAGING, OURS, choose
from tests.http.managing import LOOK, text

TURN = Script(deltas=5, gap=0.02)
PAUSE_SECONDS = 0.02
"""Between two turns of the session that is measured."""

LARGE = 200_000

Json = dict[str, object]


def user(*content: Mapping[str, object]) -> Json:
    return {"role": "user", "content": list(content)}


def calls(inputs: Sequence[Mapping[str, object]]) -> list[Json]:
    """A prompt, the calls that it led to, and their results."""
    named = [(f"toolu_{number}", given) for number, given in enumerate(inputs)]
    used = [{"type": "tool_use", "id": each, "name": "Look", "input": given} for each, given in named]
    results = [{"type": "tool_result", "tool_use_id": each, "content": "seen"} for each, _ in named]
    return [user(text("Look.")), {"role": "assistant", "content": used}, user(*results)]


def bodies(count: int) -> dict[str, Json]:
    """Requests by their content: ``count`` values, or half, a tenth, or 25 times as many."""
    keys: Json = {f"key{number}": number for number in range(count)}
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
    rows = list[Row]()
    for server in servers:
        alone = list[float]()
        trio.run(_measure, server, "alone", alone, range(4 if quick else 60))
        rows.append(spread("turn, alone", server.name, "ms", alone))
        for about, body in bodies(4_000 if quick else LARGE).items():
            beside = trio.run(_turns_next_to, server, about, body, 1 if quick else 20)
            rows.append(spread(f"turn, beside {about}", server.name, "ms", beside))
    return rows


async def _turns_next_to(server: Server, about: str, body: Json, times: int) -> list[float]:
    taken: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_measure, server, about, taken, count())
        for number in range(times):
            # Built in a thread, because this loop is measured.
            request = await trio.to_thread.run_sync(_request, body, f"{about} {number}")
            client = await Client.connect(server.address)
            await client.exchange(request, TURN.deltas)
            await client.aclose()
            await trio.sleep(10 * PAUSE_SECONDS)  # for work after the reply
        nursery.cancel_scope.cancel()
    return taken


async def _measure(server: Server, about: str, taken: list[float], numbers: Iterable[int]) -> None:
    client = await Client.connect(server.address)
    file = "".join(f"def add_{number}(first: int, second: int) -> int:\n" for number in range(1_000))
    for number in numbers:
        body: Json = {"messages": [user(text(file), text(f"And {number}?"))]}
        before = trio.current_time()
        await client.exchange(_request(body, f"beside {about} {number}"), TURN.deltas)
        taken.append((trio.current_time() - before) * 1000)
        await trio.sleep(PAUSE_SECONDS)
    await client.aclose()


def _request(body: Json, session: str) -> bytes:
    return message_request({"tools": [LOOK], **body}, TURN, session)  # without tools it is not managed


GROUP = Group("beside", choose(OURS, MANAGING), {"turns": turns}, by_default=False)
