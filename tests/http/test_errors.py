"""The proxy's own errors have the form that the client's library reads: its own dialect."""

import json
from typing import Any

import pytest

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.dialects import DIALECTS
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.errors import UpstreamFailed
from mnemosyne.http.errors import complete_error, cut_error, error_body_for
from mnemosyne.upstreams import NamedUpstream
from mnemosyne_lab.provider.server import open_standin
from tests.http.proxying import open_proxy
from tests.http.raw_client import exchange

Json = dict[str, Any]

EACH = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/responses?x=1"}


def assert_form(dialect: Dialect, body: bytes, kind: str) -> str:
    """Return the error's sentence; the error must have the form of the dialect's provider."""
    result: Json = json.loads(body)
    if dialect is MESSAGES:
        assert result == {"type": "error", "error": {"type": kind, "message": result["error"]["message"]}}
        return str(result["error"]["message"])
    assert result.keys() == {"error"}
    assert result["error"].keys() == {"message", "type", "code", "param"}
    assert result["error"]["type"] == ("server_error" if kind == "api_error" else "invalid_request_error")
    assert result["error"]["code"] == (None if kind in ("api_error", "invalid_request_error") else kind)
    return str(result["error"]["message"])


@EACH
async def test_too_large_body_is_refused_in_the_form_of_its_path(dialect: Dialect) -> None:
    async with open_standin() as standin, open_proxy(standin.url, max_body_bytes=10) as proxy:
        reply = await exchange(proxy.url, PATHS[dialect.name], b"x" * 11)
        assert standin.exchanges == []
        await exchange(proxy.url, PATHS[dialect.name], b"x" * 10)
        assert len(standin.exchanges) == 1
    assert reply.status == 413
    assert "max_body_bytes is 10" in assert_form(dialect, reply.body, "request_too_large")


@EACH
async def test_unreachable_provider_is_reported_in_the_form_of_the_path(dialect: Dialect) -> None:
    async with open_proxy("http://127.0.0.1:9") as proxy:
        reply = await exchange(proxy.url, PATHS[dialect.name], b"{}")
    assert reply.status == 502
    assert assert_form(dialect, reply.body, "api_error").startswith("Mnemosyne: http://127.0.0.1:9 gave no answer")


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("body", [b'{"stream":true}', b'{"model":7}', b"{"], ids=["none", "no name", "no JSON"])
async def test_request_without_a_model_is_not_sent_if_two_providers_match(dialect: Dialect, body: bytes) -> None:
    others = [NamedUpstream(name, "", (dialect.name,), (f"{name}*",)) for name in ("qwen", "gpt")]
    async with open_standin() as standin, open_proxy(standin.url, others=others) as proxy:
        reply = await exchange(proxy.url, PATHS[dialect.name], body)
    assert reply.status == 400
    assert "names no model" in (result := assert_form(dialect, reply.body, "invalid_request_error"))
    assert result.endswith("Candidates: qwen (qwen*); gpt (gpt*).")
    assert not standin.exchanges


@EACH
async def test_refusal_for_form_or_host_has_the_form_of_the_path(dialect: Dialect) -> None:
    async with open_proxy("http://127.0.0.1:9") as proxy:
        upgrade = await exchange(proxy.url, PATHS[dialect.name], b"{}", headers=[(b"upgrade", b"websocket")])
        foreign = await exchange(proxy.url, PATHS[dialect.name], b"{}", headers=[(b"origin", b"https://evil.example")])
    assert (upgrade.status, foreign.status) == (426, 403)
    assert "WebSockets" in assert_form(dialect, upgrade.body, "invalid_request_error")
    assert_form(dialect, foreign.body, "permission_error")


@EACH
def test_error_keeps_its_body_or_gets_a_default_one(dialect: Dialect) -> None:
    own = b'{"error": {"message": "busy"}}'
    assert complete_error(own, dialect) == own
    for body, message in (
        (b"<html>busy", "<html>busy"),
        (b'{"detail":1}', '{"detail":1}'),
        (b"", "The provider answered with nothing."),
    ):
        assert assert_form(dialect, complete_error(body, dialect), "api_error") == message
    assert "broke" in assert_form(dialect, cut_error(dialect), "api_error")


def test_error_without_a_dialect_has_the_form_of_the_messages_api() -> None:
    assert_form(MESSAGES, error_body_for(UpstreamFailed("x gave no answer"), MESSAGES).body, "api_error")
