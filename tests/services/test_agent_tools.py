"""Tools describe their arguments, and invalid arguments get an error that a model can act on."""

import pytest

from mnemosyne.errors import BadOption
from mnemosyne.services.agent_tools import BY_NAME, TOOLS
from mnemosyne.services.memory_operations import Arguments, check_arguments


def test_every_tool_has_a_description_and_a_schema() -> None:
    assert len(BY_NAME) == len(TOOLS)
    for each in TOOLS:
        assert len(each.summary) > 40
        assert set(each.required) <= set(each.properties)
        assert each.schema["additionalProperties"] is False
        assert {found["type"] for found in each.properties.values()} <= {"string", "integer", "boolean"}


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("recall", {}, "recall needs question."),
        ("recall", {"question": " "}, "recall needs question."),
        ("update", {}, "update needs entry and text."),
        ("recall", {"question": "x", "depth": 1}, "recall has no parameter 'depth'; its parameters: question, limit."),
        ("recall", {"question": 5}, "question of recall must have the type string, not 5."),
        ("recall", {"question": "x", "limit": True}, "limit of recall must have the type integer, not True."),
        ("recall", {"question": "x", "limit": 51}, "limit of recall must be from 1 to 50."),
        ("context_at", {"turn": 0}, "turn of context_at must be from 1 to"),
    ],
)
def test_invalid_arguments_are_refused(name: str, arguments: Arguments, why: str) -> None:
    with pytest.raises(BadOption) as caught:
        check_arguments(BY_NAME[name], arguments)
    assert str(caught.value).startswith(why)
    check_arguments(BY_NAME["recall"], {"question": "x", "limit": 50})
    check_arguments(BY_NAME["context_at"], {"turn": 2_000})
