"""Hidden rounds that fail or take long: the proxy waits out a temporary failure, and the client gets keep-alive
messages only, one every 15 seconds.
"""

import itertools
import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from mnemosyne.domain.session.events import TurnInterrupted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.http.reply_rounds import LONGEST_SILENCE, MOST_PAUSED, PAUSES, QUIET_SECONDS
from mnemosyne.http.sse import FrameReader
from tests.actors.support import StoppableLog, open_process
from tests.http.evicting import DECIDED, RECALL, indexed_stage, read_and_evict
from tests.http.managing import (
    Client,
    Json,
    assert_prefixes,
    message_of,
    model_says,
    open_stage,
    open_talk,
    recall,
    release_call,
    script,
    text,
    think,
)
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.raw_client import RawReply, connect
from tests.http.test_epochs import TOOLS
from tests.profiles import rarely
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


WHOLE = ("429", "529", "reset behind the head")
"""`make test` tries these with whole replies that began with the failure, and the others after visible words."""


@pytest.mark.parametrize(
    ("what", "stream", "loop"),
    [
        *((what, True, LOOP) for what in FAILURES if what not in WHOLE),
        *((what, False, UNSEEN) for what in WHOLE),
        *rarely((what, True, LOOP) for what in WHOLE),
        *rarely((what, False, UNSEEN) for what in FAILURES if what not in (*WHOLE, "an event")),
    ],
)
async def test_temporary_failure_of_a_hidden_round_is_invisible_to_the_client(
    what: str, stream: bool, loop: Json, loopback_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_talk(failing(2, **FAILURES[what]), loop, stream=stream) as (stage, client):
        message = await client.turn(text("Where?"))
        assert message["content"][-1] == HERE
        first, *tries = [each.body for each in stage.standin.messages]
        assert len({first, *tries}) == 2  # the same body each time
        assert len(tries) == 3
        assert "a hidden round failed and is retried" in caplog.text
        assert (await client.turn(text("And now?")))["content"][-1] == HERE
        assert_prefixes(stage.upstream)
        assert [(each.turn, each.round) for each in await stage.rounds_of_log()] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    async with open_stage(loop) as stage:
        calm = stage.client(stream=stream)
        assert (await calm.turn(text("Where?")))["usage"]["output_tokens"] == message["usage"]["output_tokens"]


async def test_hidden_round_cut_after_its_last_event_is_complete() -> None:
    whole = model_says(think("Hm."), text("Let me see."), release_call(), faults=[{"kind": "cut", "at": 99}])
    async with open_talk({"replies": [whole, model_says(think("So."), HERE)]}) as (stage, client):
        assert (await client.turn(text("Where?")))["content"][-1] == HERE
        assert not client.replies[0].cut
        assert len(stage.upstream) == 2


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


@pytest.mark.parametrize(
    ("failure", "tries", "loop"),
    [
        ({"status": 529}, 1 + len(PAUSES), LOOP),
        ({"status": 429, "retry_after": MOST_PAUSED + 1}, 1, UNSEEN),
        ({"status": 429, "retry_after": MOST_PAUSED / 2}, 3, LOOP),
        ({"status": 529, "headers": [["x-should-retry", "false"]]}, 1, UNSEEN),
        ({"status": 529, "headers": [["retry-after", "nan"]]}, 1 + len(PAUSES), LOOP),
        ({"status": 400, "message": "No."}, 1, UNSEEN),
        ({"status": 403, "type": "permission_error"}, 1, LOOP),
    ],
    ids=["too often", "too long", "too long together", "of no use", "not a number", "not of the moment", "forbidden"],
)
async def test_failure_of_the_last_retry_reaches_the_client(
    failure: Json, tries: int, loop: Json, loopback_clock: MockClock
) -> None:
    async with open_talk(failing(9, failure=failure), loop) as (stage, client):
        message = await client.turn(text("Where?"))
        assert len(stage.upstream) == 1 + tries
        assert message["error"]["type"] == failure.get("type", message["error"]["type"])
        assert client.replies[0].body.endswith(b"\n\n" if loop is LOOP else b"}")
        if loop is UNSEEN and sum(PAUSES) < QUIET_SECONDS:
            assert message["status"] == failure["status"]
        assert b"message_stop" not in client.replies[0].body


async def test_failed_first_round_is_retried_by_the_client_only(loopback_clock: MockClock) -> None:
    async with open_stage({"reply": {"failure": {"status": 529}}}) as stage:
        assert (await stage.client().turn(text("Where?")))["status"] == 529
        assert len(stage.upstream) == 1


async def test_round_with_visible_output_is_not_repeated_and_its_cut_cuts_the_reply(loopback_clock: MockClock) -> None:
    seen = model_says(text("Now"), recall(), faults=[{"kind": "cut", "at": -4}])
    async with open_talk(failing(1, **seen), LOOP) as (stage, client):
        await client.turn(text("Where?"))
        assert client.replies[0].cut
        assert len(stage.upstream) == 2


async def test_client_disconnect_ends_the_wait_for_a_retry() -> None:
    async with open_talk(failing(9, failure={"status": 529, "retry_after": 60}), LOOP) as (stage, client):
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send)
            await until(lambda: len(stage.standin.messages) == 2 and bool(stage.standin.messages[1].status))
            nursery.cancel_scope.cancel()
        (event,) = await stage.events_until(TurnInterrupted)
        assert event.reason == "the client left"


