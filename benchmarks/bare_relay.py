"""A minimal relay on trio and h11: bytes in, events, bytes out. The reference for the proxy's overhead.

``python -m benchmarks.bare_relay http://127.0.0.1:PORT``. It keeps one upstream connection for each client connection,
forwards a request while it arrives, and does not interpret its content.
"""

import sys
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

import attrs
import h11
import trio

from benchmarks.harness import serve

HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"host"})


@attrs.define
class Side:
    """One connection: a socket and the state machine that reads and writes it."""

    stream: trio.SocketStream
    machine: h11.Connection

    async def next_event(self) -> object:
        while True:
            event = self.machine.next_event()
            if event is not h11.NEED_DATA:
                return event
            self.machine.receive_data(await self.stream.receive_some())

    async def send(self, event: h11.Event) -> None:
        data = self.machine.send(event)
        if data:
            await self.stream.send_all(data)


def _kept(event: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in event.headers.raw_items() if name.lower() not in HOP_BY_HOP]


async def pass_on(source: Side, target: Side, host: bytes) -> bool:
    """Forward one request or reply piece by piece. False if the source closed the connection instead."""
    while True:
        event = await source.next_event()
        match event:
            case h11.Request():
                headers = [(b"Host", host), *_kept(event)]
                await target.send(h11.Request(method=event.method, target=event.target, headers=headers))
            case h11.Response():
                await target.send(h11.Response(status_code=event.status_code, headers=_kept(event)))
            case h11.Data():
                await target.send(h11.Data(data=event.data))
            case h11.EndOfMessage():
                await target.send(h11.EndOfMessage())
                return True
            case _:
                return False


async def relay(host: str, port: int, stream: trio.SocketStream) -> None:
    """Relay the requests of one client connection to an upstream, one after the other."""
    name = f"{host}:{port}".encode("ascii")
    async with stream, await trio.open_tcp_stream(host, port) as upstream_stream:
        client = Side(stream, h11.Connection(h11.SERVER))
        upstream = Side(upstream_stream, h11.Connection(h11.CLIENT))
        with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
            while await pass_on(client, upstream, name) and await pass_on(upstream, client, name):
                client.machine.start_next_cycle()
                upstream.machine.start_next_cycle()


if __name__ == "__main__":
    address = urlsplit(sys.argv[1])
    trio.run(serve, "bare relay", partial(relay, address.hostname or "127.0.0.1", address.port or 80))
