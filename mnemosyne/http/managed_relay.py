"""A relay that may take several rounds: the session's actor says what goes upstream, and answers the hidden calls.

To the client it is one reply. As long as nothing of it has left, a failure is a plain HTTP error, which every client
knows how to try again; later it is what the provider itself would do, an ``error`` event.
"""

import logging
from collections.abc import AsyncIterator
from typing import Protocol

import attrs
import trio

from mnemosyne.domain.window.upstream_history import NOTICE
from mnemosyne.domain.wire.exchange import Headers, ReplyHead, Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.domain.wire.reply import HiddenCall, Reply, as_json, described, json_object
from mnemosyne.errors import MnemosyneError, ReplyCut
from mnemosyne.http import splicing
from mnemosyne.http.content_encoding import Decoder, decoder_for
from mnemosyne.http.headers import for_client, without_framing
from mnemosyne.http.relay import Ending, Progress, Relay, TurnLog, safely
from mnemosyne.http.splicing import EndOfRound, FailedBeforeOutput, Next
from mnemosyne.http.stream_rewriter import EndOfReply, Output, StreamRewriter, ToClient
from mnemosyne.http.whole_reply import WholeReply

log = logging.getLogger(__name__)

QUIET_SECONDS = 15.0
"""After so long without a byte, the client of a stream gets a ping between two rounds."""

LONGEST_SILENCE = 300.0
"""After so long without a byte from the provider there are no more pings: a client that gives up a silent stream
(Claude Code after as long) must be able to.
"""

LARGEST_ERROR = 1 << 20
"""Bytes of an error's body that are read."""

NO_ANSWER = NOTICE + "The memory tools gave no answer, so this reply ends here."

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


class Prepared(Protocol):
    @property
    def body(self) -> bytes | None: ...
    @property
    def hidden(self) -> frozenset[str]: ...


class ManagedTurnLog(TurnLog, Protocol):
    """Where a turn is recorded whose bodies are not the client's."""

    async def prepare(self) -> Prepared:
        """What goes upstream first."""

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        """A round asked for another; what goes upstream in that, None if there is to be none."""

    async def strip(self, refusal: Reply) -> bytes | None:
        """The provider refused thinking that is bound to another conversation; what goes instead, if anything can."""

    async def ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None:
        """The reply is whole; its last bytes have not left yet."""


class ManagedRelay(Relay):
    """Fetches one reply in as many rounds as it takes."""

    def __init__(self, upstream: Upstream, request: UpstreamRequest, turn: ManagedTurnLog, progress: Progress) -> None:
        super().__init__(upstream, request, turn, progress)
        self._managed = turn
        self._sent_at = self._heard_at = 0.0

    async def _fetch(self, ending: Ending) -> None:
        prepared = await self._managed.prepare()
        if prepared.body is not None:
            self._request = request_with(self._request, prepared.body)
        if not prepared.hidden:
            await super()._fetch(ending)
            return
        body: bytes | None = prepared.body
        splice = _Splice(prepared.hidden)
        ending.reply_so_far = splice.so_far
        self._sent_at = trio.current_time()
        failure: MnemosyneError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_awake, splice)
            try:
                while body is not None:
                    body = await self._round(request_with(self._request, body), splice, ending)
            except MnemosyneError as error:  # raised here, the nursery would make a group of it
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _round(self, request: UpstreamRequest, splice: "_Splice", ending: Ending) -> bytes | None:
        """One round; the body of the next one, None if the reply is over."""
        self._heard_at = trio.current_time()
        async with self._upstream.exchange(request, self._turn.sent) as exchange:
            if splice.rounds == 0:
                await safely(self._turn.begun())
            if exchange.head.status != 200:
                return await self._refused(exchange, splice, ending)
            splice.begin(exchange.head)
            try:
                async for chunk in exchange.chunks():
                    self._heard_at = trio.current_time()
                    await self._pass_on(splice.feed(chunk), splice, ending)
            except ReplyCut:
                await self._pass_on(splice.cut(), splice, ending)
                if ending.recorded:  # what the client got instead is whole
                    return None
                raise
            await self._pass_on(splice.close(), splice, ending)
        end = splice.end
        if end is None or end.next is Next.END:
            return None
        body = await self._managed.answer(end.reply, end.calls)
        if body is None:
            splice.end = attrs.evolve(end, calls=())
            splice.recorded = True  # as a round that asked for another
            await self._pass_on(splice.end_now(NO_ANSWER), splice, ending)
        else:
            splice.next_round()
        return body

    async def _refused(self, exchange: UpstreamReply, splice: "_Splice", ending: Ending) -> bytes | None:
        """A round that got an HTTP error."""
        error = await _whole_body(exchange)
        reply = described(json_object(error), error, complete=True)
        if splice.rounds == 0:
            if exchange.head.status == 400 and _is_bound_elsewhere(reply):
                body = await self._managed.strip(reply)
                if body is not None:
                    log.warning("the provider refused thinking of another conversation; sent once more without any")
                    return body
            await self._end_plainly(exchange.head, error, ending)
        else:
            for output in splice.fail(error):
                if isinstance(output, FailedBeforeOutput):
                    await self._end_plainly(exchange.head, output.error, ending)
                else:
                    await self._hand_over(output.raw)
        return None

    async def _pass_on(self, outputs: list[Output], splice: "_Splice", ending: Ending) -> None:
        for output in outputs:
            match output:
                case EndOfRound():
                    splice.end = output
                case EndOfReply():
                    await self._finish(splice, ending)
                    await self._send(output.raw, splice)
                case FailedBeforeOutput() if splice.rounds > 1:
                    kind = described(json_object(output.error), b"", complete=True).error_type
                    await self._end_plainly(_error_head(STATUSES.get(kind or "", 500)), output.error, ending)
                case _:
                    await self._send(output.raw, splice)

    async def _send(self, raw: bytes, splice: "_Splice") -> None:
        if not raw:
            return
        if not self._head_known.is_set():
            assert splice.head is not None
            self._head = attrs.evolve(splice.head, headers=for_client(without_framing(splice.head.headers)))
            self._head_known.set()
        self._sent_at = trio.current_time()
        await self._hand_over(raw)

    async def _finish(self, splice: "_Splice", ending: Ending) -> None:
        if ending.recorded or splice.end is None or splice.head is None:
            return
        ending.recorded = True
        with trio.CancelScope(shield=True):
            if splice.recorded:
                await safely(self._managed.finished(splice.head, splice.reply()))
            else:
                await safely(self._managed.ended(splice.head, splice.reply(), splice.end.reply, splice.end.calls))

    async def _end_plainly(self, head: ReplyHead, error: bytes, ending: Ending) -> None:
        """Nothing has left yet: answer with an error's own status and body."""
        ending.recorded = True
        with trio.CancelScope(shield=True):
            await safely(self._turn.finished(head, described(json_object(error), error, complete=True)))
        self._head = attrs.evolve(head, headers=for_client(without_framing(head.headers)))
        self._head_known.set()
        await self._hand_over(error)

    async def _keep_awake(self, splice: "_Splice") -> None:
        while True:
            await trio.sleep_until(self._sent_at + QUIET_SECONDS)
            if trio.current_time() - self._sent_at >= QUIET_SECONDS:
                in_time = trio.current_time() - self._heard_at < LONGEST_SILENCE
                if in_time and (splice.rounds > 1 or splice.end is not None):
                    await self._send(splice.ping(), splice)
                self._sent_at = trio.current_time()