PING = b'event: ping\ndata: {"type":"ping"}\n\n'
QUIET: Json = {"ping": False}
"""The provider's own pings would be pings, too."""


@attrs.define
class TimedReply:
    """A reply, and the arrival time of each piece in seconds after the request."""

    reply: RawReply
    pieces: list[tuple[float, bytes]]

    @property
    def pings(self) -> list[float]:
        return [at for at, piece in self.pieces if PING in piece]

    @property
    def longest_silence(self) -> float:
        times = [at for at, _ in self.pieces]
        return max(after - before for before, after in itertools.pairwise(times))


async def listen(*rounds: Json, stream: bool = True) -> TimedReply:
    """One turn of this many rounds."""
    async with open_talk({"replies": list(rounds)}, stream=stream) as (stage, client):
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        async with connect(stage.url) as connection:
            started = trio.current_time()
            await connection.send("POST", "/v1/messages", client.body(), client.raw_headers())
            timed = TimedReply(RawReply(), [])
            async for piece in connection.pieces(timed.reply):
                timed.pieces.append((trio.current_time() - started, piece))
        return timed


def silent(*content: Json, at: int | str, seconds: float) -> Json:
    """A round that pauses in its stream."""
    return model_says(*content, pace=QUIET, faults=[{"kind": "silence", "at": at, "seconds": seconds}])


def slow(*content: Json, seconds: float) -> Json:
    """A round whose headers come late."""
    return model_says(*content, pace={**QUIET, "first": seconds})


ASKS = model_says(text("Let me see."), release_call(), pace=QUIET)

TAKING_LONG: dict[str, Callable[[], list[Json]]] = {
    "the second head": lambda: [ASKS, slow(HERE, seconds=100)],
    "behind the second head": lambda: [ASKS, silent(HERE, at=1, seconds=100)],
    "within a block": lambda: [ASKS, silent(HERE, at="content_block_delta", seconds=100)],
    "before the end": lambda: [ASKS, silent(HERE, at=-1, seconds=100)],
    "a third round": lambda: [ASKS, model_says(think("Hm."), release_call(), pace=QUIET), slow(HERE, seconds=100)],
    "nothing was shown yet": lambda: [model_says(release_call(), pace=QUIET), slow(HERE, seconds=100)],
}


OFTEN = ("before the end", "nothing was shown yet")


@pytest.mark.parametrize("what", [*OFTEN, *rarely(each for each in TAKING_LONG if each not in OFTEN)])
async def test_client_gets_pings_during_a_long_hidden_round(what: str, loopback_clock: MockClock) -> None:
    timed = await listen(*TAKING_LONG[what]())
    assert len(timed.pings) == 100 // QUIET_SECONDS
    assert timed.longest_silence <= QUIET_SECONDS + 0.1
    content = message_of(timed.reply)["content"]
    assert content[-1] == HERE
    assert all(frame.raw == PING for frame in FrameReader().feed(timed.reply.body) if frame.event == b"ping")
    assert timed.reply.body.replace(PING, b"") == (await listen(*without_waiting(TAKING_LONG[what]()))).reply.body


def without_waiting(rounds: list[Json]) -> list[Json]:
    return [{**each, "pace": QUIET, "faults": []} for each in rounds]


@pytest.mark.parametrize("seconds", [0.0, 14.0])
async def test_proxy_adds_no_pings_while_the_stream_is_active(seconds: float, loopback_clock: MockClock) -> None:
    result = think("Hm.")
    timed = await listen(ASKS, slow(result, release_call(), seconds=seconds), silent(HERE, at=1, seconds=seconds))
    assert timed.pings == []


async def test_proxy_adds_no_pings_during_the_first_round(loopback_clock: MockClock) -> None:
    timed = await listen(silent(text("Hm."), at="content_block_stop", seconds=100))
    assert timed.pings == []
    assert timed.longest_silence == pytest.approx(100, abs=1)


async def test_proxy_adds_no_pings_for_a_dead_provider(loopback_clock: MockClock) -> None:
    timed = await listen(ASKS, silent(HERE, at=1, seconds=3600))
    assert len(timed.pings) == LONGEST_SILENCE // QUIET_SECONDS - 1
    assert timed.longest_silence > 3000


@pytest.mark.parametrize("usage", [{"input_tokens": 10**9}, {"output_tokens": 10**9}])
async def test_memory_answers_after_a_count_far_from_the_estimate(usage: Json) -> None:
    async with indexed_stage() as stage:
        client = stage.client(tools=TOOLS)
        await read_and_evict(client, stage)
        asks = model_says(think(), recall(RECALL), usage=usage)
        stage.standin.script = script({"replies": [asks, model_says(think(), text("Seven."))]})
        await client.turn(text(RECALL))
        assert DECIDED in json.dumps(stage.upstream[-1]["messages"][-1])
