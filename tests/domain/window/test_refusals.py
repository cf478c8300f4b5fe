"""Which provider errors are about the proxy's additions."""

import json

import pytest

from mnemosyne.domain.window.refusals import Refusal, refusal_of
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import may_last


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        ("x: The block is bound to a different conversation: its system differs", Refusal.THINKING),
        ("tools: Tool names must be unique: memory_search", Refusal.TOOLS),
        ("tools.3.custom.name: no", Refusal.TOOLS),
        ("tools.2.custom.name: no", None),
        ("Item 'rs_1' of type 'reasoning' was provided without its required following item.", Refusal.THINKING),
        ("The encrypted content for item rs_1 could not be verified.", Refusal.THINKING),
        ("tools.x: no", None),
        ("Invalid value: 'input[0].tools[3].type'.", Refusal.TOOLS),
        ("Invalid value: 'input[0].tools[1]'.", None),
        ("diagnostics: Extra inputs are not permitted", Refusal.VERDICT),
        ("messages.0.content: diagnostics are not here", None),
        ("prompt is too long: 210000 tokens > 200000 maximum", Refusal.LENGTH),
        ("", None),
    ],
)
def test_error_is_a_refusal_if_it_names_an_addition_of_the_proxy_or_a_too_long_prompt(
    message: str, refusal: Refusal | None
) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    assert refusal_of(json.dumps(error).encode(), b"[{}, {}, {}]", MESSAGES) is refusal


@pytest.mark.parametrize(
    ("status", "joining", "named", "later"),
    [
        (400, True, True, False),
        (403, True, True, False),
        (404, True, True, False),
        (422, True, True, False),
        (500, True, False, False),
        (401, False, True, False),
        (429, False, False, False),
        (529, False, False, False),
    ],
)
def test_any_status_but_of_a_credential_limit_or_overload_may_be_due_to_tools_that_were_never_accepted(
    status: int, joining: bool, named: bool, later: bool
) -> None:
    def is_refusal(message: str, *, joins: bool) -> bool:
        error = json.dumps({"error": {"message": message}}).encode()
        return refusal_of(error, b"[{}]", MESSAGES, 1, status=status, joins=joins) is Refusal.TOOLS_BEHIND

    assert is_refusal("That did not work.", joins=True) is joining
    assert is_refusal("inline-tools-2026-09-15 is not allowed", joins=False) is named
    assert is_refusal("That did not work.", joins=False) is later


@pytest.mark.parametrize("body", [b"", b"<html>memory_query</html>", b'{"error": "memory_query"}', b'{"error": {}}'])
def test_other_errors_are_not_refusals(body: bytes) -> None:
    assert refusal_of(body, b"", MESSAGES) is None


def test_error_with_a_tool_index_behind_the_clients_tools_is_a_refusal_of_tools() -> None:
    def refused(param: str) -> Refusal | None:
        return refusal_of(
            json.dumps({"error": {"message": "Invalid value.", "param": param}}).encode(), b"[{}]", MESSAGES
        )

    assert refused("input[0].tools[1].type") is Refusal.TOOLS
    assert refused("input[0].tools[0].type") is None


@pytest.mark.parametrize(
    ("message", "is_about_it"),
    [
        ('messages: Unexpected role "system".', True),
        ("messages.1.role: Input should be 'user' or 'assistant'", True),
        ("messages.1: A system message must follow a user message", True),
        ("Invalid value: 'input[1]'.", True),
        ("messages.11: no", False),
        ("messages.2.content.1: no", False),
        ("input[0].tools[0]: no", False),
    ],
)
def test_error_about_the_message_that_adds_the_tools_is_a_refusal_of_tools_behind_the_head(
    message: str, is_about_it: bool
) -> None:
    error = json.dumps({"error": {"message": message}}).encode()
    assert (refusal_of(error, b"[{}]", MESSAGES, offer=1) is Refusal.TOOLS_BEHIND) is is_about_it


@pytest.mark.parametrize(
    ("body", "may"),
    [
        (b'{"error": {"type": "invalid_request_error"}}', True),
        (b'{"error": {"type": "permission_error"}}', True),
        (b'{"error": {"type": "api_error"}}', False),
        (b'{"error": {"type": "server_error"}}', False),
        (b'{"error": {}}', False),
        (b"<html>", False),
    ],
)
def test_only_an_error_with_a_type_that_is_no_failure_of_the_provider_may_last(body: bytes, may: bool) -> None:
    assert may_last(body) is may
