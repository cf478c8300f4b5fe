"""Our comparison of two requests and the provider's agree, whatever the client changes."""

import json
from typing import Any

import pytest

from mnemosyne.domain.cost.prompt_changes import find_change
from mnemosyne.domain.cost.prompt_layout import PromptLayout, lay_out
from mnemosyne.domain.cost.verdict_agreement import agrees
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.cache_verdict import IN_MESSAGES, Compared
from mnemosyne_lab.provider.diagnostics import MessagesDiagnostics
from tests.lab.provider.building import TOOL, Json, assistant, body, user
from tests.not_none import not_none

WORDS = "some words " * 200
TURNS = [user(WORDS), assistant("yes"), user("go on"), assistant("done"), user("thanks")]
SYSTEM = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"}, {"type": "text", "text": WORDS}]
MARKED = [*TURNS, assistant("well"), user({"type": "text", "text": "and?", "cache_control": {"type": "ephemeral"}})]


def laid_out(request: Json) -> PromptLayout:
    return not_none(lay_out(transcript.read(json.dumps(request).encode()).transcript))


def judge(before: Json, later: Json) -> tuple[Compared, bool | None]:
    """The provider's verdict, and whether ours agrees."""
    provider = MessagesDiagnostics()
    provider.compare({**before, "diagnostics": {"previous_message_id": None}}, [], "msg_1")
    asked = {**later, "diagnostics": {"previous_message_id": "msg_1"}}
    verdict = not_none(IN_MESSAGES.read_verdict(asked.get, {"diagnostics": provider.compare(asked, [], "msg_2")}))
    return verdict.compared, agrees(verdict.compared, find_change(laid_out(before), laid_out(later)))


FIRST = body(*TURNS, system=SYSTEM)


@pytest.mark.parametrize(
    ("changes", "compared"),
    [
        ({}, Compared.SAME),
        ({"messages": MARKED}, Compared.SAME),
        ({"max_tokens": 7, "metadata": {"user_id": "u"}}, Compared.SAME),
        ({"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2;"}, SYSTEM[1]]}, Compared.SAME),
        ({"system": [SYSTEM[0], {"type": "text", "text": f"{WORDS} It is noon."}]}, Compared.SYSTEM),
        ({"system": SYSTEM[:1]}, Compared.SYSTEM),
        ({"tools": [TOOL, {**TOOL, "name": "More"}]}, Compared.TOOLS),
        ({"tools": [{**TOOL, "description": "Looks closely."}]}, Compared.TOOLS),
        ({"tools": [], "system": []}, Compared.TOOLS),
        ({"model": "claude-haiku-5"}, Compared.MODEL),
        ({"speed": "fast"}, Compared.MODEL),
        ({"messages": [user("other"), *TURNS[1:]]}, Compared.MESSAGES),
        ({"messages": TURNS[:3]}, Compared.MESSAGES),
        ({"messages": [TURNS[0], TURNS[3], TURNS[2]]}, Compared.MESSAGES),
    ],
)
def test_same_part_is_found_by_both(changes: dict[str, Any], compared: Compared) -> None:
    assert judge(FIRST, {**FIRST, **changes}) == (compared, True)


@pytest.mark.parametrize("changes", [{"tool_choice": {"type": "auto"}}, {"output_config": {"effort": "low"}}])
def test_change_of_a_setting_gives_no_comparison(changes: dict[str, Any]) -> None:
    assert judge(FIRST, {**FIRST, **changes}) == (Compared.UNAVAILABLE, None)


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        (Compared.SAME, False),
        (Compared.MODEL, False),
        (Compared.INPUT, True),
        (Compared.PENDING, None),
        (Compared.NOT_FOUND, None),
        (Compared.OTHER, None),
    ],
)
def test_only_conclusive_results_count(compared: Compared, expected: bool | None) -> None:
    other = body(user("other"), *TURNS[1:], system=SYSTEM)
    assert agrees(compared, find_change(laid_out(FIRST), laid_out(other))) is expected