class _Splice:
    """The rounds of one reply as one, decoded where the provider compresses although nobody asked for it."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self.rounds = 0
        self.end: EndOfRound | None = None
        self.head: ReplyHead | None = None
        """Of the first round."""
        self.recorded = False
        """Whether the last round is on record already."""
        self._hidden = hidden
        self._rewriter: StreamRewriter | WholeReply | None = None
        self._decoder: Decoder | None = None

    def begin(self, head: ReplyHead) -> None:
        """A round's reply begins."""
        fields = {name.lower(): value.strip().lower() for name, value in head.headers}
        encoding = fields.get(b"content-encoding", b"identity")
        self._decoder = None if encoding == b"identity" else decoder_for(encoding)
        if self._rewriter is None:
            streamed = fields.get(b"content-type", b"").startswith(b"text/event-stream")
            self._rewriter = StreamRewriter(self._hidden) if streamed else WholeReply(self._hidden)
            self.head = head
        self.rounds += 1
        self.end = None

    @property
    def rewriter(self) -> StreamRewriter | WholeReply:
        assert self._rewriter is not None
        return self._rewriter

    def feed(self, data: bytes) -> list[Output]:
        return self.rewriter.feed(self._decoder.decode(data) if self._decoder else data)

    def close(self) -> list[Output]:
        """The round's stream is over."""
        return self.rewriter.close()

    def cut(self) -> list[Output]:
        """The round's stream broke off: what there is of it, and no end."""
        if self.rounds == 1 and isinstance(self.rewriter, WholeReply):
            return [ToClient(output.raw) for output in self.rewriter.close() if output.raw]
        if self.rounds > 1 and isinstance(self.rewriter, WholeReply):
            return self.rewriter.fail(as_json(splicing.CUT))
        return self.rewriter.close()

    def next_round(self) -> None:
        self.rewriter.next_round()

    def end_now(self, notice: str) -> list[Output]:
        return self.rewriter.end_now(notice)

    def fail(self, error: bytes) -> list[Output]:
        return self.rewriter.fail(error)

    def ping(self) -> bytes:
        return self.rewriter.ping() if isinstance(self.rewriter, StreamRewriter) else b""

    def reply(self) -> Reply:
        """The reply as the client sees it."""
        return self.rewriter.visible()

    def so_far(self) -> Reply | None:
        """What has arrived of it, if anything has."""
        reply = self.rewriter.visible() if self._rewriter is not None else None
        return reply if reply is not None and (reply.message_id or reply.error_type) else None


def request_with(request: UpstreamRequest, body: bytes) -> UpstreamRequest:
    """The request with another body, and the wish for a reply that we can read."""
    headers: Headers = tuple(
        (name, value) for name, value in without_framing(request.headers) if name.lower() != b"accept-encoding"
    )
    own = ((b"accept-encoding", b"identity"), (b"content-length", b"%d" % len(body)))
    return attrs.evolve(request, headers=(*headers, *own), body=body)


def _error_head(status: int) -> ReplyHead:
    return ReplyHead(status, ((b"content-type", b"application/json"),))


def _is_bound_elsewhere(reply: Reply) -> bool:
    # "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation…"
    return b"bound to a different conversation" in reply.body


async def _whole_body(exchange: UpstreamReply) -> bytes:
    fields = {name.lower(): value.strip().lower() for name, value in exchange.head.headers}
    encoding = fields.get(b"content-encoding", b"identity")
    decoder = None if encoding == b"identity" else decoder_for(encoding)
    body = bytearray()
    try:
        async for chunk in _bounded(exchange):
            body += decoder.decode(chunk) if decoder else chunk
    except (MnemosyneError, ValueError) as error:
        log.warning("the body of an error could not be read: %s", error)
    return bytes(body)


async def _bounded(exchange: UpstreamReply) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in exchange.chunks():
        yield chunk
        size += len(chunk)
        if size > LARGEST_ERROR:
            return
