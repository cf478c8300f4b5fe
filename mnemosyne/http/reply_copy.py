"""Read a copy of a reply, by its content type and encoding, while it passes to the client unchanged.

A reply's end is a separate output, because the reply must be durable before the end is sent.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import Protocol

import trio

from mnemosyne.domain.wire.dialect import Dialect, ReplyReader
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.errors import ReplyCut
from mnemosyne.http.client_reply import ClientReply
from mnemosyne.http.content_encoding import LARGEST_REPLY, Decoder, decoder_for, encodings_of
from mnemosyne.http.splicing import EndOfReply, Output, ToClient
from mnemosyne.http.sse import FrameReader, event_of
from mnemosyne.http.turn_log import TurnLog

log = logging.getLogger(__name__)


class PassedStream:
    """An event stream, read frame by frame into ``reply``.

    Invariant: the joined outputs equal the input, and do not depend on how the network splits the stream.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.reply: ReplyReader = dialect.reader()
        self._ends = dialect.ends
        self._frames = FrameReader()
        self._ended = False

    def feed(self, data: bytes) -> list[Output]:
        """Take the provider's next bytes; return the outputs they allow."""
        outputs: list[Output] = []
        passing: list[bytes] = []
        for frame in self._frames.feed(data):
            event = event_of(frame)
            if event is not None:
                self.reply.take(event)
            if self._ends(frame.event, event, frame.data):
                self._ended = True
                outputs += [ToClient(b"".join(passing))] if passing else []
                outputs.append(EndOfReply(frame.raw))
                passing = []
            else:
                passing.append(frame.raw)
        return [*outputs, ToClient(b"".join(passing))] if passing else outputs

    def stop(self) -> bytes:
        """Stop reading; return the held bytes, which are then sent with all that follows."""
        return self._frames.take_rest()

    def close(self) -> list[Output]:
        """End the stream. Some servers omit the last frame, so a reply may be complete without it."""
        rest = self._frames.take_rest()
        if not self._ended and self.reply.result().complete:
            return [EndOfReply(rest)]
        return [ToClient(rest)] if rest else []


class PassedWhole:
    """A body that is not a stream: each chunk is held until the next one or the end."""

    def __init__(self, dialect: Dialect) -> None:
        self.reply: ReplyReader = dialect.reader()
        self._held = b""
        self._is_stopped = False

    def feed(self, data: bytes) -> list[Output]:
        """Take the provider's next bytes; return the outputs they allow."""
        self.reply.take_raw(data)
        ready, self._held = self._held, data
        return [ToClient(ready)] if ready else []

    def stop(self) -> bytes:
        """Stop reading; return the held bytes, which are then sent with all that follows."""
        self._is_stopped = True
        held, self._held = self._held, b""
        return held

    def close(self) -> list[Output]:
        """End the body."""
        if self._is_stopped:
            return []
        self.reply.end_raw()
        last, self._held = self._held, b""
        return [EndOfReply(last)]


class ReplyReading(Protocol):
    """Reads a reply while its bytes pass. Invariant: the joined outputs equal the input.

    ``feed`` yields after short steps, so that other tasks can run in between.
    """

    @property
    def reply(self) -> ReplyReader: ...

    def feed(self, data: bytes) -> Iterator[list[Output]]: ...

    def close(self) -> list[Output]: ...


async def pass_on(chunks: AsyncIterator[bytes], reading: ReplyReading, head: ReplyHead, client: ClientReply) -> None:
    """Pass a reply with this head to the client and record its end. Raises ReplyCut if it is cut off."""
    client.watch(reading.reply.result)
    client.begin(head)
    async with aclosing(_outputs(chunks, reading, client.turn)) as outputs:
        async for output in outputs:
            if isinstance(output, EndOfReply):
                await client.record(lambda: client.turn.note_finished(head, reading.reply.result()))
            await client.hand_over(output.raw)


