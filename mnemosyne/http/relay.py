"""One client reply: the task that fetches it, in as many rounds as it takes, and the thread by which the client's
request hangs on it.

The relay runs in the application's nursery and outlives the client's request: when the client leaves, the request's own
tasks are cancelled at once, but what happened must still be recorded. The request only ever calls ``abandon``.

To the client it is one reply. As long as nothing of it has left, a failure is a plain HTTP error, which every client
knows how to try again; later it is what the provider itself would do, an ``error`` event or a broken connection.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

import attrs
import trio

from mnemosyne.domain.wire.exchange import Headers, ReplyHead, Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.domain.wire.reply import HiddenCall, Reply, as_json, described, json_object
from mnemosyne.errors import CannotForward, MnemosyneError, ReplyCut, UpstreamFailed
from mnemosyne.http import splicing
from mnemosyne.http.content_encoding import Decoder, decoder_for
from mnemosyne.http.headers import for_client, without_framing
from mnemosyne.http.reading import ReplyReading, reading_of
from mnemosyne.http.retrying import Pauses, TryAgain, may_pass
from mnemosyne.http.splicing import EndOfRound, FailedBeforeOutput, Next
from mnemosyne.http.stream_rewriter import EndOfReply, Output, StreamRewriter, ToClient
from mnemosyne.http.whole_reply import WholeReply

log = logging.getLogger(__name__)

CHUNKS_IN_FLIGHT = 16
"""How many chunks may wait for a slow client before we stop reading from the provider."""

QUIET_SECONDS = 15.0
"""After so long without a byte, the client of a stream gets a ping between two rounds."""

LONGEST_SILENCE = 300.0
"""After so long without a byte from the provider there are no more pings: a client that gives up a silent stream
(Claude Code after as long) must be able to.
"""

LARGEST_ERROR = 1 << 20
"""Bytes of an error's body that are read."""

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each error of the API (Messages API documentation, errors); 500 for any other."""


class Outgoing(Protocol):
    """What leaves first: ``body``, None for the client's own; ``hidden`` are the tools in it that are ours."""

    @property
    def body(self) -> bytes | None: ...
    @property
    def hidden(self) -> frozenset[str]: ...


class TurnLog(Protocol):
    """Where a turn is recorded, and who says what leaves for it. A wait ends when the record is durable, or when
    waiting longer would be wrong.
    """

    async def prepare(self) -> Outgoing:
        """What goes upstream first."""
        ...

    async def preview(self) -> bytes | None:
        """What would go upstream first, if this were to leave; None for the client's own bytes. Nothing is recorded."""
        ...

    def sent(self) -> None:
        """The request has left for the provider: recording may begin. Said again if it had to be sent again,
        and never if it did not leave."""

    async def refused(self, refusal: Reply) -> bytes | None:
        """The provider refused the first request with HTTP 400; what goes instead, if it was for something of ours."""
        ...

    async def begun(self) -> None:
        """The reply begins; nothing of it has reached the client yet."""

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        """A round asked for another; what goes upstream in that, None if there is to be none."""
        ...

    async def ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None:
        """The reply is whole, after the ``last`` of several rounds; its last bytes have not left yet."""

    async def finished(self, head: ReplyHead, reply: Reply) -> None:
        """The reply is whole; its last bytes have not left yet."""

    async def interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        """There is no whole reply, and there will be none."""


@attrs.frozen
class Unchanged:
    """The client's own bytes leave, and nothing is hidden."""

    body: bytes | None = None
    hidden: frozenset[str] = frozenset()


class Unrecorded:
    """The log of what is not a turn."""

    async def prepare(self) -> Outgoing:
        return Unchanged()

    async def preview(self) -> bytes | None:
        return None

    def sent(self) -> None: ...

    async def refused(self, refusal: Reply) -> bytes | None:
        return None

    async def begun(self) -> None: ...

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        return None

    async def ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None: ...

    async def finished(self, head: ReplyHead, reply: Reply) -> None: ...

    async def interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None: ...


