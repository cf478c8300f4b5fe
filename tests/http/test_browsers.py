"""Foreign web pages can neither reach the provider through the proxy nor read its pages; every other client can. The
tenant header counts only from a trusted proxy.
"""

import json
import socket
from ipaddress import ip_network
from itertools import product
from typing import Any, cast

import pytest
import trio

from mnemosyne.http.app import Application, hosts_of
from mnemosyne.http.browsers import AllowedHosts
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.inspector.status import StatusPages
from mnemosyne_lab.provider.server import open_standin
from tests.http.proxying import TOKEN, RecordedTurns, open_proxy, settings
from tests.http.raw_client import RawReply, connect, exchange
from tests.http.test_gateway import WHOLE
from tests.lab.provider.building import HEADERS
from tests.waiting import DEADLINE

CLIENT = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

PROXIES = tuple(map(ip_network, ("10.1.0.0/16", "fd00::5", "127.0.0.1")))
WHO = [
    ("10.1.2.3", "red", True),
    ("::ffff:10.1.2.3", "red", True),
    ("fd00::5", "Ä", False),
    ("fd00::5", "blue", True),
    ("10.2.0.1", "red", False),
    ("fd00::6", "red", False),
    ("", "red", False),
    ("somewhere", "red", False),
    (None, "red", False),
    ("10.1.2.3", "", False),
    ("10.1.2.3", "red, blue", False),
    ("10.1.2.3", "r" * 65, False),
]

FOREIGN = [
    [(b"Origin", b"https://evil.example")],
    [(b"Origin", b"null")],
    [(b"Origin", b"http://127.0.0.1:1")],
    [(b"Origin", b"")],
    [(b"Origin", b"http://[::1")],
    [(b"Origin", b"https://chat.example"), (b"Origin", b"https://evil.example")],
    [(b"Sec-Fetch-Site", b"cross-site")],
    [(b"Sec-Fetch-Site", b"same-site")],
]

HOSTS = [
    ("localhost:80", True),
    ("127.0.0.1", True),
    ("10.1.2.3:8787", True),
    ("[::1]:8787", True),
    ("api.localhost:8787", True),
    ("server:8787", True),
    ("proxy:8787", False),
    ("host.docker.internal:8787", False),
    ("gate.internal", False),
    ("localhost.internal", False),
    ("mylocalhost", False),
    ("gate.example.com", True),
    ("evil.example:8787", False),
    ("127.0.0.1.evil.example", False),
    ("localhost.evil.example.", False),
    ("internal.example", False),
    ("[::1", False),
    ("", False),
    ("127.0.0.1, evil.example", False),
]


@pytest.mark.parametrize(("host", "is_ours"), HOSTS)
def test_only_local_or_configured_host_names_reach_this_server(host: str, is_ours: bool) -> None:
    allowed_hosts = AllowedHosts(hosts=frozenset({"gate.example.com", "server"}))
    assert (allowed_hosts.refusal(((b"host", host.encode()),)) is None) is is_ours


def test_origin_of_a_request_to_the_provider_s_own_host_is_the_provider_s_business() -> None:
    """It comes through a door; without one, the server does not have that name."""
    sent = ((b"host", b"api.example.com"), (b"origin", b"https://chat.example"), (b"sec-fetch-site", b"cross-site"))
    for upstream, passes in (("https://api.example.com", True), ("https://other.example", False)):
        allowed_hosts = hosts_of(settings(upstream, allowed_hosts=["api.example.com"]))
        assert (allowed_hosts.refusal(sent) is None) is passes
        assert allowed_hosts.is_for_provider(sent) is passes


def test_request_without_browser_headers_is_answered() -> None:
    assert AllowedHosts().refusal(()) is None
    assert AllowedHosts().refusal(((b"host", b"127.0.0.1"), (b"sec-fetch-mode", b"cors"))) is None
    assert AllowedHosts().refusal(((b"host", b"127.0.0.1"), (b"sec-fetch-site", b"none"))) is None


async def test_request_of_a_foreign_page_reaches_neither_provider_nor_log() -> None:
    turns = RecordedTurns()
    async with open_standin() as standin, open_proxy(standin.url, turns) as proxy:
        for headers, kind in product(FOREIGN, (b"application/json", b"text/plain")):
            sent = [(name, value) for name, value in CLIENT if name.lower() != b"content-type"]
            reply = await exchange(proxy.url, body=WHOLE, headers=[*sent, (b"Content-Type", kind), *headers])
            result = json.loads(reply.body)
            assert (reply.status, result["type"], result["error"]["type"]) == (403, "error", "permission_error")
            assert "may not use this proxy" in result["error"]["message"]
        assert standin.exchanges == []
    assert turns.calls == []


async def test_every_spelling_of_a_path_is_closed_to_foreign_pages() -> None:
    async with open_standin() as standin, open_proxy(standin.url, RecordedTurns()) as proxy:
        for target in ("//v1/messages", "/v1/messages/", "/anthropic/v1/messages", "//-/status"):
            reply = await exchange(proxy.url, target, WHOLE, headers=[*CLIENT, *FOREIGN[0]])
            assert reply.status == 403
        assert standin.exchanges == []


