"""Restrict Hypercorn to HTTP/1.1.

Hypercorn also accepts WebSockets and HTTP/2 without TLS, and has no setting to disable them. The proxy does not need
them, and each is another parser exposed to strangers. Invalid HTTP is refused in the provider's error format; any other
error of a connection ends that connection, not the server.

HTTP/1.1 chunks that arrive together are read as one event: h11 makes an event of each, and some peers send each byte as
a separate chunk.
"""

import logging
import re
from typing import Any, cast

import h11
import hypercorn.protocol
import trio
from h11 import _readers
from h11._receivebuffer import ReceiveBuffer
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Request
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream

from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.http.errors import error_body

log = logging.getLogger(__name__)


class PlainHttp(H11Protocol):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._send, self.send = self.send, self._send_in_turn
        self._refused = False
        """Whether an error response for an invalid request was sent."""

    async def _send_in_turn(self, event: Event) -> None:
        """Send an event, but do not close the connection for excess input while a reply is running."""
        if isinstance(event, Closed) and self._replies():
            await self.can_read.clear()
            await self.can_read.wait()  # the end of the reply closes the connection
            return
        await self._send(event)

    def _replies(self) -> bool:
        under_way = self.connection.our_state in (h11.SEND_BODY, h11.DONE, h11.MUST_CLOSE)
        return self.stream is not None and under_way and not self._refused

    async def handle(self, event: Event) -> None:
        try:
            await super().handle(event)
            if isinstance(event, RawData) and not event.data:
                # The client has closed; otherwise the server would keep the connection for its keep-alive time.
                await self.send(Updated(idle=False))
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Exception:
            log.exception("a connection failed and is closed")
            await self.send(Closed())

    async def _check_protocol(self, event: h11.Request) -> None:
        """Ignore requests to upgrade to another protocol (RFC 9110, 7.8)."""

    async def _create_stream(self, request: h11.Request) -> None:
        self.stream = HTTPStream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=request.headers.raw_items(),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1
        await self.context.mark_request()

    async def _send_error_response(self, status_code: int) -> None:
        error = error_body(
            status_code, "invalid_request_error", "Mnemosyne: this is not a valid HTTP/1.1 request.", MESSAGES
        )
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(error.body)),
            (b"connection", b"close"),
        ]
        self._refused = True
        await self.send(Updated(idle=False))
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=error.body))
        await self._send_h11_event(h11.EndOfMessage())


def speak_plain_http() -> None:
    """Install this protocol in Hypercorn, which has no setting for it."""
    vars(hypercorn.protocol)["H11Protocol"] = PlainHttp


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
