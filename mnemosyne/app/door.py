"""The door of ``mnemosyne run --door tls``: a proxy on loopback that ends the TLS of one host.

A client without a changed base URL connects to its provider through it. The requests to that host go to this run's
server in the clear; connections to all other hosts pass through unread.
"""

import logging
import re
import secrets
import ssl
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs
import h11
import trio

from mnemosyne.adapters.outbound import REPLACING as BASE
from mnemosyne.adapters.outbound import choose_proxy, excepts, read_authorities
from mnemosyne.adapters.run_authority import open_authority
from mnemosyne.app.clients import BASE_URL, DOOR, LOOPBACK
from mnemosyne.app.process import now
from mnemosyne.app.threads import in_a_thread
from mnemosyne.config import Config
from mnemosyne.errors import BadOption
from mnemosyne.http.messages_route import path_dialect

ADDING = ("NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE")
"""Variables for authorities besides a program's own: Node.js, Codex."""
REPLACING = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables for a file in place of a program's authorities: OpenSSL, Python's requests, curl."""

CONNECT_SECONDS = 15.0
LARGEST_HEAD = 64 * 1024
"""The longest head of a request or a proxy's answer, in bytes."""

FAILURES = 3
"""How many connections of a program in a row, closed without a request, mean that it does not accept our certificate.
One may be a cancelled request, or made in advance.
"""

log = logging.getLogger(__name__)

_WEBSOCKET = re.compile(rb"^upgrade:[ \t]*websocket", re.IGNORECASE | re.MULTILINE)
_REJECTION = re.compile("alert (?:(?:bad |unsupported )?certificate|unknown ca)")
"""OpenSSL's text for a TLS alert about our certificate."""


@attrs.frozen
class Host:
    """The host whose TLS the door ends, as a name and a port."""

    name: str
    port: int


def host_of(upstream: str, environ: Mapping[str, str]) -> Host:
    """The host of an upstream. Raises BadOption if it has no TLS or no name, or if the client uses another."""
    parts = urlsplit(upstream)
    name = parts.hostname or ""
    if parts.scheme != "https" or not re.search("[a-z]", name) or ":" in name:
        raise BadOption(
            f"--door needs an upstream with TLS and a host name, such as https://api.anthropic.com, not {upstream}."
        )
    if not name.isascii():
        raise BadOption(f"--door needs the ASCII form of the upstream's host, which begins with xn--, not {name}.")
    if origin_of(environ.get(BASE_URL, "")) not in ("", origin_of(upstream)):
        raise BadOption(f"{BASE_URL} names another address than the upstream: unset it, or pass it as --upstream.")
    return Host(name, parts.port or 443)


def origin_of(url: str) -> str:
    """The URL without its path, which a request through the door already has."""
    return "/".join(url.split("/")[:3])


def environment(environ: Mapping[str, str], host: Host, door: str, bundle: str, *, is_complete: bool) -> dict[str, str]:
    """The client's environment: ``door`` is its proxy for TLS, and ``bundle`` the file of its authorities, which may
    replace others only if it ``is_complete``. NO_PROXY keeps what does not hide the host from the door.
    """
    names = [*ADDING, *(REPLACING if is_complete else ())]
    listed = (environ.get("no_proxy") or environ.get("NO_PROXY", "")).split(",")
    kept = [entry.strip() for entry in listed if entry.strip() and not excepts(entry, host.name, host.port)]
    no_proxy = ",".join(dict.fromkeys([*kept, *LOOPBACK]))
    ours = dict.fromkeys(names, bundle) | dict.fromkeys(("HTTPS_PROXY", "https_proxy"), door)
    return {**environ, **ours, "NO_PROXY": no_proxy, "no_proxy": no_proxy}


