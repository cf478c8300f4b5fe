"""Keep-alive messages during long hidden rounds: the client gets one every 15 seconds."""

import itertools
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from mnemosyne.actors.rounds import ManagedRounds
from mnemosyne.http.rounds import LONGEST_SILENCE, QUIET_SECONDS
from mnemosyne.http.sse import FrameReader
from tests.http.managing import Client, Json, message_of, model_says, open_stage, release_call, text, think
from tests.http.raw_client import RawReply, connect

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
    async with open_stage({"replies": list(rounds)}) as stage:
        client = Client(stage.url, stream=stream)
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        async with connect(stage.url) as connection:
            started = trio.current_time()
            await connection.send("POST", "/v1/messages", client.body(), client.raw_headers())
            heard = TimedReply(RawReply(), [])
            async for piece in connection.pieces(heard.reply):
                heard.pieces.append((trio.current_time() - started, piece))
        assert stage.standin.violations == []
        return heard


def silent(*content: Json, at: int | str, seconds: float) -> Json:
    """A round that pauses in its stream."""
    return model_says(*content, pace=QUIET, faults=[{"kind": "silence", "at": at, "seconds": seconds}])


def slow(*content: Json, seconds: float) -> Json:
    """A round whose headers come late."""
    return model_says(*content, pace={**QUIET, "first": seconds})


ASKS = model_says(text("Let me see."), release_call(), pace=QUIET)
HERE = text("Here.")

TAKING_LONG: dict[str, Callable[[], list[Json]]] = {
    "the second head": lambda: [ASKS, slow(HERE, seconds=100)],
    "behind the second head": lambda: [ASKS, silent(HERE, at=1, seconds=100)],
    "within a block": lambda: [ASKS, silent(HERE, at="content_block_delta", seconds=100)],
    "before the end": lambda: [ASKS, silent(HERE, at=-1, seconds=100)],
    "a third round": lambda: [ASKS, model_says(think("Hm."), release_call(), pace=QUIET), slow(HERE, seconds=100)],
    "nothing was shown yet": lambda: [model_says(release_call(), pace=QUIET), slow(HERE, seconds=100)],
}


@pytest.mark.parametrize("what", TAKING_LONG)
async def test_client_gets_pings_during_a_long_hidden_round(what: str, loopback_clock: MockClock) -> None:
    heard = await listen(*TAKING_LONG[what]())
    assert len(heard.pings) == 100 // QUIET_SECONDS
    assert heard.longest_silence <= QUIET_SECONDS + 0.1
    content = message_of(heard.reply)["content"]
    assert content[-1] == HERE
    assert all(frame.raw == PING for frame in FrameReader().feed(heard.reply.body) if frame.event == b"ping")
    assert heard.reply.body.replace(PING, b"") == (await listen(*without_waiting(TAKING_LONG[what]()))).reply.body


def without_waiting(rounds: list[Json]) -> list[Json]:
    return [{**each, "pace": QUIET, "faults": []} for each in rounds]


async def test_client_gets_pings_during_a_long_memory_answer(
    monkeypatch: pytest.MonkeyPatch, loopback_clock: MockClock
) -> None:
    answer = ManagedRounds.answer

    async def slowly(*given: Any) -> Any:
        await trio.sleep(9)
        return await answer(*given)

    monkeypatch.setattr(ManagedRounds, "answer", slowly)
    heard = await listen(ASKS, slow(HERE, seconds=9))
    assert len(heard.pings) == 1
    assert message_of(heard.reply)["content"] == [text("Let me see."), HERE]


@pytest.mark.parametrize("seconds", [0.0, 14.0])
async def test_proxy_adds_no_pings_while_the_stream_is_active(seconds: float, loopback_clock: MockClock) -> None:
    told = think("Hm.")
    heard = await listen(ASKS, slow(told, release_call(), seconds=seconds), silent(HERE, at=1, seconds=seconds))
    assert heard.pings == []


async def test_proxy_adds_no_pings_during_the_first_round(loopback_clock: MockClock) -> None:
    heard = await listen(silent(text("Hm."), at="content_block_stop", seconds=100))
    assert heard.pings == []
    assert heard.longest_silence == pytest.approx(100, abs=1)


async def test_whole_reply_is_one_piece_however_long_it_takes(loopback_clock: MockClock) -> None:
    heard = await listen(ASKS, slow(HERE, seconds=100), stream=False)
    assert len(heard.pieces) == 1
    assert message_of(heard.reply)["content"] == [text("Let me see."), HERE]


async def test_proxy_adds_no_pings_for_a_dead_provider(loopback_clock: MockClock) -> None:
    heard = await listen(ASKS, silent(HERE, at=1, seconds=3600))
    assert len(heard.pings) == LONGEST_SILENCE // QUIET_SECONDS - 1
    assert heard.longest_silence > 3000
