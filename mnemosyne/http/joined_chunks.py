"""Read HTTP/1.1 chunks that arrive together as one event: h11 makes an event of each, and some peers send each byte as
a separate chunk.
"""

import re
from typing import Any, cast

import h11
from h11 import _readers
from h11._receivebuffer import ReceiveBuffer

_HEAD = re.compile(rb"\r\n([0-9A-Fa-f]{1,3})\r\n")
"""The bytes between a chunk and a short chunk after it."""


class JoinedChunks(_readers.ChunkedReader):
    """Reads a chunked body; joins short chunks that are already in the buffer into one event."""

    def __call__(self, buf: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        event = super().__call__(buf)
        if not isinstance(event, h11.Data) or self._bytes_in_chunk or len(buf) < len(b"\r\n1\r\n."):
            return event
        held = bytes(buf)
        pieces, at = [bytes(event.data)], 0
        while head := _HEAD.match(held, at):
            size = int(head[1], 16)
            end = head.end() + size
            if not size or end > len(held):
                break
            pieces.append(held[head.end() : end])
            at = end
        if at:
            buf.maybe_extract_at_most(at)
        return h11.Data(data=b"".join(pieces), chunk_start=event.chunk_start, chunk_end=True)


def join_chunks() -> None:
    """Install the reader for all connections of this process; h11 has no setting for it."""
    cast("dict[str, Any]", _readers.READERS[h11.SEND_BODY])["chunked"] = JoinedChunks
