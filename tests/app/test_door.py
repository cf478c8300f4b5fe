"""The door ends the TLS of one host, for one run; everything else passes unread."""

import os
import ssl
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import pytest
import trio
import trustme

from mnemosyne.app.door import Host, environment, host_of, open_door, origin_of
from mnemosyne.app.threads import in_a_thread
from mnemosyne.config import load
from mnemosyne.errors import BadOption

HOST = "api.example.invalid"


@attrs.frozen
class Listening:
    port: int
    heads: list[bytes] = attrs.field(factory=list)


@asynccontextmanager
async def answering(name: str, context: ssl.SSLContext | None, status: str = "200 OK") -> AsyncIterator[Listening]:
    """A server that answers each request with its name."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    listening = Listening(listener.socket.getsockname()[1])

    async def answer(client: trio.abc.Stream) -> None:
        if context is not None:
            client = trio.SSLStream(client, context, server_side=True, https_compatible=True)
        head = b""
        try:
            while b"\r\n\r\n" not in head and (chunk := await client.receive_some()):
                head += chunk
        except trio.BrokenResourceError:
            return  # the client does not accept the certificate
        listening.heads.append(head)
        await client.send_all(f"HTTP/1.1 {status}\r\ncontent-length: {len(name)}\r\n\r\n{name}".encode())
        await client.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        yield listening
        nursery.cancel_scope.cancel()


@attrs.frozen
class Place:
    """A provider with TLS at ``localhost``, our server, and what the door said."""

    folder: Path
    stack: ExitStack
    provider: Listening
    server: Listening
    said: list[str] = attrs.field(factory=list)

    @property
    def authority(self) -> Path:
        return self.folder / "provider.pem"

    @property
    def own(self) -> str:
        return f"https://localhost:{self.provider.port}"

    def open(self, upstream: str, **environ: str) -> dict[str, str]:
        """Open a door; return the client's environment."""
        config = load({"upstream": upstream, "ca_bundle": str(self.authority)}, {})
        given = {"PATH": os.environ["PATH"], **environ}
        opened = open_door(f"http://127.0.0.1:{self.server.port}", config, given, self.said.append)
        return self.stack.enter_context(opened)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "provider.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    with ExitStack() as stack:
        provider = stack.enter_context(in_a_thread(partial(answering, "provider", context), "provider"))
        server = stack.enter_context(in_a_thread(partial(answering, "server", None), "server"))
        yield Place(tmp_path, stack, provider, server)


