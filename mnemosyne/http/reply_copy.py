"""Read a copy of a reply, by its content type and encoding, while it passes to the client unchanged.

A reply's end is a separate output, because the reply must be durable before the end is sent.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing

import trio

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.reply import ReplyReader
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


class ReplyCopy:
    """Reads a copy of a reply, decoded, while its bytes pass. Invariant: the joined outputs equal the input.

    A stream passes frame by frame, or, if compressed, chunk by chunk until the decoded copy ends. Of a body, the latest
    chunk is held back. If the first bytes do not match the encodings, or these are unknown, it is recorded undecoded.
    """

    def __init__(self, dialect: Dialect, encodings: Sequence[bytes], *, streams: bool) -> None:
        self._encodings = encodings
        decoder = decoder_for(encodings, LARGEST_REPLY)
        self._decoder = decoder or Decoder((), LARGEST_REPLY)
        self._stream = PassedStream(dialect) if streams and decoder else None
        """None for a body that is not read as a stream."""
        self.reply: ReplyReader = self._stream.reply if self._stream else dialect.reader()
        self._room = LARGEST_REPLY
        self._is_cut = False
        """Whether reading has stopped: the reply is too large, or decoding failed after a part was decoded."""
        self._begun = False
        """Whether anything was decoded."""
        self._undecoded: list[bytes] = []
        self._held = b""

    def feed(self, data: bytes) -> Iterator[list[Output]]:
        """Take the provider's next bytes. Yields after each short step, so that other tasks can run in between."""
        ended = False
        for piece in self._decode(data):
            outputs = self._read(piece)
            ended = ended or any(isinstance(output, EndOfReply) for output in outputs)
            yield [] if self._encodings else outputs
        if self._stream is None:
            ready, self._held = self._held, data
            yield [ToClient(ready)] if ready else []
        elif self._encodings:
            yield [EndOfReply(data) if ended else ToClient(data)]
        elif self._is_cut:
            yield [ToClient(self._stream.stop() + data)]

    def close(self) -> list[Output]:
        """End the reply."""
        if self._stream is None:
            if not self._is_cut:
                self.reply.end_raw()
            is_whole = not self._is_cut and self._decoder.is_whole
            return [EndOfReply(self._held) if is_whole else ToClient(self._held)]
        outputs = self._stream.close()
        if not self._encodings:
            return outputs
        return [EndOfReply(b"")] if any(isinstance(output, EndOfReply) for output in outputs) else []

    def _read(self, piece: bytes) -> list[Output]:
        if self._stream is not None:
            return self._stream.feed(piece)
        self.reply.take_raw(piece)
        return []

    def _decode(self, data: bytes) -> Iterator[bytes]:
        self._room -= len(data)
        if self._room < 0 and not self._is_cut:
            log.warning("a reply is recorded only in part: it is too large")
            self._is_cut = True
        if self._is_cut:
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
        self._is_cut = self._begun
        if not self._begun:
            self._decoder, self._stream = Decoder((), LARGEST_REPLY), None
            yield b"".join(self._undecoded)


async def pass_on(chunks: AsyncIterator[bytes], reading: ReplyCopy, head: ReplyHead, client: ClientReply) -> None:
    """Pass a reply with this head to the client and record its end. Raises ReplyCut if it is cut off."""
    client.watch(reading.reply.result)
    client.begin(head)
    async with aclosing(_outputs(chunks, reading, client.turn)) as outputs:
        async for output in outputs:
            if isinstance(output, EndOfReply):
                await client.record(lambda: client.turn.note_finished(head, reading.reply.result()))
            await client.hand_over(output.raw)


async def _outputs(chunks: AsyncIterator[bytes], reading: ReplyCopy, turn: TurnLog) -> AsyncGenerator[Output, None]:
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


def is_stream(head: ReplyHead) -> bool:
    """Whether a reply is an event stream."""
    fields = {name.lower(): value.strip().lower() for name, value in head.headers}
    return fields.get(b"content-type", b"").startswith(b"text/event-stream")


def copy_for(head: ReplyHead, dialect: Dialect) -> ReplyCopy:
    return ReplyCopy(dialect, encodings_of(head.headers), streams=is_stream(head))


def copy_raw(dialect: Dialect) -> ReplyCopy:
    """A copy of a reply that cannot be decoded: it is recorded as received."""
    return ReplyCopy(dialect, (), streams=False)
