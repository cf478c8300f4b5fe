"""Read a reply while it passes to the client unchanged, sans-I/O. Its end is a separate output, because the reply must
be durable before the end is sent.
"""

from mnemosyne.domain.wire.dialect import Dialect, ReplyReader
from mnemosyne.http.splicing import EndOfReply, Output, ToClient
from mnemosyne.http.sse import FrameReader, event_of


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