def curl(environ: Mapping[str, str], *words: str) -> str:
    """What curl prints; it uses the door also for this machine."""
    command = ["curl", "--silent", "--show-error", "--noproxy", "", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_only_the_named_host_s_requests_reach_the_server(place: Place) -> None:
    environ = place.open(f"https://{HOST}")
    assert curl(environ, f"https://{HOST}/v1/messages?beta=true") == "server"
    (head,) = place.server.heads
    assert head.startswith(b"GET /v1/messages?beta=true HTTP/1.1\r\nHost: " + HOST.encode())
    assert curl(environ, "--cacert", str(place.authority), place.own) == "provider"
    with pytest.raises(subprocess.CalledProcessError):  # our authority does not vouch for it
        curl(environ, place.own)
    assert (len(place.server.heads), place.said) == (1, [])


def test_client_that_prefers_http_2_falls_back(place: Place) -> None:
    environ = place.open(f"https://{HOST}")
    assert curl(environ, "--http2", "--write-out", " HTTP/%{http_version}", f"https://{HOST}/") == "server HTTP/1.1"


def test_program_that_refuses_the_certificate_is_named_and_passes_unread(place: Place) -> None:
    environ = place.open(place.own)
    pinned = ("--cacert", str(place.authority), place.own)
    with pytest.raises(subprocess.CalledProcessError):
        curl(environ, *pinned)
    assert curl(environ, *pinned) == "provider"
    assert place.said[0].startswith("a program (curl/")
    assert curl(environ, "--user-agent", "another", place.own) == "server"
    assert len(place.said) == 1


@attrs.frozen
class Program:
    """A program that connects to the provider through a door. It accepts the provider's own certificate; one that
    ``trusts`` accepts the door's too.
    """

    place: Place
    environ: Mapping[str, str]
    name: str = ""
    trusts: bool = True

    def ask(self) -> str:
        """Who answers a request. Raises SSLError if the program rejects the certificate."""
        with closing(self._connect()) as connection:
            connection.request("GET", "/v1/models")
            return connection.getresponse().read().decode()

    def close_at_once(self) -> None:
        """Close a connection after its handshake, without a request."""
        self._connect().close()

    def _connect(self) -> HTTPSConnection:
        context = ssl.create_default_context(cafile=self.place.authority)
        if self.trusts:
            context.load_verify_locations(self.environ["SSL_CERT_FILE"])
        door = urlsplit(self.environ["HTTPS_PROXY"])
        who = b64encode(f"{door.username}:{door.password}".encode()).decode()
        named = {"User-Agent": self.name} if self.name else {}
        connection = HTTPSConnection(door.hostname or "", door.port, context=context, timeout=10)
        connection.set_tunnel("localhost", self.place.provider.port, {"Proxy-Authorization": f"Basic {who}"} | named)
        connection.connect()
        return connection


def test_named_program_may_come_to_refuse_the_certificate(place: Place) -> None:
    environ = place.open(place.own)
    assert Program(place, environ, "node").ask() == "server"
    refusing = Program(place, environ, "node", trusts=False)
    with pytest.raises(ssl.SSLError):
        refusing.ask()
    assert (refusing.ask(), refusing.ask()) == ("provider", "provider")
    (said,) = place.said
    assert said.startswith("a program (node) does not accept")


@pytest.mark.parametrize("name", ["node", ""])
def test_few_connections_without_a_request_mean_nothing(name: str, place: Place) -> None:
    program = Program(place, place.open(place.own), name)
    for _ in range(3):
        program.close_at_once()
        program.close_at_once()
        assert program.ask() == "server"
    assert place.said == []


def test_connections_without_a_request_in_a_row_mean_refusal(place: Place) -> None:
    program = Program(place, place.open(place.own), "node")
    for _ in range(3):
        program.close_at_once()
    assert (program.ask(), program.ask()) == ("provider", "provider")
    (said,) = place.said
    assert said.startswith("a program (node) seems not to accept")


def test_programs_without_a_name_share_no_lasting_verdict(place: Place) -> None:
    environ = place.open(place.own)
    trusting, refusing = Program(place, environ), Program(place, environ, trusts=False)
    for _ in range(2):
        assert trusting.ask() == "server"
        with pytest.raises(ssl.SSLError):
            refusing.ask()
        assert refusing.ask() == "provider"
    assert trusting.ask() == "server"
    (said,) = place.said
    assert "After each failure, one connection passes through unread" in said


@pytest.mark.release
def test_program_without_a_name_and_alert_has_each_retry_answered_in_the_end(place: Place) -> None:
    program = Program(place, place.open(place.own))
    for failures in (3, 1):  # its failures are remembered until a request succeeds
        for _ in range(failures):
            program.close_at_once()
        assert program.ask() == "provider"
    assert program.ask() == "server"
    program.close_at_once()
    assert program.ask() == "server"


@pytest.mark.parametrize(("path", "taker"), [("/v1/session/ws", "provider"), ("/v1/responses", "server")])
def test_websocket_goes_to_the_host_unless_it_holds_turns(path: str, taker: str, place: Place) -> None:
    environ = place.open(place.own)
    assert curl(environ, "-H", "Upgrade: websocket", "-H", "Connection: Upgrade", f"{place.own}{path}") == taker


def test_own_proxy_is_asked_for_other_hosts_except_those_in_no_proxy(place: Place) -> None:
    parent = place.stack.enter_context(in_a_thread(partial(answering, "", None, "403 No"), "the user's own proxy"))
    own = f"http://me:a%20word@127.0.0.1:{parent.port}"
    environ = place.open(f"https://{HOST}", HTTPS_PROXY=own, NO_PROXY=f"localhost,{HOST}")
    assert curl(environ, "--cacert", str(place.authority), place.own) == "provider"
    assert curl(environ, f"https://{HOST}/") == "server"
    with pytest.raises(subprocess.CalledProcessError, match="56"):  # the proxy refuses
        curl(environ, "https://files.example.invalid/")
    (head,) = parent.heads
    assert head.startswith(b"CONNECT files.example.invalid:443 HTTP/1.1\r\n")
    assert b"\r\nproxy-authorization: Basic bWU6YSB3b3Jk\r\n" in head


def test_door_refuses_a_client_without_its_password(place: Place) -> None:
    door = place.open(f"https://{HOST}")["HTTPS_PROXY"]
    with pytest.raises(subprocess.CalledProcessError):
        curl({}, "--proxy", f"http://{door.rpartition('@')[2]}", "--insecure", f"https://{HOST}/")
    assert place.server.heads == []


def test_bundle_holds_all_authorities_and_no_key_and_is_gone_at_the_end(place: Place) -> None:
    own = place.folder / "own.pem"
    trustme.CA().cert_pem.write_to_path(str(own))
    environ = place.open(f"https://{HOST}", SSL_CERT_FILE=str(place.authority), NODE_EXTRA_CA_CERTS=str(own))
    bundle = Path(environ["NODE_EXTRA_CA_CERTS"])
    text = bundle.read_text()
    assert text.count("BEGIN") == text.count("BEGIN CERTIFICATE") == 3
    assert environ["SSL_CERT_FILE"] == str(bundle)
    place.stack.close()
    assert not bundle.parent.exists()
    assert place.said == [f"no request to {HOST} came through the door, so nothing is recorded."]


def test_authorities_that_cannot_be_listed_are_not_replaced(place: Place) -> None:
    environ = place.open(f"https://{HOST}", SSL_CERT_DIR=str(place.folder))
    assert "SSL_CERT_FILE" not in environ
    assert "NODE_EXTRA_CA_CERTS" in environ


def test_client_keeps_its_own_exceptions_from_the_proxy() -> None:
    given = {"NO_PROXY": f"intern.example, .{HOST}", "LANG": "C"}
    found = environment(given, Host(HOST, 443), "http://door", "bundle", is_complete=True)
    assert found["NO_PROXY"] == found["no_proxy"] == "intern.example,127.0.0.1,localhost,::1"
    assert found["HTTPS_PROXY"] == found["https_proxy"] == "http://door"
    assert "ANTHROPIC_BASE_URL" not in found


@pytest.mark.parametrize(
    ("upstream", "base"),
    [
        ("http://a.example", ""),
        ("https://10.0.0.1", ""),
        ("https://bücher.example", ""),
        ("https://a.example", "https://b.example"),
    ],
)
def test_door_needs_a_name_with_tls_to_which_the_client_goes(upstream: str, base: str) -> None:
    with pytest.raises(BadOption):
        host_of(upstream, {"ANTHROPIC_BASE_URL": base})


def test_path_of_an_upstream_is_left_to_the_client() -> None:
    upstream = "https://gateway.example:8443/anthropic/v1"
    assert origin_of(upstream) == "https://gateway.example:8443"
    for given in (upstream, origin_of(upstream)):  # checked again with the run's own upstream, the origin
        assert host_of(given, {"ANTHROPIC_BASE_URL": f"{upstream}/"}) == Host("gateway.example", 8443)
