"""A request goes to the provider of its dialect and model, and its reply comes from there."""

import gzip
import json

import pytest

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.domain.wire.exchange import UpstreamRequest
from mnemosyne.http.routing import RoutedUpstream
from mnemosyne.upstreams import OPENAI_DIALECTS, NamedUpstream
from tests.http.playback import Playback, open_playback


def request(path: str, model: object) -> UpstreamRequest:
    body = json.dumps({"model": model, "messages": []}).encode()
    return UpstreamRequest("POST", path.encode(), (), body)


@pytest.mark.parametrize(
    ("path", "model", "reached"),
    [
        ("/v1/messages", "claude", "default"),
        ("/v1/messages?beta=true", "qwen", "local"),
        ("/v1/messages", None, "default"),
        ("/v1/chat/completions", "qwen", "local"),
        ("/v1/chat/completions", "gpt", "openai"),
        ("/v1/chat/completions", 7, "openai"),
        ("/v1/chat/completions", None, "openai"),
        ("/v1/responses", "gpt", "openai"),
        ("/v1/responses/compact", "gpt", "openai"),
        ("//v1/responses/", "gpt", "openai"),
        ("/openai/v1/chat/completions", "qwen", "local"),
        ("/anthropic/v1/messages?beta=true", "qwen", "local"),
        ("/v1/models", "gpt", "default"),
    ],
)
async def test_request_goes_to_the_matching_provider(path: str, model: object, reached: str) -> None:
    answers = [("application/json", b"{}")]
    async with open_playback(answers) as default, open_playback(answers) as local, open_playback(answers) as openai:
        named: dict[str, Playback] = {"default": default, "local": local, "openai": openai}
        async with (
            HttpUpstream(default.url) as first,
            HttpUpstream(local.url) as second,
            HttpUpstream(openai.url) as third,
        ):
            routed = RoutedUpstream(
                first,
                (
                    (NamedUpstream("local", local.url, (*OPENAI_DIALECTS, "messages"), ("qwen*",)), second),
                    (NamedUpstream("openai", openai.url), third),
                ),
            )
            async with routed.exchange(request(path, model), lambda: None) as reply:
                assert [chunk async for chunk in reply.chunks()] == [b"{}"]
        assert [name for name, each in named.items() if each.requests] == [reached]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (((b"content-encoding", b"gzip"),), gzip.compress(b'{"model":"gpt-6","input":[]}')),
        ((), b'{"input":[]}'),
        ((), b'{"model":nul}'),
        ((), b"{"),
    ],
    ids=["compressed", "no model", "no value", "no JSON"],
)
async def test_request_never_takes_its_credentials_to_another_dialects_provider(
    headers: tuple[tuple[bytes, bytes], ...], body: bytes
) -> None:
    answers = [("application/json", b"{}")]
    async with open_playback(answers) as default, open_playback(answers) as openai:
        async with HttpUpstream(default.url) as first, HttpUpstream(openai.url) as second:
            routed = RoutedUpstream(first, ((NamedUpstream("openai", openai.url, models=("gpt-*",)), second),))
            async with routed.exchange(UpstreamRequest("POST", b"/v1/responses", headers, body), lambda: None):
                pass
        assert (len(default.requests), len(openai.requests)) == (0, 1)


BEARER = ((b"authorization", b"Bearer sk-proj-1"),)
"""What the library of OpenAI sends of a key, and nothing else that says whose it is."""


@pytest.mark.parametrize(
    ("method", "path", "headers", "reached"),
    [
        ("GET", "/v1/models", BEARER, "openai"),
        ("GET", "/models", BEARER, "openai"),
        ("GET", "/v1/models?after=1", BEARER, "openai"),
        ("GET", "/v1/models/gpt-6", BEARER, "openai"),
        ("POST", "/v1/embeddings", BEARER, "openai"),
        ("GET", "/v1/responses/resp_1", BEARER, "openai"),
        ("DELETE", "/v1/responses/resp_1", BEARER, "openai"),
        ("GET", "/v1/chat/completions/1", BEARER, "openai"),
        ("GET", "/v1/models", ((b"x-api-key", b"sk-ant-1"), (b"anthropic-version", b"2023-06-01")), "default"),
        ("GET", "/v1/models", (*BEARER, (b"Anthropic-Beta", b"oauth-2025-04-20")), "default"),
        ("GET", "/v1/models", ((b"Authorization", b"Bearer sk-ant-oat01-1"),), "default"),
        ("GET", "/v1/models", (), "default"),
        ("GET", "/v1/organizations/me", BEARER, "default"),
        ("GET", "/api/oauth/profile", BEARER, "default"),
        ("POST", "/v1/messages/count_tokens", BEARER, "default"),
    ],
)
async def test_request_that_is_no_turn_goes_to_the_provider_of_its_key(
    method: str, path: str, headers: tuple[tuple[bytes, bytes], ...], reached: str
) -> None:
    answers = [("application/json", b"{}")]
    async with open_playback(answers) as default, open_playback(answers) as openai:
        async with HttpUpstream(default.url) as first, HttpUpstream(openai.url) as second:
            routed = RoutedUpstream(first, ((NamedUpstream("openai", openai.url, models=("gpt-*",)), second),))
            async with routed.exchange(UpstreamRequest(method, path.encode(), headers, b""), lambda: None):
                pass
        named = {"default": default, "openai": openai}
        assert [name for name, each in named.items() if each.requests] == [reached]