async def test_inspector_page_has_exactly_one_path() -> None:
    own = [(b"Authorization", b"Bearer " + TOKEN.encode())]
    targets = ["//-/status", "///-/metrics", "/anthropic/-/status"]
    async with open_standin(strict=False) as standin, open_proxy(standin.url) as proxy:
        for target in targets:
            await exchange(proxy.url, target, method="GET", headers=own)
        assert [seen.target for seen in standin.exchanges] == targets
        hidden = await exchange(proxy.url, "/-//v1/messages", WHOLE, headers=CLIENT)
        assert (hidden.status, len(standin.exchanges)) == (404, 3)


async def test_foreign_request_is_refused_before_its_body_is_read() -> None:
    async with open_proxy("http://127.0.0.1:9") as proxy, connect(proxy.url) as connection:
        await connection.stream.send_all(
            b"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n"
            b"Content-Length: 1000000\r\n\r\n"
        )
        with trio.fail_after(DEADLINE):
            assert (await connection.stream.receive_some(65536)).startswith(b"HTTP/1.1 403")


async def test_inspector_pages_are_closed_to_other_sites_even_with_the_token() -> None:
    async with open_proxy("http://127.0.0.1:9") as proxy:
        own = (b"Authorization", b"Bearer " + TOKEN.encode())
        for headers in FOREIGN:
            assert (await _status(proxy.url, [own, *headers])).status == 403
        assert (await _status(proxy.url, [own, (b"Origin", proxy.url.encode())])).status == 200


async def _status(url: str, headers: list[tuple[bytes, bytes]]) -> RawReply:
    return await exchange(url, method="GET", target="/-/status", headers=headers)


@pytest.mark.parametrize(("address", "tenant", "is_taken"), WHO)
def test_tenant_header_counts_only_from_a_trusted_proxy(address: str | None, tenant: str, is_taken: bool) -> None:
    named = ((b"X-Mnemosyne-Tenant", tenant.encode("latin-1")),)
    assert (AllowedHosts(proxies=PROXIES).refusal_of_tenant(named, address) is None) is is_taken
    assert AllowedHosts().refusal_of_tenant(named, address) is not None
    assert AllowedHosts().refusal_of_tenant((), address) is None


def test_two_tenant_headers_are_refused() -> None:
    named = ((b"x-mnemosyne-tenant", b"red"), (b"x-mnemosyne-tenant", b"blue"))
    assert AllowedHosts(proxies=PROXIES).refusal_of_tenant(named, "10.1.2.3") is not None


SCRIPT = b"<script>parent.document.cookie</script>"
NAVIGATION = [(b"Sec-Fetch-Mode", b"navigate"), (b"Sec-Fetch-Dest", b"document"), (b"Sec-Fetch-Site", b"none")]
EMBEDDED = [(b"Sec-Fetch-Mode", b"no-cors"), (b"Sec-Fetch-Dest", b"object"), (b"Sec-Fetch-Site", b"same-origin")]


class Cookies:
    """A gateway whose provider answers with a page and a cookie."""

    asked = 0

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        headers = [(b"content-type", b"text/html"), (b"Set-Cookie", b"a=b"), (b"set-cookie", b"c=d")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": SCRIPT, "more_body": False})


async def ask(
    gateway: Cookies, path: bytes, headers: list[tuple[bytes, bytes]]
) -> tuple[int, dict[bytes, bytes], bytes]:
    """How the application answers a browser's request."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    app = Application(cast("Gateway", gateway), cast("StatusPages", None), AllowedHosts())
    scope = {"type": "http", "method": "GET", "raw_path": path, "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    first, *bodies = sent
    return first["status"], dict(first["headers"]), b"".join(each["body"] for each in bodies)


@pytest.mark.parametrize("path", [b"/", b"/v1/messages", b"/index.html", b"/-x"])
@pytest.mark.parametrize("headers", [NAVIGATION, EMBEDDED], ids=["opened", "embedded"])
async def test_unknown_page_gets_the_proxys_404_and_nothing_from_the_provider(
    path: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    gateway = Cookies()
    status, _, body = await ask(gateway, path, headers)
    assert (status, gateway.asked) == (404, 0)
    assert b"no page at this address" in body


@pytest.mark.parametrize(
    "headers",
    [
        [(b"Sec-Fetch-Mode", b"cors"), (b"Sec-Fetch-Dest", b"empty"), (b"Sec-Fetch-Site", b"same-origin")],
        [(b"User-Agent", b"Mozilla/5.0 (an old browser)")],
        [(b"Sec-Fetch-Dest", b"image"), (b"Sec-Fetch-Site", b"same-origin")],
    ],
)
async def test_browser_gets_provider_replies_without_scripts_or_cookies(
    headers: list[tuple[bytes, bytes]],
) -> None:
    status, got, body = await ask(Cookies(), b"/anything", headers)
    assert (status, body) == (200, SCRIPT)
    assert got == {b"content-type": b"text/html", b"content-security-policy": b"sandbox"}


async def test_client_that_is_no_browser_gets_the_provider_headers_unchanged() -> None:
    _, got, _ = await ask(Cookies(), b"/anything", [(b"User-Agent", b"claude-cli/2.1.329")])
    assert got.keys() == {b"content-type", b"Set-Cookie", b"set-cookie"}


def test_host_name_of_the_machine_counts_if_the_listener_is_public() -> None:
    own = socket.gethostname().lower()
    remote = hosts_of(settings("https://h", host="0.0.0.0", allow_remote=True))
    assert own in remote.hosts
    assert own not in hosts_of(settings("https://h")).hosts
