"""The path, in any spelling, says what a request is, and a model call on an unknown path is noticed."""

import pytest

from mnemosyne.domain.wire.exchange import UpstreamRequest
from mnemosyne.http.messages_route import is_count, may_hold_a_conversation, plain_path, turn_dialect


def asked(target: bytes, body: bytes = b"{}", method: str = "POST") -> UpstreamRequest:
    return UpstreamRequest(method, target, (), body)


@pytest.mark.parametrize(
    ("target", "plain"),
    [
        (b"/v1/messages", b"/v1/messages"),
        (b"//v1///messages//?beta=true", b"/v1/messages"),
        (b"/anthropic/v1/messages/count_tokens", b"/v1/messages/count_tokens"),
        (b"/v1/account/openai/v1/chat/completions", b"/v1/chat/completions"),
        (b"/messages/", b"/messages"),
        (b"//v1/responses", b"/v1/responses"),
        (b"/v1/responses/", b"/v1/responses"),
        (b"/gateway/v1/team//openai/v1/responses", b"/v1/responses"),
        (b"/api/v1/chat/completions", b"/v1/chat/completions"),
        (b"/proxy/messages", b"/proxy/messages"),
        (b"/v1?x=/v1/messages", b"/v1"),
        (b"/", b"/"),
    ],
)
def test_normalized_path_has_no_empty_segments_and_no_prefix(target: bytes, plain: bytes) -> None:
    assert plain_path(target) == plain


def test_path_that_only_resembles_a_turn_path_is_no_turn() -> None:
    paths = b"/v1/threads/t/messages /v1/messages/batches /v1/messagesx /xv1/messages /v1/Messages /v1//-/m"
    for target in paths.split():
        assert turn_dialect(asked(target)) is None, target
        assert may_hold_a_conversation(asked(target)), target


@pytest.mark.parametrize("target", [b"//v1/messages", b"/v1/messages/", b"/anthropic/v1/messages"])
def test_only_a_post_is_a_turn(target: bytes) -> None:
    assert turn_dialect(asked(target)) is not None
    assert [turn_dialect(asked(target, method=method)) for method in ("GET", "PUT", "OPTIONS")] == [None] * 3


@pytest.mark.parametrize("target", [b"//v1/messages/count_tokens", b"/anthropic/v1/messages/count_tokens/?beta=true"])
def test_count_request_is_recognized_in_every_spelling_of_its_path(target: bytes) -> None:
    assert is_count(asked(target))
    assert not may_hold_a_conversation(asked(target))


@pytest.mark.parametrize(
    ("target", "body", "may"),
    [
        (b"/v1/completions", b"", True),
        (b"/v1beta/models/g:generateContent", b'{"contents": []}', True),
        (b"/openai/deployments/d/chat/completions?api-version=1", b'{"messages": []}', True),
        (b"/api/chat", b'{"model": "m", "messages": []}', True),
        (b"/api/v1/completions", b'{"prompt": "p", "model": "m"}', True),
        (b"/api/event_logging/batch", b'{"events": [{"model": "m"}]}', False),
        (b"//api//metrics", b'{"metrics": []}', False),
        (b"/api/feedback", b"model", False),
        (b"/api/feedback", b"", False),
    ],
)
def test_model_call_on_an_unknown_path_is_distinguished_from_statistics(target: bytes, body: bytes, may: bool) -> None:
    assert may_hold_a_conversation(asked(target, body)) is may
