"""The provider's event stream on its way to the client, sans-I/O: bytes in, outputs out.

Frames that are not ours to change keep their raw bytes and leave as soon as they are whole. The frame that tells the
client that its reply is complete is handed out apart, because the reply must be durable before it leaves.
"""

import json
from typing import Any

import attrs

from mnemosyne.domain.reply import ReplyBuilder
from mnemosyne.http.sse import Frame, FrameReader


@attrs.frozen
class ToClient:
    """Bytes for the client, to be sent at once."""

    raw: bytes


@attrs.frozen
class EndOfReply:
    """The bytes after which the client holds the reply to be complete."""

    raw: bytes


Output = ToClient | EndOfReply


class StreamRewriter:
    """Reads one streamed reply into ``reply`` and passes its bytes on.

    Law: the concatenation of all outputs is what was fed, wherever the network cut it.
    """

    def __init__(self) -> None:
        self.reply = ReplyBuilder()
        self._frames = FrameReader()

    def feed(self, data: bytes) -> list[Output]:
        """Take the next bytes from the provider; return what they allow to be sent."""
        outputs: list[Output] = []
        passing: list[bytes] = []
        for frame in self._frames.feed(data):
            event = _event(frame)
            if event is not None:
                self.reply.take(event)
            if frame.event == b"message_stop":
                _flush(passing, outputs)
                outputs.append(EndOfReply(frame.raw))
            else:
                passing.append(frame.raw)
        _flush(passing, outputs)
        return outputs

    def close(self) -> list[Output]:
        """The provider's stream has ended; return what was held back."""
        rest, self._frames.rest = self._frames.rest, b""
        return [ToClient(rest)] if rest else []


def _flush(passing: list[bytes], outputs: list[Output]) -> None:
    if passing:
        outputs.append(ToClient(b"".join(passing)))
        passing.clear()


def _event(frame: Frame) -> dict[str, Any] | None:
    """The frame's JSON object; None for comments, pings without data, and what is no JSON object."""
    if not frame.data:
        return None
    try:
        event = json.loads(frame.data)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
