"""A turn in the relay: the order of durable records and sent bytes, and the turn's session."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.actors.patience import USUAL
from mnemosyne.domain.session.events import TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.wire.exchange import ReplyHead, UpstreamRequest
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import as_json, describe
from mnemosyne.errors import ReplyCut
from mnemosyne.http.client_reply import CHUNKS_IN_FLIGHT, RelayProgress
from mnemosyne.http.relay import Relay
from tests.actors.support import Process, StoppableLog, events_of, headers, of_turns, open_process, request, turns

FRAMES = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg","content":[]}}\n\n',
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":"a1"}}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
)


@attrs.define
class Provider:
    """Answers with these frames, or never."""

    frames: tuple[bytes, ...] = FRAMES
    failure: Exception | None = None
    closed: bool = False
    pause: float = 0.0
    """Seconds before each frame."""

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator["Provider"]:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure
        sent()
        yield self

    @property
    def head(self) -> ReplyHead:
        return ReplyHead(200, ((b"content-type", b"text/event-stream"),))

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            for frame in self.frames:
                await trio.sleep(self.pause)
                yield frame
        finally:
            self.closed = True


def relay_of(process: Process, provider: Provider) -> Relay:
    """A relay of a turn, running."""
    turn = process.opener.open_turn(headers(), request("u1"), MESSAGES)
    forwarded = UpstreamRequest("POST", b"/v1/messages", (), request("u1"))
    relay = Relay(provider, forwarded, turn, RelayProgress(), MESSAGES)
    process.turns.start_soon(relay.run)
    return relay


async def test_the_request_is_durable_before_the_first_byte_and_the_reply_before_the_last_frame(
    log: StoppableLog,
) -> None:
    async with open_process(log) as process:
        relay = relay_of(process, Provider())
        await relay.client.head()
        recorded = of_turns(await events_of(log))
        assert isinstance(recorded[-1], TurnBegan)
        body = b""
        async for chunk in relay.client.body():
            body += chunk
            if b"message_stop" in body:
                assert isinstance(of_turns(await events_of(log))[-1], TurnFinished)
    assert body == b"".join(FRAMES)


async def test_only_the_reply_waits_until_the_files_at_its_request_are_saved(
    log: StoppableLog,
) -> None:
    asked: list[tuple[UUID, int]] = []
    gate = trio.Event()

    async def keep(stream: UUID, at: int, done: trio.Event) -> None:
        asked.append((stream, at))
        await gate.wait()
        done.set()

    async with open_process(log) as process:
        process = attrs.evolve(process, opener=attrs.evolve(process.opener, keep_files=keep))
        relay = relay_of(process, Provider())
        await wait_all_tasks_blocked()
        began = of_turns(await events_of(log))[-1]
        assert isinstance(began, TurnBegan), "it was sent"
        assert asked == [(stream, began.at) for stream in await log.streams()]
        assert not relay.client.has_begun
        gate.set()
        assert b"".join([chunk async for chunk in relay.client.body()]) == b"".join(FRAMES)


async def test_a_database_that_hangs_delays_a_reply_by_half_a_second_in_all(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log, patience=USUAL) as process:
        log.hang()
        relay = relay_of(process, Provider())
        assert b"".join([chunk async for chunk in relay.client.body()]) == b"".join(FRAMES)
        assert trio.current_time() == pytest.approx(2 * USUAL.database)
        log.flowing.set()
    assert isinstance(of_turns(await events_of(log))[-1], TurnFinished)


async def test_end_of_a_turn_has_the_time_to_the_first_byte_of_its_reply_whole_or_not(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log) as process:
        for frames in (FRAMES, FRAMES[:1], ()):
            relay = relay_of(process, Provider(frames=frames, pause=0.4))
            with suppress(ReplyCut):
                async for _ in relay.client.body():
                    pass
    ends = [event for event in await events_of(log) if isinstance(event, TurnFinished | TurnInterrupted)]
    assert [type(each) for each in ends] == [TurnFinished, TurnInterrupted, TurnInterrupted]
    assert [each.first_byte for each in ends] == [400_000, 400_000, None]


async def test_unread_reply_is_closed_with_its_exchange() -> None:
    """Otherwise it stays open until garbage collection."""
    provider = Provider(frames=(FRAMES[0], *[b"event: ping\ndata: {}\n\n"] * 2 * CHUNKS_IN_FLIGHT))
    async with open_process(StoppableLog()) as process:
        relay = relay_of(process, provider)
        await relay.client.head()
        await wait_all_tasks_blocked()
        assert not provider.closed, "it waits for the client"
        relay.client.abandon()
        await wait_all_tasks_blocked()
        assert provider.closed


async def test_name_with_invalid_unicode_identifies_a_session(log: StoppableLog) -> None:
    raw = b'{"messages":[{"role":"user","content":"x"}],"metadata":{"user_id":"{\\"session_id\\":\\"\\\\ud800\\"}"}}'
    async with open_process(log) as process:
        turn = process.opener.open_turn((), raw, MESSAGES)
        await turn.note_begun()
    (stream,) = await log.streams()
    assert turns(await events_of(log, stream)) == ["main 1"]


@pytest.mark.parametrize("whole", [True, False], ids=["an error's status", "an error in the stream"])
async def test_an_error_that_quotes_a_key_is_recorded_without_it(*, whole: bool) -> None:
    """The client gets the provider's bytes; only the recorded copy is changed."""
    own, in_body, of_somebody = "a-gateway-s-own-key", "an-mcp-server-s-key", "sk-ant-api03-abcdefghijklmnopqrst"
    said = {"error": {"type": "authentication_error", "message": f"{own}, {in_body} or {of_somebody} is wrong"}}
    error, log = describe(said, as_json(said), complete=whole), StoppableLog()
    raw = request("u1", mcp_servers=[{"authorization_token": in_body}])
    async with open_process(log) as process:
        turn = process.opener.open_turn((*headers(), ("X-Api-Key", own)), raw, MESSAGES)
        turn.note_sent()
        await turn.note_begun()
        if whole:
            await turn.note_finished(ReplyHead(401, ()), error)
        else:
            await turn.note_interrupted(ReplyHead(200, ()), error, f"the provider said {own}")
    ended = of_turns(await events_of(log))[-1]
    assert isinstance(ended, TurnFinished | TurnInterrupted)
    assert isinstance(ended, TurnFinished) or ended.reason == f"the provider said {'*' * len(own)}"
    stored = b"".join([data for contents in log._contents.values() for data in contents.values() if data is not None])
    assert b"is wrong" in stored
    for key in (own, in_body, of_somebody):
        assert key.encode() not in stored
