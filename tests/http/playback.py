"""A provider that plays back recorded replies in order, whatever the request, and keeps the requests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import h11
import trio


@attrs.define
class Playback:
    """The received requests and the remaining replies: (content type, payload)."""

    replies: list[tuple[str, bytes]]
    url: str = ""
    requests: list[tuple[str, str, list[tuple[bytes, bytes]], bytes]] = attrs.field(factory=list)

    async def serve(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            request = await _next(connection, stream)
            if not isinstance(request, h11.Request):
                return
            body = bytearray()
            while isinstance(event := await _next(connection, stream), h11.Data):
                body += event.data
            head = (request.method.decode(), request.target.decode(), list(request.headers.raw_items()))
            self.requests.append((*head, bytes(body)))
            await stream.send_all(self._answer(connection))
            connection.start_next_cycle()

    def _answer(self, connection: h11.Connection) -> bytes:
        kind, payload = self.replies.pop(0)
        head = h11.Response(status_code=200, headers=[("Content-Type", kind), ("Transfer-Encoding", "chunked")])
        sent = (connection.send(event) for event in (head, h11.Data(data=payload), h11.EndOfMessage()))
        return b"".join(data or b"" for data in sent)


async def _next(connection: h11.Connection, stream: trio.abc.Stream) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(bytes(await stream.receive_some(65536)))
    return event


@asynccontextmanager
async def open_playback(replies: Sequence[tuple[str, bytes]]) -> AsyncIterator[Playback]:
    """The listening provider, for as long as the block runs."""
    playback = Playback(list(replies))
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    playback.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, playback.serve, [listener])
        yield playback
        nursery.cancel_scope.cancel()
