"""An HTTP client that exposes everything: the bytes sent, the bytes received and in which pieces, and how the
exchange ended.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import attrs
import h11
import trio

from tests.lab.provider.building import HEADERS

Pairs = Sequence[tuple[bytes, bytes]]


@attrs.define
class RawReply:
    """A reply without any decoding. ``cut`` says that the connection ended before the reply did; ``first_at`` is when
    the first byte of its body arrived.
    """

    status: int = 0
    headers: list[tuple[bytes, bytes]] = attrs.field(factory=list)
    body: bytes = b""
    cut: bool = False
    first_at: float = attrs.field(default=0.0, eq=False)

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


class RawConnection:
    """One connection to a server, for one or several exchanges in turn."""

    def __init__(self, stream: trio.SocketStream, host: str) -> None:
        self.stream = stream
        self._host = host
        self._h11 = h11.Connection(h11.CLIENT)

    async def send(self, method: str, target: str, body: bytes = b"", headers: Pairs | None = None) -> None:
        given = list(headers if headers is not None else [(k.encode(), v.encode()) for k, v in HEADERS.items()])
        if body:
            given.append((b"Content-Length", b"%d" % len(body)))
        request = h11.Request(method=method, target=target, headers=[(b"Host", self._host.encode()), *given])
        sent = self._h11.send(request) + (self._h11.send(h11.Data(data=body)) if body else b"")
        await self.stream.send_all(sent + self._h11.send(h11.EndOfMessage()))

    async def receive(self) -> RawReply:
        """The whole reply, or the part that arrived."""
        reply = RawReply()
        async for _ in self.pieces(reply):
            pass
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        return reply

    async def pieces(self, reply: RawReply, at_most: int = 65_536) -> AsyncGenerator[bytes, None]:
        """Yield the body in the pieces in which it arrives, filling ``reply``; each read from the network takes at
        most ``size`` bytes.
        """
        while True:
            try:
                event = self._h11.next_event()
                if event is h11.NEED_DATA:
                    self._h11.receive_data(await self.stream.receive_some(at_most))
                    continue
            except (h11.RemoteProtocolError, trio.BrokenResourceError):
                reply.cut = True
                return
            if isinstance(event, h11.Response):
                reply.status, reply.headers = event.status_code, list(event.headers.raw_items())
            elif isinstance(event, h11.Data):
                reply.first_at = reply.first_at or trio.current_time()
                reply.body += bytes(event.data)
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            elif isinstance(event, h11.ConnectionClosed):
                reply.cut = True
                return


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[RawConnection]:
    """A connection to the server at ``url``."""
    parts = urlsplit(url)
    assert parts.hostname
    stream = await trio.open_tcp_stream(parts.hostname, parts.port or 80)
    async with stream:
        yield RawConnection(stream, parts.netloc)


async def exchange(
    url: str, target: str = "/v1/messages", body: bytes = b"", *, method: str = "POST", headers: Pairs | None = None
) -> RawReply:
    """One request on a connection of its own."""
    async with connect(url) as connection:
        with suppress(trio.BrokenResourceError):  # The server may have replied without reading the rest of the request.
            await connection.send(method, target, body, headers)
        return await connection.receive()
