"""A reply that passes to the client as it comes while it is read, sans-I/O. Only its end is handed out apart: that
must be durable before it leaves.
"""

from mnemosyne.domain.wire.dialect import Dialect, ReplyReader
from mnemosyne.http.splicing import EndOfReply, Output, ToClient
from mnemosyne.http.sse import FrameReader, event_of


class PassedStream:
    """An event stream, read frame by frame into ``reply``.

    Law: the outputs, joined, are what was fed; and none depends on where the network cut the stream.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.reply: ReplyReader = dialect.reader()
        self._ends = dialect.ends
        self._frames = FrameReader()
        self._ended = False

    def feed(self, data: bytes) -> list[Output]:
        """Take the next bytes from the provider; return what they allow to be sent."""
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
        """Read no more: what was held of it, which passes with all that still comes."""
        return self._frames.take_rest()

    def close(self) -> list[Output]:
        """The stream has ended. Not every server says so: a reply may be whole without its last frame."""
        rest = self._frames.take_rest()
        if not self._ended and self.reply.result().complete:
            return [EndOfReply(rest)]
        return [ToClient(rest)] if rest else []


class PassedWhole:
    """A body: each chunk waits for the next one, or for the end."""

    def __init__(self, dialect: Dialect) -> None:
        self.reply: ReplyReader = dialect.reader()
        self._held = b""
        self._is_stopped = False

    def feed(self, data: bytes) -> list[Output]:
        """Take the next bytes from the provider; return what they allow to be sent."""
        self.reply.take_raw(data)
        ready, self._held = self._held, data
        return [ToClient(ready)] if ready else []

    def stop(self) -> bytes:
        """Read no more: what was held of it, which passes with all that still comes."""
        self._is_stopped = True
        held, self._held = self._held, b""
        return held

    def close(self) -> list[Output]:
        """The body is complete, as far as it was read."""
        if self._is_stopped:
            return []
        self.reply.end_raw()
        last, self._held = self._held, b""
        return [EndOfReply(last)]
