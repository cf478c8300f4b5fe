"""The proxy refuses a request whose form is meant for another kind of server or is ambiguous."""

import json

import pytest

from mnemosyne.http.app import refusal_of

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
