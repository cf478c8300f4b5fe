"""Failing hidden rounds: the proxy waits out a temporary failure, and the client gets keep-alive messages only."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from mnemosyne.domain.session.events import TurnInterrupted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.http.retrying import MOST_PAUSED, PAUSES
from mnemosyne.http.rounds import QUIET_SECONDS
from tests.actors.support import StoppableLog, open_process
from tests.http.managing import (
    Client,
    Json,
    assert_nothing_of_ours,
    assert_prefixes,
    model_says,
    open_stage,
    recall,
    release_call,
    text,
    think,
)
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.waiting import until

HERE = text("Here.")
LOOP = {"replies": [model_says(think("Hm."), text("Let me see."), release_call()), model_says(think("So."), HERE)]}
UNSEEN = {"replies": [model_says(release_call()), model_says(HERE)]}


def failing(times: int, **reply: Any) -> Json:
    """The second round fails this often."""
    return {"when": {"rounds": 1}, "reply": reply, "times": times}


FAILURES: dict[str, Json] = {
    "429": {"failure": {"status": 429, "retry_after": 3}},
    "500": {"failure": {"status": 500}},
    "529": {"failure": {"status": 529}},
    "reset before the head": {"faults": [{"kind": "cut_before_reply", "reset": True}]},
    "reset behind the head": model_says(HERE, faults=[{"kind": "cut", "at": 1, "reset": True}]),
    "reset within a hidden call": model_says(release_call(), faults=[{"kind": "cut", "at": -3, "reset": True}]),
    "reset within text that may be hidden": model_says(text("<memory_cleanup>\n"), faults=[{"kind": "cut", "at": -3}]),
    "an event": model_says(HERE, faults=[{"kind": "error_event", "at": 1}]),
}


@pytest.mark.parametrize("loop", [LOOP, UNSEEN], ids=["words before", "nothing before"])
@pytest.mark.parametrize(
    ("what", "stream"),
    [*((what, True) for what in FAILURES), *((what, False) for what in FAILURES if what != "an event")],
)
async def test_temporary_failure_of_a_hidden_round_is_invisible_to_the_client(
    what: str, stream: bool, loop: Json, loopback_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stage(failing(2, **FAILURES[what]), loop) as stage:
        client = Client(stage.url, stream=stream)
        message = await client.turn(text("Where?"))
        assert message["content"][-1] == HERE
        first, *tries = [each.body for each in stage.standin.messages]
        assert len({first, *tries}) == 2  # the same body each time
        assert len(tries) == 3
        assert "a hidden round failed and is retried" in caplog.text
        assert (await client.turn(text("And now?")))["content"][-1] == HERE
        assert_nothing_of_ours(client)
        assert_prefixes(stage.upstream)
        assert [(each.turn, each.round) for each in await stage.rounds_of_log()] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    async with open_stage(loop) as stage:
        calm = Client(stage.url, stream=stream)
        assert (await calm.turn(text("Where?")))["usage"]["output_tokens"] == message["usage"]["output_tokens"]


async def test_hidden_round_cut_after_its_last_event_is_complete() -> None:
    whole = model_says(think("Hm."), text("Let me see."), release_call(), faults=[{"kind": "cut", "at": 99}])
    async with open_stage({"replies": [whole, model_says(think("So."), HERE)]}) as stage:
        client = Client(stage.url)
        assert (await client.turn(text("Where?")))["content"][-1] == HERE
        assert not client.replies[0].cut
        assert len(stage.upstream) == 2
        assert_nothing_of_ours(client)
        assert stage.standin.violations == []


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_reply_without_a_byte_reaches_the_client_as_an_error(kind: str) -> None:
    async with (
        open_playback([(kind, b"")]) as provider,
        open_process(StoppableLog()) as process,
        open_proxy(provider.url, process.opener, mode=Mode.MANAGE) as proxy,
    ):
        client = Client(proxy.url)
        client.history = [{"role": "user", "content": [text("Where?")]}]
        await client.send()
        (reply,) = client.replies
        assert (reply.status, reply.body, reply.cut) == (200, b"", False)
        assert b"memory_query" in provider.requests[0][3]


async def test_retry_after_is_respected_and_the_client_gets_pings(loopback_clock: MockClock) -> None:
    async with open_stage(failing(1, failure={"status": 429, "retry_after": 50}), LOOP) as stage:
        client = Client(stage.url)
        started = trio.current_time()
        assert (await client.turn(text("Where?")))["content"][-1] == HERE
        assert trio.current_time() - started >= 50
        assert client.replies[0].body.count(b"event: ping") >= 50 // QUIET_SECONDS


@pytest.mark.parametrize(
    ("failure", "tries"),
    [
        ({"status": 529}, 1 + len(PAUSES)),
        ({"status": 429, "retry_after": MOST_PAUSED + 1}, 1),
        ({"status": 429, "retry_after": MOST_PAUSED / 2}, 3),
        ({"status": 529, "headers": [["x-should-retry", "false"]]}, 1),
        ({"status": 529, "headers": [["retry-after", "nan"]]}, 1 + len(PAUSES)),
        ({"status": 400, "message": "No."}, 1),
    ],
    ids=["too often", "too long", "too long together", "of no use", "not a number", "not of the moment"],
)
@pytest.mark.parametrize("loop", [LOOP, UNSEEN], ids=["words before", "nothing before"])
async def test_failure_of_the_last_retry_reaches_the_client(
    failure: Json, tries: int, loop: Json, loopback_clock: MockClock
) -> None:
    async with open_stage(failing(9, failure=failure), loop) as stage:
        client = Client(stage.url)
        message = await client.turn(text("Where?"))
        assert len(stage.upstream) == 1 + tries
        assert "type" in message["error"]
        if loop is UNSEEN and sum(PAUSES) < QUIET_SECONDS:
            assert message["status"] == failure["status"]
        assert b"message_stop" not in client.replies[0].body


async def test_failed_first_round_is_left_to_the_client_to_retry(loopback_clock: MockClock) -> None:
    async with open_stage({"reply": {"failure": {"status": 529}}}) as stage:
        assert (await Client(stage.url).turn(text("Where?")))["status"] == 529
        assert len(stage.upstream) == 1


async def test_round_with_visible_output_is_not_sent_again(loopback_clock: MockClock) -> None:
    seen = model_says(text("Now"), recall(), faults=[{"kind": "cut", "at": -4}])
    async with open_stage(failing(1, **seen), LOOP) as stage:
        client = Client(stage.url)
        await client.turn(text("Where?"))
        assert client.replies[0].cut
        assert len(stage.upstream) == 2


async def test_client_disconnect_ends_the_wait_for_a_retry() -> None:
    async with open_stage(failing(9, failure={"status": 529, "retry_after": 60}), LOOP) as stage:
        client = Client(stage.url)
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send)
            await until(lambda: len(stage.standin.messages) == 2 and bool(stage.standin.messages[1].status))
            nursery.cancel_scope.cancel()
        (event,) = await stage.events_until(TurnInterrupted)
        assert event.reason == "the client left"
