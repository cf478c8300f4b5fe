"""Tools go behind the cached head only where an API is known to take them there."""

import pytest

from mnemosyne.domain.wire.exchange import UpstreamRequest
from mnemosyne.domain.wire.tools_behind import IN_MESSAGES, IN_RESPONSES, find_header
from mnemosyne.http.headers import request_with
from mnemosyne_lab.provider import models

TOOL = {"name": "Find", "description": "", "input_schema": {"type": "object"}}
BETA = b"inline-tools-2026-09-15"


@pytest.mark.parametrize("model", [row.prefix for row in models.MODELS])
def test_models_that_take_tools_in_messages_are_those_of_the_documentation(model: str) -> None:
    assert IN_MESSAGES.takes(model) is models.find(model).changes_tools
    assert IN_MESSAGES.takes(f"{model}-20260922") is models.find(model).changes_tools
    assert not IN_RESPONSES.takes(model)


def test_responses_take_tools_in_the_input_from_gpt_5_4_on() -> None:
    taken = [name for name in ("gpt-5", "gpt-5.3", "gpt-5.4-mini", "gpt-6-sol", "o4") if IN_RESPONSES.takes(name)]
    assert taken == ["gpt-5.4-mini", "gpt-6-sol"]


@pytest.mark.parametrize("listed", [(), (b"a",), (b"a", b"b"), (b"a," + BETA,)], ids=str)
def test_request_lists_the_beta_once_in_one_header_beside_the_clients_own(listed: tuple[bytes, ...]) -> None:
    request = UpstreamRequest("POST", b"/v1/messages", tuple((b"Anthropic-Beta", value) for value in listed), b"")
    body = b'{"messages":[' + IN_MESSAGES.write([TOOL]) + b"]}"
    sent = [value for name, value in request_with(request, body).headers if name.lower() == b"anthropic-beta"]
    assert sorted(b",".join(sent).split(b",")) == sorted({*b",".join(listed).split(b","), BETA} - {b""})
    assert len(sent) == 1
    assert request_with(request, b"{}").headers[: len(listed)] == request.headers


def test_definition_quoted_in_a_text_needs_no_header() -> None:
    quoted = IN_MESSAGES.write([TOOL]).replace(b'"', b'\\"')
    assert find_header(b'{"text":"' + quoted + b'"}') is None
