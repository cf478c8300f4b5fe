"""A request goes to the provider of its dialect and model, and its reply comes from there."""

import gzip
import json
from contextlib import AsyncExitStack

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
    others = NamedUpstream("local", "", (*OPENAI_DIALECTS, "messages"), ("qwen*",)), NamedUpstream("openai", "")
    assert await name_reached(request(path, model), *others) == reached


async def name_reached(request: UpstreamRequest, *others: NamedUpstream) -> str:
    """The name of the provider that gets a request, ``default`` or one of the others; its reply arrives."""
    async with AsyncExitStack() as stack:
        playing: dict[str, Playback] = {}
        opened: list[HttpUpstream] = []
        for name in ("default", *(each.name for each in others)):
            playing[name] = await stack.enter_async_context(open_playback([("application/json", b"{}")]))
            opened.append(await stack.enter_async_context(HttpUpstream(playing[name].url)))
        routed = RoutedUpstream(opened[0], tuple(zip(others, opened[1:], strict=True)))
        async with routed.exchange(request, lambda: None) as reply:
            assert [chunk async for chunk in reply.chunks()] == [b"{}"]
        (reached,) = (name for name, each in playing.items() if each.requests)
        return reached


OPENAI = NamedUpstream("openai", "", models=("gpt-*",))


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
    assert await name_reached(UpstreamRequest("POST", b"/v1/responses", headers, body), OPENAI) == "openai"


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
    assert await name_reached(UpstreamRequest(method, path.encode(), headers, b""), OPENAI) == reached
