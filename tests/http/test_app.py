"""The proxy refuses a request whose form is meant for another kind of server or is ambiguous."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from mnemosyne.config import load
from mnemosyne.domain.wire.identity import SESSION_HEADER
from mnemosyne.http.app import refusal_of
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.inspector.status import OWNER_PATH
from tests.http.proxying import TOKEN, app_of
from tests.http.test_sharing import Owner, sharing

LENGTH, CHUNKED = (b"Content-Length", b"5"), (b"transfer-encoding", b"chunked")


@pytest.mark.parametrize(
    ("method", "target", "headers", "status", "says"),
    [
        ("CONNECT", b"api.anthropic.com:443", (), 400, "base URL"),
        ("POST", b"http://localhost/v1/messages", (), 400, "base URL"),
        ("OPTIONS", b"*", (), 400, "base URL"),
        ("POST", b"/v1/messages", (LENGTH, CHUNKED), 400, "must not have both"),
        ("GET", b"/v1/messages", ((b"Upgrade", b"WebSocket"),), 426, "server-sent"),
    ],
)
def test_refusal_names_its_reason_in_the_providers_error_format(
    method: str, target: bytes, headers: tuple[tuple[bytes, bytes], ...], status: int, says: str
) -> None:
    refused = refusal_of(method, target, headers)
    assert refused is not None
    assert refused.status == status
    assert says in json.loads(refused.body)["error"]["message"]


@pytest.mark.parametrize("headers", [(), (LENGTH,), (CHUNKED,), ((b"upgrade", b"h2c"),)])
def test_every_other_form_passes(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    assert refusal_of("POST", b"/v1/messages?beta=true", headers) is None


@pytest.mark.parametrize("target", [b"/v1/messages", b"/v1/messages/count_tokens", b"/v1/responses", OWNER_PATH])
async def test_requests_for_a_session_of_another_process_are_passed_on_once(target: bytes, tmp_path: Path) -> None:
    """A hook vouches for a prompt in the process that gets the prompt."""
    asked: list[str] = []
    gateway: Any = Gateway(None, None, RelayProgress(), 100, None, sharing=sharing(Owner(b"of the owner"), asked))  # type: ignore[arg-type]
    config = load({"upstream": "http://127.0.0.1:1", "data_dir": str(tmp_path)}, {})
    app, sent, bodies = app_of(config, gateway), list[Any](), [{"type": "http.request", "body": b"{}"}]
    if target == OWNER_PATH:
        bodies.clear()
    headers = [
        (b"host", b"localhost"),
        (SESSION_HEADER.encode(), b"s"),
        (b"authorization", b"Bearer " + TOKEN.encode()),
    ]
    scope = {"type": "http", "method": "POST", "raw_path": target, "query_string": b"", "headers": headers}

    async def receive() -> dict[str, Any]:
        return bodies.pop() if bodies else await trio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    await app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
    assert (asked, b"".join(each.get("body", b"") for each in sent)) == (["s s"], b"of the owner")
    if target == OWNER_PATH:
        sent.clear()
        await app.answer_for_another(scope, receive, send)
        assert (asked, sent[0]["status"]) == (["s s"], 200)
