r"""The connection of a client without a visible proxy: it believes that it talks to the provider itself, over TLS.

A proxy on loopback (the client gets HTTPS_PROXY) intercepts connections to the provider's host, ends the TLS with a
certificate of its own authority, and forwards the bytes to the scripted provider; so it does for other hosts that it
is given. It refuses everything else.
"""

import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

import attrs
import trio
import trustme

from mnemosyne.app.threads import in_a_thread

PROVIDER = "api.anthropic.com"


@attrs.frozen
class FirstParty:
    url: str
    authority: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment that routes a client or a server through this proxy."""
        proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), self.url)
        return proxies | {"NODE_EXTRA_CA_CERTS": str(self.authority)}


@contextmanager
def first_party(
    standin_port: int, folder: Path, others: Mapping[str, int] = MappingProxyType({})
) -> Iterator[FirstParty]:
    """The proxy, in a thread of its own; it writes its authority's certificate into the folder. ``others`` are further
    hosts and the ports of their servers on this machine.
    """
    ports = {PROVIDER: standin_port, **others}
    with in_a_thread(partial(_open, ports, folder), "the way to the provider") as opened:
        yield opened


@asynccontextmanager
async def _open(ports: Mapping[str, int], folder: Path) -> AsyncIterator[FirstParty]:
    authority = trustme.CA()
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*ports).configure_cert(context)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, partial(_serve, ports, context), [listener])
        yield FirstParty(f"http://127.0.0.1:{listener.socket.getsockname()[1]}", file)
        nursery.cancel_scope.cancel()


async def _serve(ports: Mapping[str, int], context: ssl.SSLContext, client: trio.SocketStream) -> None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (chunk := await client.receive_some(1)):  # read no byte of the TLS data after it
            return
        head += chunk
    port = next((port for host, port in ports.items() if head.startswith(f"CONNECT {host}:443 ".encode())), None)
    if port is None:
        await client.send_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
        return
    await client.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
    secure = trio.SSLStream(client, context, server_side=True, https_compatible=True)
    provider = await trio.open_tcp_stream("127.0.0.1", port)
    async with secure, provider, trio.open_nursery() as nursery:
        nursery.start_soon(_copy, secure, provider, nursery.cancel_scope)
        nursery.start_soon(_copy, provider, secure, nursery.cancel_scope)


async def _copy(source: trio.abc.ReceiveStream, target: trio.abc.SendStream, both: trio.CancelScope) -> None:
    try:
        while chunk := await source.receive_some():
            await target.send_all(chunk)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    both.cancel()
