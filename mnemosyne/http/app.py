"""The ASGI application: serves the proxy's pages under ``/-/`` and forwards all else to the provider. It refuses
requests from web pages of other sites.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

import attrs
import trio

from mnemosyne.config import Config, list_settings
from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.http.browsers import AllowedHosts, is_browser, shows_a_document, wants_a_page, without_effect
from mnemosyne.http.errors import ErrorBody, error_body
from mnemosyne.http.gateway import Gateway, Message, Receive, Scope, Send, refuse, send_error
from mnemosyne.http.inspector.passing import PagePasser
from mnemosyne.http.inspector.status import OWNER_PATH, PATHS, ServerParts, StatusPages
from mnemosyne.http.messages_route import error_dialect
from mnemosyne.setting_values import is_loopback

FIRST_PAGE = b"/-/"

_NO_PAGE = error_body(404, "not_found_error", "Mnemosyne: no page at this address.", MESSAGES)
_NOT_THERE = error_body(404, "not_found_error", "Mnemosyne: this server has no pages.", MESSAGES)
_NO_FORWARD_PROXY = (
    "Mnemosyne: this is not a forward proxy. Unset HTTP_PROXY and HTTPS_PROXY, and set the client's base URL "
    "(ANTHROPIC_BASE_URL) to this address."
)
_TWO_LENGTHS = "Mnemosyne: a request must not have both Content-Length and Transfer-Encoding (RFC 9112, 6.1)."
_NO_WEBSOCKETS = "Mnemosyne: WebSockets are not supported; use HTTP, where replies are streamed as server-sent events."


@attrs.frozen
class Application:
    """The ASGI callable. Without ``pages`` it serves only the status endpoints."""

    gateway: Gateway
    status: StatusPages
    allowed_hosts: AllowedHosts
    pages: PagePasser | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await answer_lifespan(receive, send)
            return
        headers: Headers = tuple(scope["headers"])
        send = _shield_last(send)
        if refused := refusal_for(self.allowed_hosts, scope):
            await refuse(send, refused)
            return
        await self._answer(scope, headers, receive, send)

    async def _answer(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        path: bytes = scope["raw_path"]
        if self.allowed_hosts.is_for_provider(headers):
            await self.gateway.answer(scope, receive, send)
        elif path in PATHS:
            is_for_session = path == OWNER_PATH and self.gateway.sharing is not None
            if not (is_for_session and await self.gateway.pass_on(scope, receive, send, b"")):
                await self.status.answer(scope["method"], path, headers, send)
        elif path == b"/-" or path.startswith(b"/-/"):
            if self.pages is None:
                await send_error(send, _NOT_THERE)
            else:
                await self.pages.answer(scope, receive, send)
        elif path == b"/" and self.pages is not None and wants_a_page(scope["method"], headers):
            await _send_empty(send, 303, ((b"location", FIRST_PAGE),))
        elif shows_a_document(scope["method"], headers):
            await send_error(send, _NO_PAGE)
        else:
            send = _without_effect(send) if is_browser(headers) else send
            await self.gateway.answer(scope, receive, send)

    async def answer_for_another(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that another process of this server accepted and passed on."""
        if scope["type"] != "http":
            await answer_lifespan(receive, send)
        elif scope["raw_path"] == OWNER_PATH:
            await self.status.answer(scope["method"], OWNER_PATH, tuple(scope["headers"]), _shield_last(send))
        else:
            await self.gateway.answer(scope, receive, _shield_last(send), is_passed=True)

    def close_pages(self) -> None:
        """Close the open pages: those that follow the log never end by themselves."""
        if self.pages is not None:
            self.pages.close()


def create_app(
    config: Config,
    gateway: Gateway,
    token: str,
    parts: ServerParts,
    pages: PagePasser | None = None,
) -> Application:
    """Build the application. ``token`` gives access to the proxy's pages."""
    status = StatusPages(
        token=token,
        settings=list_settings(config),
        progress=gateway.progress,
        unfinished=gateway.unfinished,
        unrecorded=gateway.unrecorded,
        parts=parts,
    )
    return Application(gateway, status, hosts_of(config), pages)


def hosts_of(config: Config) -> AllowedHosts:
    """Return the hosts that a server with these settings accepts."""
    proxies = tuple(ipaddress.ip_network(network) for network in config.tenant_proxies)
    hosts = {config.host, *config.allowed_hosts}
    if not is_loopback(config.host):
        hosts.add(socket.gethostname().lower())  # the name of a container
    upstream = urlsplit(config.upstream)
    provider = upstream.netloc if upstream.hostname in config.allowed_hosts else None
    return AllowedHosts(frozenset(hosts), proxies, provider)


def refusal_for(allowed_hosts: AllowedHosts, scope: Scope) -> ErrorBody | None:
    """Return the error for a request that must be refused because of its origin or form; None if it is acceptable."""
    headers: Headers = tuple(scope["headers"])
    address, _ = scope.get("client") or (None, None)
    foreign = allowed_hosts.refusal(headers) or allowed_hosts.refusal_of_tenant(headers, address)
    if foreign is not None:
        return error_body(403, "permission_error", f"Mnemosyne: {foreign}", error_dialect(scope["raw_path"]))
    return refusal_of(scope["method"], scope["raw_path"], headers)


def refusal_of(method: str, target: bytes, headers: Headers) -> ErrorBody | None:
    """Return the error for a malformed request; None if it is well-formed. A malformed one is meant for another kind of
    server, or two parsers could understand it differently.
    """
    dialect = error_dialect(target)
    if method == "CONNECT" or not target.startswith(b"/"):
        return error_body(400, "invalid_request_error", _NO_FORWARD_PROXY, dialect)
    names = {name.lower() for name, _ in headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        return error_body(400, "invalid_request_error", _TWO_LENGTHS, dialect)
    if any(name.lower() == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
        # On this status Codex 0.169.0 falls back to HTTP at once; on others it retries five times first.
        return error_body(426, "invalid_request_error", _NO_WEBSOCKETS, dialect)
    return None


async def answer_lifespan(receive: Receive, send: Send) -> None:
    """Acknowledge startup and shutdown (ASGI lifespan)."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def _send_empty(send: Send, status: int, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _without_effect(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": list(without_effect(tuple(message["headers"])))}
        await send(message)

    return sending


def _shield_last(send: Send) -> Send:
    """Return ``send`` with its last call shielded from cancellation.

    Hypercorn announces the disconnect before that call returns. A task cancelled by the announcement would cancel the
    call, and the connection would never become idle nor be closed at shutdown.
    """

    async def shielding(message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("more_body", False):
            await send(message)
            return
        with trio.CancelScope(shield=True):
            await send(message)

    return shielding
