"""The relay's reports to the log and their order; a failing log never affects the client."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne_lab.provider.server import open_standin
from tests.http.proxying import RecordedTurns, open_proxy
from tests.http.raw_client import connect, exchange
from tests.http.test_gateway import STREAMED, WHOLE
from tests.waiting import until


async def test_turn_is_recorded_as_begun_and_then_as_finished() -> None:
    for body in (STREAMED, WHOLE):
        turns = RecordedTurns()
        async with open_standin() as standin, open_proxy(standin.url, turns) as proxy:
            reply = await exchange(proxy.url, body=body)
        assert turns.calls == ["sent", "begun", "finished 200"]
        assert turns.replies[0] is not None
        assert turns.replies[0].complete
        assert reply.status == 200


async def test_nothing_reaches_the_client_before_the_request_is_recorded() -> None:
    turns = RecordedTurns(gates={"begun": trio.Event()})
    async with listening(turns) as received:
        await until(lambda: turns.waits_for == "begun")
        await wait_all_tasks_blocked(STILL_SECONDS)
        assert received == b""
        turns.gates["begun"].set()
        await until(lambda: received.endswith(LAST_CHUNK))


async def test_last_frame_waits_until_the_reply_is_recorded() -> None:
    turns = RecordedTurns(gates={"finished": trio.Event()})
    async with listening(turns) as received:
        await until(lambda: turns.waits_for == "finished" and b"message_delta" in received)
        await wait_all_tasks_blocked(STILL_SECONDS)
        assert b"message_stop" not in received
        turns.gates["finished"].set()
        await until(lambda: received.endswith(LAST_CHUNK))


LAST_CHUNK = b"0\r\n\r\n"

STILL_SECONDS = 0.05
"""How long nothing must have happened for nothing to be under way on the loopback."""


@asynccontextmanager
async def listening(turns: RecordedTurns) -> AsyncIterator[bytearray]:
    """The part of a streamed reply that the client has received so far."""
    received = bytearray()
    async with (
        open_standin() as standin,
        open_proxy(standin.url, turns) as proxy,
        connect(proxy.url) as connection,
        trio.open_nursery() as nursery,
    ):

        async def receive() -> None:
            async for piece in connection.stream:
                received.extend(piece)

        await connection.send("POST", "/v1/messages", STREAMED)
        nursery.start_soon(receive)
        yield received
        nursery.cancel_scope.cancel()


NO_END = "interrupted: the provider's stream ended before its last event"
OVERLOADED = "interrupted: the provider ended the stream with an error: overloaded_error"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"kind": "cut", "at": -2}, "interrupted: the provider's reply broke off"),
        ({"kind": "no_message_stop"}, NO_END),
        ({"kind": "error_event", "at": -2, "error_type": "overloaded_error"}, OVERLOADED),
    ],
    ids=["cut", "without an end", "with an error"],
)
async def test_incomplete_reply_is_recorded_with_the_reason_and_the_received_part(
    fault: dict[str, Any], reason: str
) -> None:
    turns, reply = RecordedTurns(), {"text": "begun and never done", "faults": [fault]}
    async with open_standin({"rules": [{"reply": reply}]}) as standin, open_proxy(standin.url, turns) as proxy:
        assert (await exchange(proxy.url, body=STREAMED)).cut is (fault["kind"] == "cut")
    *before, last = turns.calls
    assert before == ["sent", "begun"]
    assert last.startswith(reason)
    assert turns.replies[0] is not None
    assert json.loads(turns.replies[0].body)["content"] == [{"type": "text", "text": "begun and never done"}]


async def test_client_disconnect_is_recorded_although_the_request_task_is_cancelled() -> None:
    turns = RecordedTurns()
    reply = {"text": "x" * 1000, "pace": {"between": 3600}}
    async with open_standin({"rules": [{"reply": reply}]}) as standin, open_proxy(standin.url, turns) as proxy:
        async with connect(proxy.url) as connection:
            await connection.send("POST", "/v1/messages", STREAMED)
            await connection.stream.receive_some(1)
        await until(lambda: len(turns.calls) == 3)
    assert turns.calls == ["sent", "begun", "interrupted: the client left"]


async def test_unreachable_provider_is_an_interrupted_turn() -> None:
    turns = RecordedTurns()
    async with open_proxy("http://127.0.0.1:9", turns) as proxy:
        await exchange(proxy.url, body=STREAMED)
    assert turns.calls[0].startswith("interrupted: http://127.0.0.1:9 gave no answer")


async def test_failing_log_costs_the_client_nothing() -> None:
    turns = RecordedTurns(failing=True)
    async with open_standin() as one, open_standin() as other, open_proxy(other.url, turns) as proxy:
        assert (await exchange(proxy.url, body=STREAMED)).body == (await exchange(one.url, body=STREAMED)).body
    assert turns.calls == ["sent", "begun", "finished 200"]