@contextmanager
def open_door(
    server: str, config: Config, environ: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Open a door to the upstream's host, for the server at this URL; yield the client's environment. ``say`` gets
    sentences for the user. Raises BadOption.
    """
    host = host_of(config.upstream, environ)
    authority, context = open_authority(host.name, now())
    roots = read_authorities(None, environ).context.get_ca_certs(binary_form=True)
    # Those of a folder, and of macOS, cannot be listed.
    listed = read_authorities(None, {name: environ.get(name, "") for name in BASE}).context.get_ca_certs()
    door = Door(host, server, context, read_authorities(config.ca_bundle, environ).context, environ, say)
    with tempfile.TemporaryDirectory(prefix=DOOR) as folder, in_a_thread(door.listen, "door") as url:
        bundle = Path(folder) / "authorities.pem"
        bundle.write_text("".join([*map(ssl.DER_cert_to_PEM_cert, roots), authority]))
        yield environment(environ, host, url, str(bundle), is_complete=bool(listed))
    if not door.trusting:
        say(f"no request to {host.name} came through the door, so nothing is recorded.")


@attrs.define
class Door:
    """A proxy for CONNECT, with a password of its own. ``context`` holds the certificate for ``host``; ``authorities``
    vouch for the host itself. A program is known by its User-Agent; those without one share an empty name.
    """

    host: Host
    server: str
    context: ssl.SSLContext
    authorities: ssl.SSLContext
    environ: Mapping[str, str]
    say: Callable[[str], None]
    password: str = attrs.field(factory=partial(secrets.token_hex, 16), repr=False)
    trusting: set[bytes] = attrs.field(factory=set)
    """Programs that have sent a request through our TLS."""
    failures: Counter[bytes] = attrs.field(factory=Counter)
    """Each program's connections since its last request that ended without one. With ``FAILURES`` it is refusing."""
    told: set[bytes] = attrs.field(factory=set)
    """Refusing programs that the user knows of."""

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        """Listen on loopback; yield the proxy's URL."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            yield f"http://mnemosyne:{self.password}@127.0.0.1:{listener.socket.getsockname()[1]}"
            nursery.cancel_scope.cancel()

    async def _serve(self, client: trio.SocketStream) -> None:
        try:
            async with client:
                await self._answer(client)
        except Exception:  # this connection ends here, and the client notices
            log.debug("a connection of the door ended", exc_info=True)

    async def _answer(self, client: trio.SocketStream) -> None:
        parser = h11.Connection(h11.SERVER)
        parser.receive_data(await _read_head(client))
        request = parser.next_event()
        if not isinstance(request, h11.Request):
            return
        headers = dict(request.headers)
        if headers.get(b"proxy-authorization", b"")[6:] != b64encode(f"mnemosyne:{self.password}".encode()):
            await _refuse(client, b'407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm="door"')
        elif request.method != b"CONNECT":
            await _refuse(client, b"405 Method Not Allowed")
        elif request.target == f"{self.host.name}:{self.host.port}".encode() and not self._lets_pass(
            program := headers.get(b"user-agent", b"")
        ):
            await client.send_all(_ESTABLISHED)
            await self._end_tls(client, program)
        else:
            name, _, port = request.target.decode().rpartition(":")
            try:
                far = await self._connect(name.strip("[]"), int(port))
            except (OSError, ValueError, trio.BrokenResourceError, trio.TooSlowError):
                await _refuse(client, b"502 Bad Gateway")
                return
            await client.send_all(_ESTABLISHED)
            await _join(client, far)

    async def _end_tls(self, client: trio.SocketStream, program: bytes) -> None:
        secure, first = trio.SSLStream(client, self.context, server_side=True, https_compatible=True), b""
        rejects = False
        try:
            await secure.do_handshake()
            while b"\r\n\r\n" not in first and len(first) < LARGEST_HEAD and (chunk := await secure.receive_some()):
                first += chunk
        except trio.BrokenResourceError as error:
            rejects = _REJECTION.search(str(error.__cause__)) is not None
        if first:
            self.trusting.add(program)
            if self.failures[program] < FAILURES:
                del self.failures[program]
            await _join(secure, await self._choose(first), first)
        else:
            # Some libraries check the certificate only after the handshake, or send no alert, and then close.
            self._count_failure(program, rejects=rejects)

    def _lets_pass(self, program: bytes) -> bool:
        """Whether a connection passes unread: all of a refusing program; without a name, one for each failure."""
        if self.failures[program] < FAILURES:
            return False
        if not program:
            self.failures[program] -= 1
        return True

    def _count_failure(self, program: bytes, *, rejects: bool) -> None:
        """Count a connection without a request, which decides if the program ``rejects`` our certificate."""
        self.failures[program] = FAILURES if rejects else min(self.failures[program] + 1, FAILURES)
        if self.failures[program] < FAILURES or program in self.told:
            return
        self.told.add(program)
        named = f" ({program.decode('ascii', 'replace')})" if program else ""
        later = "From now on its connections pass" if program else "After each failure, one connection passes"
        self.say(
            f"a program{named} {'does not' if rejects else 'seems not to'} accept this run's certificate for"
            f" {self.host.name}. {later} through unread and unrecorded."
        )

    async def _choose(self, first: bytes) -> trio.abc.Stream:
        """The server, or the host itself for a WebSocket that holds no turns, which the server would refuse."""
        target = first.split(b" ", 2)[1] if first.count(b" ") > 1 else b""
        if not _WEBSOCKET.search(first.partition(b"\r\n\r\n")[0]) or path_dialect(target) is not None:
            parts = urlsplit(self.server)
            return await trio.open_tcp_stream(parts.hostname or "", parts.port or 80)
        far = await self._connect(self.host.name, self.host.port)
        return trio.SSLStream(far, self.authorities, server_hostname=self.host.name, https_compatible=True)

    async def _connect(self, name: str, port: int) -> trio.abc.Stream:
        """Connect to a host, through the user's own proxy where one applies. Raises OSError, BrokenResourceError and
        TooSlowError.
        """
        host = f"[{name}]" if ":" in name else name
        proxy = choose_proxy(f"https://{host}:{port}", self.environ).url
        with trio.fail_after(CONNECT_SECONDS):
            if proxy is None:
                return await trio.open_tcp_stream(name, port)
            parts = urlsplit(proxy)
            is_secure, ask = parts.scheme == "https", f"CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n"
            stream: trio.abc.Stream
            stream = await trio.open_tcp_stream(parts.hostname or "", parts.port or (443 if is_secure else 80))
            if is_secure:
                stream = trio.SSLStream(stream, self.authorities, server_hostname=parts.hostname, https_compatible=True)
            if parts.username is not None:
                who = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
                ask += f"proxy-authorization: Basic {b64encode(who.encode()).decode()}\r\n"
            await stream.send_all(f"{ask}\r\n".encode())
            answer = await _read_head(stream)
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            await stream.aclose()
            raise OSError("the proxy refused")
        return stream


_ESTABLISHED = b"HTTP/1.1 200 OK\r\n\r\n"


async def _refuse(client: trio.SocketStream, status: bytes) -> None:
    await client.send_all(b"HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)


async def _read_head(stream: trio.abc.ReceiveStream) -> bytes:
    """Read a head, and no byte behind it: the TLS begins there."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if len(head) == LARGEST_HEAD or not (byte := await stream.receive_some(1)):
            raise trio.BrokenResourceError
        head += byte
    return head


async def _join(near: trio.abc.Stream, far: trio.abc.Stream, first: bytes = b"") -> None:
    """Copy bytes in both directions until both ends have closed; ``first`` goes to the far end."""
    async with near, far, trio.open_nursery() as nursery:
        nursery.start_soon(_copy, near, far, nursery.cancel_scope, first)
        nursery.start_soon(_copy, far, near, nursery.cancel_scope)


async def _copy(
    source: trio.abc.ReceiveStream, target: trio.abc.SendStream, both: trio.CancelScope, first: bytes = b""
) -> None:
    try:
        if first:
            await target.send_all(first)
        while chunk := await source.receive_some():
            await target.send_all(chunk)
        if isinstance(target, trio.SocketStream):
            await target.send_eof()
            return
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    both.cancel()
