"""A scripted endpoint of a helper model on loopback, which can also fail."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import h11
import trio

Json = dict[str, Any]

Answer = tuple[int, bytes] | None
"""Status and body; None hangs up in the middle of the body."""

USED = 100, 20


def says(path: str, text: str) -> Answer:
    """A complete reply with this text, in the dialect of the path."""
    into, out = USED
    if path.endswith("/messages"):
        content = [{"type": "text", "text": text}]
        usage = {"input_tokens": into, "output_tokens": out}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn"}
        return 200, json.dumps({**message, "content": content, "usage": usage}).encode()
    used = {"prompt_tokens": into, "completion_tokens": out}
    return 200, json.dumps({"choices": [{"message": {"content": text}}], "usage": used}).encode()


@attrs.define
class Endpoint:
    """Answers each request by ``answer`` (path and body), and records it: (path, headers, body)."""

    answer: Callable[[str, Json], Answer]
    url: str = ""
    slow: bool = False
    requests: list[tuple[str, dict[str, str], Json]] = attrs.field(factory=list)
    was_asked: trio.Event = attrs.field(factory=trio.Event)
    released: trio.Event = attrs.field(factory=trio.Event)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection. A client that ends during a request resets it."""
        with suppress(trio.BrokenResourceError):
            await self._serve(stream)

    async def _serve(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        while isinstance(head := await _next(connection, stream), h11.Request):
            body = bytearray()
            while isinstance(event := await _next(connection, stream), h11.Data):
                body += event.data
            if event is None:
                return
            path = head.target.decode()
            given = json.loads(body) if body else {}
            self.requests.append((path, {k.decode(): v.decode() for k, v in head.headers}, given))
            self.was_asked.set()
            if self.slow:
                await self.released.wait()
            answer = self.answer(path, given)
            status, payload = answer or (200, b'{"choices": [')
            fields = [("Content-Type", "application/json"), ("Content-Length", str(len(payload) + (answer is None)))]
            sent = [connection.send(h11.Response(status_code=status, headers=fields)), payload]
            await stream.send_all(b"".join(each or b"" for each in sent))
            if answer is None:
                return
            connection.send(h11.Data(data=payload))
            connection.send(h11.EndOfMessage())
            connection.start_next_cycle()


async def _next(connection: h11.Connection, stream: trio.SocketStream) -> object:
    """The next event; None if the client disconnected during a request."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        data = bytes(await stream.receive_some(65536))
        if not data:
            return None
        connection.receive_data(data)
    return event


@asynccontextmanager
async def open_endpoint(answer: Callable[[str, Json], Answer]) -> AsyncIterator[Endpoint]:
    """Open the endpoint."""
    endpoint = Endpoint(answer)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    endpoint.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, endpoint.serve, [listener])
        yield endpoint
        nursery.cancel_scope.cancel()
