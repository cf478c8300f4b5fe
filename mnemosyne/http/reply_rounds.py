"""Fetch the rounds of a managed turn and splice them into one reply for the client.

Before any output, a failure is a plain HTTP error, which every client can retry; later it is an ``error`` event or a
broken connection, as from the provider itself.
"""

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing

import attrs
import trio

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import Headers, ReplyHead, Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.domain.wire.identity import read_client_headers
from mnemosyne.domain.wire.reply import Reply, describe, json_object
from mnemosyne.errors import MnemosyneError, ReplyCut, UpstreamFailed, release_frames
from mnemosyne.http.client_reply import ClientReply
from mnemosyne.http.content_encoding import LARGEST_REPLY, Decoder, decoder_for, encodings_of
from mnemosyne.http.headers import request_with, text_headers
from mnemosyne.http.reply_copy import copy_raw, is_stream, pass_on
from mnemosyne.http.rewriters import Rewriter, make_rewriter
from mnemosyne.http.splicing import EndOfReply, EndOfRound, FailedBeforeOutput, Next, Output
from mnemosyne.http.turn_log import safely

log = logging.getLogger(__name__)

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry within one reply, unless the provider names a delay: 31 s in total, within which most
overloads end.
"""

MOST_PAUSED = 60.0
"""Maximum total delay in one reply. A provider that asks for more (`retry-after`) has a limit that waiting does not
lift, so the client must get the error.
"""


class TryAgain(Exception):
    """A round failed and is retried after ``pause`` seconds."""

    def __init__(self, why: str, pause: float) -> None:
        super().__init__(why)
        self.pause = pause


class Pauses:
    """The retry budget of one reply."""

    def __init__(self) -> None:
        self._tries = 0
        self._left = MOST_PAUSED

    def after(self, why: str, headers: Headers = ()) -> TryAgain | None:
        """Return the next retry after a failure; None if the budget is used up or the provider's ``headers`` rule it
        out.
        """
        if self._tries == len(PAUSES) or _value_of(b"x-should-retry", headers) == b"false":
            return None
        asked = _value_of(b"retry-after", headers)
        pause = float(asked) if re.fullmatch(rb"\d{1,9}(\.\d+)?", asked) else PAUSES[self._tries]
        if pause > self._left:
            return None
        self._tries += 1
        self._left -= pause
        return TryAgain(f"{why}; try {self._tries} of {len(PAUSES)} in {pause:g} s", pause)


def may_pass(status: int) -> bool:
    """Whether an error of this HTTP status may be temporary."""
    return status == 429 or status >= 500


def _value_of(name: bytes, headers: Headers) -> bytes:
    return next((value.strip().lower() for key, value in headers if key.lower() == name), b"")


QUIET_SECONDS = 15.0
"""Between two rounds, a streaming client gets a ping after this time without output."""

LONGEST_SILENCE = 300.0
"""Pings stop after this time without a byte from the provider, so that a client can still time out (Claude Code does
after the same time).
"""

LARGEST_ERROR = 1 << 20
"""Maximum bytes read of an error's body."""

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status of each error of an API (documentation of the Messages API, errors, and of Responses, error codes);
500 for any other.
"""


class _Undecodable(ReplyCut):
    """A reply has an unsupported or invalid encoding."""


class SplicedRounds:
    """Fetches the rounds of a managed turn as one reply; decodes them if the provider compresses unasked."""

    def __init__(
        self,
        upstream: Upstream,
        request: UpstreamRequest,
        client: ClientReply,
        hidden: frozenset[str],
        dialect: Dialect,
        *,
        hides_verdict: bool = False,
    ) -> None:
        self._dialect = dialect
        self._hides_verdict = hides_verdict
        self._upstream = upstream
        self._request = request
        self._client = client
        self._turn = client.turn
        self._hidden = hidden
        self._itemized = read_client_headers(text_headers(request.headers)).reads_iterations
        self._number = 0
        """Number of replies that have begun."""
        self._end: EndOfRound | None = None
        self._head: ReplyHead | None = None
        """The first round's head."""
        self._is_recorded = False
        """Whether the last round is recorded already."""
        self._is_streamed = False
        self._rewriter: Rewriter | None = None
        self._decoder: Decoder | None = None
        """Decoder of the round's reply; None if its encoding is unsupported."""
        self._has_decoded = False
        self._undecoded: list[bytes] = []
        """The reply's bytes before anything was decoded."""
        self._is_unread = False
        """Whether the client gets the reply undecoded."""
        self._is_later = False
        """Whether this is a hidden round."""
        self._pauses = Pauses()
        self._sent_at = self._heard_at = trio.current_time()

    async def fetch(self) -> None:
        self._client.watch(self._so_far)
        body: bytes | None = self._request.body
        failure: MnemosyneError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_keepalives)
            try:
                while body is not None:
                    body = await self._round(request_with(self._request, body))
            except MnemosyneError as error:  # raised inside, the nursery would wrap it in an exception group
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if not self._client.has_begun and self._head is not None:
            self._client.begin_rewritten(self._head)  # the provider sent a head without a body

    async def _round(self, request: UpstreamRequest) -> bytes | None:
        """Fetch one round with retries; return the next request body, or None if the reply is complete."""
        while True:
            try:
                return await self._send_round(request)
            except TryAgain as failure:
                log.warning("a hidden round failed and is retried: %s", str(release_frames(failure)))
                await trio.sleep(failure.pause)
                self._rewriting.next_round()

    async def _send_round(self, request: UpstreamRequest) -> bytes | None:
        """Send a round and forward its reply; return the next request body. Raises TryAgain to retry the round."""
        self._heard_at = trio.current_time()
        try:
            async with self._upstream.exchange(request, self._turn.note_sent) as exchange:
                if self._number == 0:
                    await safely(self._turn.note_begun())
                if exchange.head.status != 200:
                    return await self._refuse(exchange)
                self._begin(exchange.head)
                await self._read(exchange)
        except UpstreamFailed as failure:
            again = self._again(str(failure))
            if again is None:
                raise
            raise again from failure
        return await self._next()

    async def _read(self, exchange: UpstreamReply) -> None:
        again: TryAgain | None = None
        cut: ReplyCut | None = None
        try:
            async with aclosing(exchange.chunks()) as chunks:
                async for chunk in chunks:
                    try:
                        again = await self._take(chunk)
                    except _Undecodable:
                        if self._has_decoded or self._client.has_begun:
                            raise
                        await self._pass_unread(chunks, exchange.head)
                        return
                    if again is not None:
                        break
            if self._decoder is not None and not self._decoder.is_whole and again is None:
                raise ReplyCut("the provider's reply ended inside its compressed data.")
        except ReplyCut as error:
            if self._is_unread:
                raise
            if self._end is None:  # otherwise the round is complete
                again, cut = self._again(str(error)), error
        if again is not None:
            raise again
        await self._pass_on(self._rewriting.close() if cut is None else self._rewriting.cut())
        if cut is not None and not self._client.is_recorded:  # otherwise the client got a complete error instead
            raise cut

    async def _take(self, chunk: bytes) -> TryAgain | None:
        """Forward the output of a chunk; return a retry if the chunk shows that the reply failed."""
        self._heard_at = trio.current_time()
        self._turn.note_byte()
        for piece in self._decode(chunk):
            outputs = self._rewriting.feed(piece)
            again = self._again_after_event()
            if again is not None:
                return again
            await trio.lowlevel.checkpoint()
            await self._pass_on(outputs)
        return None

    def _decode(self, chunk: bytes) -> Iterator[bytes]:
        if not self._has_decoded:
            self._undecoded.append(chunk)
        if self._decoder is None:
            raise _Undecodable("the provider's reply has an unsupported encoding.")
        try:
            for piece in self._decoder.pieces(chunk):
                self._has_decoded = self._has_decoded or bool(piece)
                yield piece
        except ValueError as error:
            raise _Undecodable(f"the provider's reply does not match its encoding: {error}.") from None

    async def _pass_unread(self, chunks: AsyncIterator[bytes], head: ReplyHead) -> None:
        """Pass a reply that cannot be decoded to the client unchanged, starting with the bytes already received."""
        log.warning("a reply that cannot be decoded is forwarded unread")
        self._is_unread = True
        await pass_on(chain(self._undecoded, chunks), copy_raw(self._dialect), head, self._client)

    def _again_after_event(self) -> TryAgain | None:
        if not self._rewriting.failed:
            return None
        kind = self._rewriting.reply.result().error_type
        return self._again(f"error event {kind}", status=_status_of(kind))

    def _again(self, why: str, *, status: int = 500, headers: Headers = ()) -> TryAgain | None:
        """Return a retry of a failed round if it is a hidden one, nothing of it was sent, and the failure may be
        temporary. The client retries a first round itself.
        """
        if self._is_later and not self._rewriting.shows_round and may_pass(status):
            return self._pauses.after(why, headers)
        return None

    def _begin(self, head: ReplyHead) -> None:
        self._decoder = decoder_for(encodings_of(head.headers), LARGEST_REPLY)
        self._has_decoded = False
        self._undecoded = []
        if self._rewriter is None:
            self._is_streamed = is_stream(head)
            self._rewriter = make_rewriter(
                self._dialect, self._hidden, streamed=self._is_streamed, itemized=self._itemized
            )
            self._rewriter.hides_verdict = self._hides_verdict
            self._head = head
        self._number += 1
        self._end = None

    @property
    def _rewriting(self) -> Rewriter:
        assert self._rewriter is not None
        return self._rewriter

    async def _next(self) -> bytes | None:
        """Return the request body that follows the finished round, or None."""
        end = self._end
        if end is None or end.next is Next.END:
            return None
        body = await self._turn.answer(end.reply, end.calls)
        if body is None:
            self._end = attrs.evolve(end, calls=())
            self._is_recorded = True  # recorded as a round that asked for another
            await self._pass_on(self._rewriting.end_now())
        else:
            self._rewriting.next_round()
            self._is_later = True
        return body

    async def _refuse(self, exchange: UpstreamReply) -> bytes | None:
        """Handle a round that got an HTTP error."""
        status, headers = exchange.head.status, exchange.head.headers
        if again := self._again(f"HTTP {status}", status=status, headers=headers):
            raise again
        encodings = encodings_of(headers)
        if self._number == 0 and encodings and decoder_for(encodings) is None:
            async with aclosing(exchange.chunks()) as chunks:
                await self._pass_unread(chunks, exchange.head)
            return None
        async with aclosing(exchange.chunks()) as chunks:
            error = decode(exchange.head, (await read_error(chunks))[0])
        reply = describe(json_object(error), error, complete=True)
        body = await self._turn.replace_refused(reply, status)
        if body is not None:
            log.warning("the provider refused the managed request; sending a replacement: %s", reply.error_type)
            return body
        if self._number == 0:
            self._turn.note_byte()
            await self._client.end_plainly(exchange.head, error)
            return None
        for output in self._rewriting.fail(error):
            if isinstance(output, FailedBeforeOutput):
                await self._client.end_plainly(exchange.head, output.error)
            else:
                await self._client.hand_over(output.raw)
        return None

    async def _pass_on(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case EndOfRound():
                    self._end = output
                case EndOfReply():
                    await self._finish()
                    await self._send(output.raw, length=None if self._is_streamed else len(output.raw))
                case FailedBeforeOutput() if self._number > 1:
                    kind = describe(json_object(output.error), b"", complete=True).error_type
                    await self._client.end_plainly(_error_head(_status_of(kind)), output.error)
                case _:
                    await self._send(output.raw)

    async def _send(self, raw: bytes, length: int | None = None) -> None:
        if not raw:
            return
        if not self._client.has_begun:
            assert self._head is not None
            self._client.begin_rewritten(self._head, length)
        self._sent_at = trio.current_time()
        await self._client.hand_over(raw)

    async def _finish(self) -> None:
        if self._end is None or self._head is None:
            return
        head, end, turn, reply = self._head, self._end, self._turn, self._rewriting.visible()
        self._client.record_hidden_usage(self._rewriting.list_hidden_usage())
        if self._is_recorded:
            await self._client.record(lambda: turn.note_finished(head, reply))
        else:
            await self._client.record(lambda: turn.note_ended(head, reply, end.reply, end.calls))

    async def _send_keepalives(self) -> None:
        while True:
            await trio.sleep_until(self._sent_at + QUIET_SECONDS)
            if trio.current_time() - self._sent_at >= QUIET_SECONDS:
                in_time = trio.current_time() - self._heard_at < LONGEST_SILENCE
                between = self._number > 1 or self._end is not None
                if in_time and between:
                    await self._send(self._rewriting.ping())
                self._sent_at = trio.current_time()

    def _so_far(self) -> Reply | None:
        """Return the partial reply, or None if nothing has arrived."""
        reply = self._rewriter.visible() if self._rewriter is not None else None
        return reply if reply is not None and (reply.message_id or reply.error_type) else None


def decode(head: ReplyHead, chunks: list[bytes]) -> bytes:
    """Decode a body as far as possible."""
    encodings, body = encodings_of(head.headers), bytearray()
    decoder = decoder_for(encodings, LARGEST_REPLY)
    try:
        for chunk in chunks:
            body += decoder.decode(chunk) if decoder else chunk
    except ValueError as error:
        log.warning("the body of an error could not be decoded: %s", error)
        return bytes(body) or b"".join(chunks)
    return bytes(body)


async def chain(
    begun: Iterable[bytes], chunks: AsyncIterator[bytes], cut: ReplyCut | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes already received, then the rest; ``cut`` is raised in place of the rest."""
    for chunk in begun:
        yield chunk
    if cut is not None:
        raise cut
    async for chunk in chunks:
        yield chunk


def _status_of(error_type: str | None) -> int:
    return STATUSES.get(error_type or "", 500)


def _error_head(status: int) -> ReplyHead:
    return ReplyHead(status, ((b"content-type", b"application/json"),))


async def read_error(chunks: AsyncIterator[bytes]) -> tuple[list[bytes], ReplyCut | None]:
    """Read an error's body up to ``LARGEST_ERROR`` bytes or a broken connection, which is returned too."""
    read: list[bytes] = []
    size = 0
    try:
        async for chunk in chunks:
            read.append(chunk)
            size += len(chunk)
            if size > LARGEST_ERROR:
                break
    except ReplyCut as cut:
        return read, cut
    return read, None
