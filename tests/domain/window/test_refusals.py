"""Which errors of the provider are about what we added."""

import json

import pytest

from mnemosyne.domain.window.refusals import Refusal, refusal_of
from mnemosyne.domain.wire.messages import MESSAGES


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
        ("prompt is too long: 210000 tokens > 200000 maximum", Refusal.LENGTH),
        ("", None),
    ],
)
def test_an_error_is_ours_if_it_names_what_we_added_or_a_prompt_that_is_too_long(
    message: str, refusal: Refusal | None
) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    assert refusal_of(json.dumps(error).encode(), b"[{}, {}, {}]", MESSAGES) is refusal


@pytest.mark.parametrize("body", [b"", b"<html>memory_query</html>", b'{"error": "memory_query"}', b'{"error": {}}'])
def test_what_is_no_error_of_the_api_is_not_ours(body: bytes) -> None:
    assert refusal_of(body, b"", MESSAGES) is None


def test_an_error_that_names_only_the_place_of_a_tool_is_about_ours_when_it_stands_behind_the_clients() -> None:
    def refused(param: str) -> Refusal | None:
        return refusal_of(
            json.dumps({"error": {"message": "Invalid value.", "param": param}}).encode(), b"[{}]", MESSAGES
        )

    assert refused("input[0].tools[1].type") is Refusal.TOOLS
    assert refused("input[0].tools[0].type") is None