@attrs.define
class RelayProgress:
    """What a server that wants to stop must know of its relays."""

    running: int = 0
    delivered: int = 0
    """Chunks handed to clients so far."""
    waiting_for_client: int = 0
    """Relays that hold a chunk which their client does not take."""


class Relay:
    """Fetches one reply in ``run`` and hands it to the client through ``head`` and ``body``."""

    def __init__(self, upstream: Upstream, request: UpstreamRequest, turn: TurnLog, progress: RelayProgress) -> None:
        self._upstream = upstream
        self._request = request
        self._turn = turn
        self._progress = progress
        self._scope = trio.CancelScope()
        self._head: ReplyHead | None = None
        self._failure: MnemosyneError | None = None
        self._head_known = trio.Event()
        self._to_client, self._from_relay = trio.open_memory_channel[bytes](CHUNKS_IN_FLIGHT)
        self._recorded = False
        """Whether the end of the turn is on record."""
        self._reply_so_far: Callable[[], Reply | None] = lambda: None

    # The client's side

    async def head(self) -> ReplyHead:
        """Wait for status and headers. Raises CannotForward when the provider gave none."""
        await self._head_known.wait()
        if self._head is None:
            raise self._failure or ReplyCut("the relay ended before the reply began.")
        return self._head

    async def body(self) -> AsyncIterator[bytes]:
        """The reply's bytes. Raises ReplyCut where the provider's connection broke, so that the client's breaks too."""
        async for chunk in self._from_relay:
            waiting = [chunk, *self._rest_in_channel()]
            yield b"".join(waiting)
            self._progress.delivered += len(waiting)
        if self._failure is not None:
            raise self._failure

    def _rest_in_channel(self) -> Iterator[bytes]:
        """What waits already: one write for it instead of one for each chunk is half of a fast reply's cost."""
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                yield self._from_relay.receive_nowait()

    def abandon(self) -> None:
        """The client's request is over: stop fetching. Without effect on a relay that has finished."""
        self._scope.cancel()

    # The provider's side

    async def run(self) -> None:
        """Fetch the reply and record how it went. Never raises: a failure is the client's to see, in its own shape."""
        self._progress.running += 1
        try:
            with self._scope:
                await self._fetch()
        except CannotForward as error:
            self._failure = error
        except ReplyCut as error:
            self._failure = error
            log.warning("%s", error)
        except Exception:
            self._failure = ReplyCut("the relay failed; see the server's log.")
            log.exception("a relay failed")
        finally:
            with trio.CancelScope(shield=True):
                await self._record_unfinished()
            self._to_client.close()
            self._head_known.set()
            self._progress.running -= 1

    async def _fetch(self) -> None:
        prepared = await self._turn.prepare()
        request = self._request if prepared.body is None else request_with(self._request, prepared.body)
        if prepared.hidden:
            await _Rounds(self, request, prepared.hidden).fetch()
            return
        async with self.exchange(request) as exchange:
            await safely(self._turn.begun())
            reading = reading_of(exchange.head)
            self._reply_so_far = reading.reply.result
            self._begin_reply(exchange.head, for_client(exchange.head.headers))
            async for output in _outputs(exchange.chunks(), reading):
                if isinstance(output, EndOfReply):
                    await self.record(lambda: self._turn.finished(exchange.head, reading.reply.result()))
                await self.hand_over(output.raw)

    # What the rounds of a managed turn call, too

    @property
    def has_begun(self) -> bool:
        """Whether the client has a head."""
        return self._head_known.is_set()

    def exchange(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send a request to the provider."""
        return self._upstream.exchange(request, self._turn.sent)

    @property
    def turn(self) -> TurnLog:
        """The turn's log."""
        return self._turn

    def watch(self, reply_so_far: Callable[[], Reply | None]) -> None:
        """Have this reply recorded if it breaks off."""
        self._reply_so_far = reply_so_far

    @property
    def is_recorded(self) -> bool:
        """Whether the end of the turn is on record."""
        return self._recorded

    def _begin_reply(self, head: ReplyHead, headers: Headers) -> None:
        self._head = attrs.evolve(head, headers=headers)
        self._head_known.set()

    def begin_reply(self, head: ReplyHead) -> None:
        """Let the client have a head for bytes that are not all the provider's."""
        self._begin_reply(head, for_client(without_framing(head.headers)))

    async def record(self, end: Callable[[], Awaitable[None]]) -> None:
        """Record the end of the turn, once."""
        if not self._recorded:
            self._recorded = True
            with trio.CancelScope(shield=True):
                await safely(end())

    async def hand_over(self, raw: bytes) -> None:
        """Let the client have some bytes."""
        self._progress.waiting_for_client += 1
        try:
            if raw:
                await self._to_client.send(raw)
        except trio.BrokenResourceError:
            self.abandon()
        finally:
            self._progress.waiting_for_client -= 1

    async def end_plainly(self, head: ReplyHead, error: bytes) -> None:
        """Nothing has left yet: answer with an error's own status and body."""
        await self.record(lambda: self._turn.finished(head, described(json_object(error), error, complete=True)))
        self.begin_reply(head)
        await self.hand_over(error)

    async def _record_unfinished(self) -> None:
        reply = self._reply_so_far() if not self._recorded else None
        await self.record(lambda: self._turn.interrupted(self._head, reply, self._why(reply)))

    def _why(self, reply: Reply | None) -> str:
        if self._scope.cancelled_caught:
            return "the client left"
        if self._failure is not None:
            return str(self._failure)
        if reply is not None and reply.error_type is not None:
            return f"the provider ended the stream with an error: {reply.error_type}"
        return "the provider's stream ended without message_stop"


class _Rounds:
    """The rounds of a managed turn as one reply, decoded where the provider compresses although nobody asked for it."""

    def __init__(self, relay: Relay, request: UpstreamRequest, hidden: frozenset[str]) -> None:
        self._relay = relay
        self._request = request
        self._hidden = hidden
        self._number = 0
        """How many replies began."""
        self._end: EndOfRound | None = None
        self._head: ReplyHead | None = None
        """Of the first round."""
        self._is_recorded = False
        """Whether the last round is on record already."""
        self._rewriter: StreamRewriter | WholeReply | None = None
        self._decoder: Decoder | None = None
        self._is_later = False
        """Whether the round is one that the client does not know of."""
        self._pauses = Pauses()
        self._sent_at = self._heard_at = trio.current_time()

    async def fetch(self) -> None:
        """Fetch them all."""
        self._relay.watch(self._so_far)
        body: bytes | None = self._request.body
        failure: MnemosyneError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_awake)
            try:
                while body is not None:
                    body = await self._round(request_with(self._request, body))
            except MnemosyneError as error:  # raised here, the nursery would make a group of it
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _round(self, request: UpstreamRequest) -> bytes | None:
        """One round; the body of the next one, None if the reply is over."""
        while True:
            try:
                return await self._sent(request)
            except TryAgain as failure:
                log.warning("a hidden round failed and is sent again: %s", failure)
                await trio.sleep(failure.pause)
                self._rewriting.next_round()

    async def _sent(self, request: UpstreamRequest) -> bytes | None:
        """Send a round and pass its reply on; the body of the next. Raises TryAgain where it is to be sent again."""
        self._heard_at = trio.current_time()
        try:
            async with self._relay.exchange(request) as exchange:
                if self._number == 0:
                    await safely(self._relay.turn.begun())
                if exchange.head.status != 200:
                    return await self._refused(exchange)
                self._begin(exchange.head)
                await self._read(exchange)
        except UpstreamFailed as failure:
            again = self._again(str(failure))
            if again is None:
                raise
            raise again from failure
        return await self._next()

    async def _read(self, exchange: UpstreamReply) -> None:
        """Pass a round's reply on."""
        again: TryAgain | None = None
        try:
            with trio.CancelScope() as reading:
                async for chunk in exchange.chunks():
                    self._heard_at = trio.current_time()
                    outputs = self._fed(chunk)
                    again = self._again_after_event()
                    if again is None:
                        await self._pass_on(outputs)
                    else:
                        reading.cancel()  # whoever leaves the loop leaves its generators open
        except ReplyCut as cut:
            again = self._again(str(cut)) if self._end is None else None
            if again is None:
                await self._pass_on(self._cut())
                if not self._relay.is_recorded:  # else what the client got instead is whole
                    raise
        else:
            if again is None:
                await self._pass_on(self._rewriting.close())
        if again is not None:
            raise again

    def _again_after_event(self) -> TryAgain | None:
        if not self._rewriting.failed:
            return None
        kind = self._rewriting.reply.result().error_type
        return self._again(f"an event says {kind}", status=_status_of(kind))

    def _again(self, why: str, *, status: int = 500, headers: Headers = ()) -> TryAgain | None:
        """Another try at a round that failed: if it is a later one, the client has seen nothing of it, and its failure
        may pass. The first one is the client's own to try again.
        """
        if self._is_later and not self._rewriting.shows_round and may_pass(status):
            return self._pauses.after(why, headers)
        return None

    def _begin(self, head: ReplyHead) -> None:
        """A round's reply begins."""
        self._decoder = _decoder_of(head)
        if self._rewriter is None:
            fields = {name.lower(): value.strip().lower() for name, value in head.headers}
            streamed = fields.get(b"content-type", b"").startswith(b"text/event-stream")
            self._rewriter = StreamRewriter(self._hidden) if streamed else WholeReply(self._hidden)
            self._head = head
        self._number += 1
        self._end = None

    @property
    def _rewriting(self) -> StreamRewriter | WholeReply:
        assert self._rewriter is not None
        return self._rewriter

    def _fed(self, data: bytes) -> list[Output]:
        return self._rewriting.feed(self._decoder.decode(data) if self._decoder else data)

    def _cut(self) -> list[Output]:
        """The round's stream broke off: what there is of it, and no end."""
        if not isinstance(self._rewriting, WholeReply):
            return self._rewriting.close()
        if self._number > 1:
            return self._rewriting.fail(as_json(splicing.CUT))
        return [ToClient(output.raw) for output in self._rewriting.close() if output.raw]

    async def _next(self) -> bytes | None:
        """What the round that is over asks to be sent next."""
        end = self._end
        if end is None or end.next is Next.END:
            return None
        body = await self._relay.turn.answer(end.reply, end.calls)
        if body is None:
            self._end = attrs.evolve(end, calls=())
            self._is_recorded = True  # as a round that asked for another
            await self._pass_on(self._rewriting.end_now())
        else:
            self._rewriting.next_round()
            self._is_later = True
        return body

    async def _refused(self, exchange: UpstreamReply) -> bytes | None:
        """A round that got an HTTP error."""
        status, headers = exchange.head.status, exchange.head.headers
        if again := self._again(f"HTTP {status}", status=status, headers=headers):
            raise again
        error = decoded(exchange.head, [chunk async for chunk in _bounded(exchange.chunks())])
        reply = described(json_object(error), error, complete=True)
        if self._number == 0:
            body = await self._relay.turn.refused(reply) if status == 400 else None
            if body is not None:
                log.warning("the provider refused something of ours; sent once more without it: %s", reply.error_type)
                return body
            await self._relay.end_plainly(exchange.head, error)
            return None
        for output in self._rewriting.fail(error):
            if isinstance(output, FailedBeforeOutput):
                await self._relay.end_plainly(exchange.head, output.error)
            else:
                await self._relay.hand_over(output.raw)
        return None

    async def _pass_on(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case EndOfRound():
                    self._end = output
                case EndOfReply():
                    await self._finish()
                    await self._send(output.raw)
                case FailedBeforeOutput() if self._number > 1:
                    kind = described(json_object(output.error), b"", complete=True).error_type
                    await self._relay.end_plainly(_error_head(_status_of(kind)), output.error)
                case _:
                    await self._send(output.raw)

    async def _send(self, raw: bytes) -> None:
        if not raw:
            return
        if not self._relay.has_begun:
            assert self._head is not None
            self._relay.begin_reply(self._head)
        self._sent_at = trio.current_time()
        await self._relay.hand_over(raw)

    async def _finish(self) -> None:
        if self._end is None or self._head is None:
            return
        head, end, turn, reply = self._head, self._end, self._relay.turn, self._rewriting.visible()
        if self._is_recorded:
            await self._relay.record(lambda: turn.finished(head, reply))
        else:
            await self._relay.record(lambda: turn.ended(head, reply, end.reply, end.calls))

    async def _keep_awake(self) -> None:
        while True:
            await trio.sleep_until(self._sent_at + QUIET_SECONDS)
            if trio.current_time() - self._sent_at >= QUIET_SECONDS:
                in_time = trio.current_time() - self._heard_at < LONGEST_SILENCE
                between = self._number > 1 or self._end is not None
                if in_time and between and isinstance(self._rewriter, StreamRewriter):
                    await self._send(self._rewriter.ping())
                self._sent_at = trio.current_time()

    def _so_far(self) -> Reply | None:
        """What has arrived of the reply, if anything has."""
        reply = self._rewriter.visible() if self._rewriter is not None else None
        return reply if reply is not None and (reply.message_id or reply.error_type) else None


def request_with(request: UpstreamRequest, body: bytes) -> UpstreamRequest:
    """The request with another body, and the wish for a reply that we can read."""
    headers: Headers = tuple(
        (name, value) for name, value in without_framing(request.headers) if name.lower() != b"accept-encoding"
    )
    own = ((b"accept-encoding", b"identity"), (b"content-length", b"%d" % len(body)))
    return attrs.evolve(request, headers=(*headers, *own), body=body)


async def safely(recording: Awaitable[None]) -> None:
    """A turn goes on whatever its log does."""
    try:
        await recording
    except Exception:
        log.exception("a turn could not be recorded")


def decoded(head: ReplyHead, chunks: list[bytes]) -> bytes:
    """A body in the encoding that its head names, as far as it can be read."""
    decoder, body = _decoder_of(head), bytearray()
    try:
        for chunk in chunks:
            body += decoder.decode(chunk) if decoder else chunk
    except ValueError as error:
        log.warning("the body of an error could not be read: %s", error)
    return bytes(body)


def _decoder_of(head: ReplyHead) -> Decoder | None:
    fields = {name.lower(): value.strip().lower() for name, value in head.headers}
    encoding = fields.get(b"content-encoding", b"identity")
    return None if encoding == b"identity" else decoder_for(encoding)


def _status_of(error_type: str | None) -> int:
    return STATUSES.get(error_type or "", 500)


def _error_head(status: int) -> ReplyHead:
    return ReplyHead(status, ((b"content-type", b"application/json"),))


async def _bounded(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks of an error's body, as far as it is read; one that breaks off is over."""
    size = 0
    with suppress(ReplyCut):
        async for chunk in chunks:
            yield chunk
            size += len(chunk)
            if size > LARGEST_ERROR:
                return


async def _outputs(chunks: AsyncIterator[bytes], reading: ReplyReading) -> AsyncIterator[Output]:
    cut: ReplyCut | None = None
    try:
        async for chunk in chunks:
            for output in reading.feed(chunk):
                yield output
    except ReplyCut as error:
        cut = error
    for output in reading.close():
        # A reply cut short never ended: what was held of it leaves as ordinary bytes, and then the connection breaks.
        yield ToClient(output.raw) if cut else output
    if cut is not None:
        raise cut