async def _outputs(chunks: AsyncIterator[bytes], reading: ReplyReading, turn: TurnLog) -> AsyncGenerator[Output, None]:
    cut: ReplyCut | None = None
    try:
        async for chunk in chunks:
            turn.note_byte()
            for outputs in reading.feed(chunk):
                await trio.lowlevel.checkpoint()
                for output in outputs:
                    yield output
    except ReplyCut as error:
        cut = error
    for output in reading.close():
        # A reply that is cut off has no end: send the held bytes as ordinary ones, then break the connection.
        yield ToClient(output.raw) if cut else output
    if cut is not None:
        raise cut


def reading_of(head: ReplyHead, dialect: Dialect) -> ReplyReading:
    fields = {name.lower(): value.strip().lower() for name, value in head.headers}
    streamed = fields.get(b"content-type", b"").startswith(b"text/event-stream")
    plain = PassedStream(dialect) if streamed else PassedWhole(dialect)
    encodings = encodings_of(head.headers)
    if not encodings:
        return PlainReply(plain)
    return EncodedReply(plain, decoder_for(encodings, LARGEST_REPLY), dialect)


def unread(dialect: Dialect) -> ReplyReading:
    """Return the reader for a reply that cannot be decoded."""
    return EncodedReply(PassedWhole(dialect), None, dialect)


class PlainReply:
    """Reads an uncompressed reply, each network chunk at once, up to the same limit."""

    def __init__(self, passed: PassedStream | PassedWhole) -> None:
        self._passed = passed
        self._room = LARGEST_REPLY

    @property
    def reply(self) -> ReplyReader:
        return self._passed.reply

    def feed(self, data: bytes) -> Iterator[list[Output]]:
        was, self._room = self._room, self._room - len(data)
        if self._room >= 0:
            yield self._passed.feed(data)
            return
        if was >= 0:
            log.warning("a reply is recorded only in part: it is too large")
        yield [ToClient(self._passed.stop() + data)]

    def close(self) -> list[Output]:
        return self._passed.close()


class EncodedReply:
    """Reads a decoded copy of a compressed reply; the client gets the compressed bytes.

    The decoded copy tells which chunk is the last. Without a decoder, or if the first bytes do not match the encoding
    in the head, the reply is recorded undecoded.
    """

    def __init__(self, plain: PassedStream | PassedWhole, decoder: Decoder | None, dialect: Dialect) -> None:
        self._plain = plain if decoder else PassedWhole(dialect)
        self._decoder = decoder
        self._dialect = dialect
        self._is_cut = False
        """Whether decoding failed after a part was decoded."""
        self._begun = False
        """Whether anything was decoded."""
        self._undecoded: list[bytes] = []
        self._streamed = isinstance(self._plain, PassedStream)
        self._held = b""

    @property
    def reply(self) -> ReplyReader:
        return self._plain.reply

    def feed(self, data: bytes) -> Iterator[list[Output]]:
        ended = False
        for piece in self._decode(data):
            ended = any(isinstance(output, EndOfReply) for output in self._plain.feed(piece)) or ended
            yield []
        if self._streamed:
            yield [EndOfReply(data) if ended else ToClient(data)]
            return
        ready, self._held = self._held, data
        yield [ToClient(ready)] if ready else []

    def close(self) -> list[Output]:
        ended = any(isinstance(output, EndOfReply) for output in self._plain.close())
        if self._streamed:
            return [EndOfReply(b"")] if ended else []
        last, self._held = self._held, b""
        is_whole = not self._is_cut and (self._decoder is None or self._decoder.is_whole)
        return [EndOfReply(last) if is_whole else ToClient(last)]

    def _decode(self, data: bytes) -> Iterator[bytes]:
        if self._is_cut:
            yield b""
            return
        if self._decoder is None:
            yield data
            return
        if not self._begun:
            self._undecoded.append(data)
        try:
            for piece in self._decoder.pieces(data):
                self._begun = self._begun or bool(piece)
                yield piece
            self._undecoded = [] if self._begun else self._undecoded
            return
        except ValueError as error:
            log.warning("a reply is recorded only up to a decoding error: %s", error)
        if self._begun:
            self._is_cut = True
            yield b""
        else:
            self._plain, self._decoder, self._streamed = PassedWhole(self._dialect), None, False
            yield b"".join(self._undecoded)
