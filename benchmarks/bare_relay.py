"""A minimal relay on trio and h11: bytes in, events, bytes out. The reference for the proxy's overhead.

``python -m benchmarks.bare_relay http://127.0.0.1:PORT``. It keeps one upstream connection for each client connection,
forwards a request while it arrives, and does not interpret its content.
"""

import sys
from urllib.parse import urlsplit

import attrs
import h11
import trio

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


async def relay_request(client: Side, upstream: Side, host: bytes) -> bool:
    """Pass one request on. False when the client has closed instead of sending one."""
    while True:
        event = await client.next_event()
        match event:
            case h11.Request():
                headers = [(b"Host", host), *_kept(event)]
                await upstream.send(h11.Request(method=event.method, target=event.target, headers=headers))
            case h11.Data():
                await upstream.send(h11.Data(data=event.data))
            case h11.EndOfMessage():
                await upstream.send(h11.EndOfMessage())
                return True
            case _:
                return False


async def relay_reply(upstream: Side, client: Side) -> None:
    """Pass one reply on, each piece as it comes."""
    while True:
        event = await upstream.next_event()
        match event:
            case h11.Response():
                await client.send(h11.Response(status_code=event.status_code, headers=_kept(event)))
            case h11.Data():
                await client.send(h11.Data(data=event.data))
            case h11.EndOfMessage():
                await client.send(h11.EndOfMessage())
                return
            case _:
                raise h11.RemoteProtocolError("the upstream closed within a reply")


@attrs.frozen
class BareRelay:
    """The upstream's address, and what to do with a client."""

    host: str
    port: int

    async def serve(self, stream: trio.SocketStream) -> None:
        """Relay the requests of one client connection, one after the other."""
        name = f"{self.host}:{self.port}".encode("ascii")
        async with stream, await trio.open_tcp_stream(self.host, self.port) as upstream_stream:
            client = Side(stream, h11.Connection(h11.SERVER))
            upstream = Side(upstream_stream, h11.Connection(h11.CLIENT))
            try:
                while await relay_request(client, upstream, name):
                    await relay_reply(upstream, client)
                    client.machine.start_next_cycle()
                    upstream.machine.start_next_cycle()
            except (trio.BrokenResourceError, h11.RemoteProtocolError):
                return


async def main(upstream: str) -> None:
    address = urlsplit(upstream)
    relay = BareRelay(address.hostname or "127.0.0.1", address.port or 80)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=512)
    port = listener.socket.getsockname()[1]
    sys.stdout.write(f"bare relay listening on http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await trio.serve_listeners(relay.serve, [listener])


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
