"""The HTTP client of the provider: its connections, certificates and proxy."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import socket

import attrs
import pytest
import trio
import trustme

from mnemosyne.adapters.outbound import ADDING, REPLACING
from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.domain.wire.exchange import UpstreamRequest
from mnemosyne.errors import BadConfiguration, UpstreamFailed, UpstreamUnreachable
from tests.http.playback import Playback

REQUEST = UpstreamRequest("POST", b"/v1/messages", ((b"X-Api-Key", b"k"),), b"{}")

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*REPLACING, *ADDING):
        monkeypatch.delenv(name, raising=False)
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def secure_provider(authority: trustme.CA, name: str) -> AsyncIterator[int]:
    """A provider with TLS on loopback and a certificate for ``name``; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    playback = Playback([("application/json", b'{"id":"msg_1"}')])
    listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, _forgiving(playback), listeners)
        transport = listeners[0].transport_listener
        assert isinstance(transport, trio.SocketListener)
        yield transport.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def _forgiving(playback: Playback) -> Callable[[trio.SSLStream[trio.SocketStream]], Awaitable[None]]:
    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            await playback.serve(stream)
        except trio.BrokenResourceError:
            return  # the client refused the certificate

    return serve


@attrs.define
class ConnectProxy:
    """A proxy that tunnels every CONNECT to one port, and records the hosts."""

    port: int
    asked: list[str] = attrs.field(factory=list)
    url: str = ""

    async def serve(self, stream: trio.SocketStream) -> None:
        head = bytearray()
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some(4096)
        self.asked.append(head.split()[1].decode())
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as other, trio.open_nursery() as nursery:
            nursery.start_soon(_pump, stream, other)
            await _pump(other, stream)
            nursery.cancel_scope.cancel()


async def _pump(source: trio.SocketStream, target: trio.SocketStream) -> None:
    try:
        async for data in source:
            await target.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return


@asynccontextmanager
async def open_connect_proxy(port: int) -> AsyncIterator[ConnectProxy]:
    proxy = ConnectProxy(port)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()


async def ask(upstream: HttpUpstream) -> bytes:
    async with upstream, upstream.exchange(REQUEST, lambda: None) as reply:
        return b"".join([chunk async for chunk in reply.chunks()])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "authorities.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def test_a_provider_with_a_private_authority_is_trusted_by_a_bundle(authority: trustme.CA, bundle: Path) -> None:
    async with secure_provider(authority, "localhost") as port:
        assert await ask(HttpUpstream(f"https://localhost:{port}", ca_bundle=bundle)) == b'{"id":"msg_1"}'


async def test_proxy_and_authorities_of_the_environment_are_used(
    authority: trustme.CA, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    async with secure_provider(authority, "provider.example") as port, open_connect_proxy(port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert await ask(HttpUpstream("https://provider.example:444")) == b'{"id":"msg_1"}'
    assert proxy.asked == ["provider.example:444"]


async def test_an_untrusted_certificate_names_the_setting_for_a_bundle(authority: trustme.CA) -> None:
    async with secure_provider(authority, "localhost") as port:
        with pytest.raises(UpstreamUnreachable, match=r"certificate.* ca_bundle \(--ca-bundle FILE\)\.$"):
            await ask(HttpUpstream(f"https://localhost:{port}"))


async def test_a_probe_of_a_silent_provider_ends(autojump_clock: trio.abc.Clock) -> None:
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        async with HttpUpstream(f"http://127.0.0.1:{silent.getsockname()[1]}") as upstream:
            assert (await upstream.probe()).state == "silent"


async def test_a_probe_of_a_closed_port_reports_unreachable() -> None:
    with socket() as closed:
        closed.bind(("127.0.0.1", 0))  # so that no other program listens there
        async with HttpUpstream(f"http://127.0.0.1:{closed.getsockname()[1]}") as upstream:
            reach = await upstream.probe()
    assert reach.state == "unreachable"
    assert reach.sentence.startswith(f"{reach.url} gave no answer: ")


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n", "reachable"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 9\r\n\r\n", "reachable"),
        (b"", "silent"),
    ],
)
async def test_a_probe_accepts_any_answer(answer: bytes, state: str) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        await stream.send_all(answer)

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        async with HttpUpstream(f"http://127.0.0.1:{listener.socket.getsockname()[1]}") as upstream:
            assert (await upstream.probe()).state == state
        nursery.cancel_scope.cancel()


async def test_a_certificate_for_another_name_is_refused(authority: trustme.CA, bundle: Path) -> None:
    async with secure_provider(authority, "elsewhere.example") as port:
        with pytest.raises(UpstreamFailed, match="certificate"):
            await ask(HttpUpstream(f"https://localhost:{port}", ca_bundle=bundle))


def test_a_bundle_without_certificates_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(BadConfiguration, match=r"ca_bundle = .*empty\.pem"):
        HttpUpstream("https://provider.example", ca_bundle=empty)


@pytest.mark.parametrize(
    ("base", "asked", "sent"),
    [
        ("https://a.example", b"/v1/messages?x", b"/v1/messages?x"),
        ("https://a.example", b"/messages", b"/v1/messages"),
        ("https://a.example", b"/messages/count_tokens?beta=true", b"/v1/messages/count_tokens?beta=true"),
        ("https://a.example", b"/messages2", b"/messages2"),
        ("https://a.example/gate", b"/v1/messages", b"/gate/v1/messages"),
        ("https://a.example/gate", b"/messages", b"/gate/v1/messages"),
        ("https://a.example/gate/v1", b"/messages", b"/gate/v1/messages"),
    ],
)
def test_the_path_of_the_provider_comes_first(base: str, asked: bytes, sent: bytes) -> None:
    assert HttpUpstream(base).target(asked) == sent
