"""A system message may add and remove tools only as the API takes it."""

from typing import Any

import pytest

from mnemosyne_lab.provider import open_standin
from mnemosyne_lab.provider.cache import steps
from mnemosyne_lab.provider.rules import INLINE, violations
from tests.lab.provider.building import TOOL, Json, always, assistant, body, call, post, result, user

HEADERS = [("anthropic-beta", INLINE)]
MARK: Json = {"cache_control": {"type": "ephemeral"}}


def addition(name: str = "Find", **fields: Any) -> Json:
    definition = {"name": name, "description": "", "input_schema": {"type": "object"}, **fields}
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}


def reference(name: str, kind: str = "tool_addition") -> Json:
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


def system(*content: Json, **fields: Any) -> Json:
    return {"role": "system", "content": list(content), **fields}


NOTE = {"type": "text", "text": "Note."}

FINE: dict[str, Json] = {
    "after a prompt": body(user("go"), system(addition())),
    "before a reply, and called later": body(
        user("go"), system(addition()), assistant(call("a", "Find")), user(result("a"))
    ),
    "after results": body(user("go"), assistant(call("a")), user(result("a")), system(addition(), NOTE)),
    "next to the client's own system message": body(
        user("go"), system(NOTE), system(addition()), assistant("ok"), user("on")
    ),
    "removed and added again": body(user("go"), system(reference("Look", "tool_removal"), reference("Look"))),
    "the same definition twice": body(user("go"), system(addition(), addition())),
    "marked": body(user("go"), system({**addition(), **MARK})),
}

BROKEN: dict[str, tuple[str, Json]] = {
    "first": ("R1", body(system(addition()), user("go"))),
    "between a call and its result": (
        "R1",
        body(user("go"), assistant(call("a")), system(addition()), user(result("a"))),
    ),
    "before the next prompt": ("R1", body(user("go"), assistant("ok"), user("on"), system(addition()), user("!"))),
    "in a user message": ("R11", body(user("go", addition()))),
    "a model without it": ("R11", body(user("go"), system(addition()), model="claude-opus-4-6")),
    "an unknown reference": ("R11", body(user("go"), system(reference("Find")))),
    "removal of a definition": ("R11", body(user("go"), system({**addition(), "type": "tool_removal"}))),
    "no schema": ("R11", body(user("go"), system(addition(input_schema=None)))),
    "another type of tool": ("R11", body(user("go"), system(addition("Look", type="bash_20250124")))),
    "two markers": ("R11", body(user("go"), system({**addition(**MARK), **MARK}))),
    "a turn-scoped message": ("R11", body(user("go"), system(addition(), clear_at="next_user_message"))),
    "a paused turn": (
        "R11",
        body(
            user("go"),
            assistant({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
            system(addition()),
        ),
    ),
    "a fifth marker": (
        "R4",
        body(user(*({"type": "text", "text": str(n), **MARK} for n in range(4))), system(addition(**MARK))),
    ),
}


@pytest.mark.parametrize("name", FINE)
def test_tools_may_change_behind_a_user_message(name: str) -> None:
    assert violations(FINE[name], HEADERS) == []


@pytest.mark.parametrize("name", BROKEN)
def test_misplaced_or_malformed_change_is_refused(name: str) -> None:
    rule, request = BROKEN[name]
    assert {violation.rule for violation in violations(request, HEADERS)} == {rule}


def test_definition_needs_its_own_beta_and_a_reference_an_older_one() -> None:
    older = [("anthropic-beta", "mid-conversation-tool-changes-2026-07-01")]
    defined, referred = FINE["after a prompt"], FINE["removed and added again"]
    assert [violation.rule for violation in violations(defined, older)] == ["R7"]
    assert violations(referred, older) == []
    assert [violation.rule for violation in violations(referred, [])] == ["R7"]


def test_definition_leaves_the_prompt_before_it_unchanged_unless_no_tool_is_loaded() -> None:
    before, after = body(user("go")), FINE["after a prompt"]
    assert list(steps(after))[: len(steps(before))] == list(steps(before))
    deferred: Json = {"tools": [{**TOOL, "defer_loading": True}]}
    assert steps({**after, **deferred})[0] != steps({**before, **deferred})[0]


async def test_account_without_the_beta_is_refused() -> None:
    async with open_standin({**always({"text": "hi"}), "refused_betas": [INLINE]}) as server:
        refused = await post(server.url, FINE["after a prompt"], anthropic_beta=INLINE)
        answered = await post(server.url, body())
    assert (refused.status_code, answered.status_code) == (400, 200)
    assert INLINE in refused.json()["error"]["message"]
