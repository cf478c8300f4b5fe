"""A reply that is not an event stream on its way to the client, sans-I/O.

The last bytes are handed out apart, as with a stream: each chunk waits for the next one, or for the end.
"""

from mnemosyne.domain.reply import ReplyBuilder
from mnemosyne.http.stream_rewriter import EndOfReply, Output, ToClient


class WholeReply:
    """Collects one whole reply into ``reply`` and passes its bytes on. Law: outputs, joined, are what was fed."""

    def __init__(self) -> None:
        self.reply = ReplyBuilder()
        self._held = b""

    def feed(self, data: bytes) -> list[Output]:
        self.reply.take_raw(data)
        ready, self._held = self._held, data
        return [ToClient(ready)] if ready else []

    def close(self) -> list[Output]:
        self.reply.end_raw()
        last, self._held = self._held, b""
        return [EndOfReply(last)]
