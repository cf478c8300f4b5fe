"""The strict validator detects each violation, and accepts the requests of real clients."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne_lab.provider.rules import LARGEST_BODY, too_large, violations
from tests.lab.provider.building import TOOL, Json, assistant, body, call, result, user

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SYSTEM = {"role": "system", "content": [{"type": "text", "text": "Note."}]}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
BILLING = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cc_entrypoint=cli;"}
RECORDED = Path(__file__).parents[4] / "shared" / "data" / "captures"


def text(value: str, **fields: Any) -> Json:
    return {"type": "text", "text": value, **fields}


def marked(count: int) -> Json:
    return body(user(*[text(f"part {number}", **MARK) for number in range(count)]))


FINE: dict[str, Json] = {
    "one user": body(),
    "string content": body({"role": "user", "content": "hello"}),
    "a tool loop": body(user("go"), assistant(call("a"), call("b")), user(result("b"), result("a"), "and then?")),
    "two users in a row, merged by the API": body(user("one"), user("two")),
    "results and text in two user messages": body(user("go"), assistant(call("a")), user(result("a")), user("more")),
    "a system message last": body(user("go"), SYSTEM),
    "a system message before an assistant": body(user("go"), SYSTEM, assistant("yes"), user("ok")),
    "four markers": marked(4),
    "an hour before five minutes": body(user(text("a", **HOUR), text("b", **MARK))),
    "top-level marker of the same ttl": {**body(user(text("a", **MARK))), **MARK},
    "manual thinking that starts the exchange": body(
        user("go"),
        assistant(THOUGHT, call("a")),
        user(result("a")),
        assistant(call("b")),
        user(result("b")),
        model="claude-sonnet-4-6",
        thinking={"type": "enabled", "budget_tokens": 1024},
    ),
    "prefill on an old model": body(user("go"), assistant("{"), model="claude-haiku-4-5"),
    "forced tool on an old model": body(model="claude-sonnet-4-6", tool_choice={"type": "tool", "name": "Look"}),
    "a paused turn sent back": body(
        user("go"), assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    ),
    "billing entry first": body(system=[BILLING, text("You are.")]),
    "an unknown block type": body(user({"type": "never_heard_of", "x": 1})),
}

BROKEN: dict[str, tuple[str, Json]] = {
    "no messages": ("R0", body() | {"messages": []}),
    "no model": ("R0", body() | {"model": None}),
    "no max_tokens": ("R0", body() | {"max_tokens": None}),
    "a block without type": ("R0", body(user({"text": "x"}))),
    "an unknown role": ("R0", body({"role": "tool", "content": "x"})),
    "assistant first": ("R1", body(assistant("hi"), user("hello"))),
    "two assistants in a row": ("R1", body(user("a"), assistant("b"), assistant("c"), user("d"))),
    "system first": ("R1", body(SYSTEM, user("hello"))),
    "system before a user": ("R1", body(user("a"), SYSTEM, user("b"))),
    "system after an assistant": ("R1", body(user("a"), assistant("b"), SYSTEM, assistant("c"), user("d"))),
    "system holds an image": ("R1", body(user("a"), {"role": "system", "content": [{"type": "image"}]})),
    "system on a model that refuses it": ("R1", body(user("a"), SYSTEM, model="claude-sonnet-5")),
    "a call without result": ("R2", body(user("go"), assistant(call("a")), user("never mind"))),
    "one of two results": ("R2", body(user("go"), assistant(call("a"), call("b")), user(result("a")))),
    "a result without call": ("R2", body(user("go"), assistant("ok"), user(result("a")))),
    "two results for one call": ("R2", body(user("go"), assistant(call("a")), user(result("a"), result("a")))),
    "text before the result": ("R2", body(user("go"), assistant(call("a")), user("here:", result("a")))),
    "an id used twice": (
        "R2",
        body(user("go"), assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))),
    ),
    "a call in a user message": ("R2", body(user(call("a")))),
    "text beside results of an unresolved server tool": (
        "R2",
        body(
            user("go"),
            assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, call("a")),
            user(result("a"), "and?"),
        ),
    ),
    "empty text": ("R3", body(user(text("")))),
    "blank user text": ("R3", body(user(text(" \n")))),
    "empty message": ("R3", body(user("a"), {"role": "assistant", "content": []}, user("b"))),
    "five markers": ("R4", marked(5)),
    "four markers and the top-level one": ("R4", marked(4) | MARK),
    "five minutes before an hour": ("R4", body(user(text("a", **MARK), text("b", **HOUR)))),
    "marker on thinking": ("R4", body(user("a"), assistant({**THOUGHT, **MARK}, "x"), user("b"))),
    "marker inside a result": (
        "R4",
        body(user("go"), assistant(call("a")), user({**result("a"), "content": [text("x", **MARK)]})),
    ),
    "marker on a cleared system message": (
        "R4",
        body(user("a"), {"role": "system", "content": [text("x", **MARK)], "clear_at": "next_user_message"}),
    ),
    "last marker and top-level one differ": ("R4", body(user(text("a", **HOUR))) | MARK),
    "two tools of one name": ("R5", body() | {"tools": [TOOL, TOOL]}),
    "all tools deferred": ("R5", body() | {"tools": [{**TOOL, "defer_loading": True}]}),
    "choice of an absent tool": ("R5", body(model="claude-sonnet-4-6", tool_choice={"type": "tool", "name": "No"})),
    "choice without tools": ("R5", body(tool_choice={"type": "auto"}) | {"tools": []}),
    "forced choice on a model that refuses": ("R5", body(tool_choice={"type": "any"})),
    "prefill on a current model": ("R5", body(user("go"), assistant("{"))),
    "thinking in a user message": ("R6", body(user("a", THOUGHT))),
    "thinking without signature": (
        "R6",
        body(user("a"), assistant({"type": "thinking", "thinking": "x"}, "y"), user("b")),
    ),
    "manual thinking that starts with a call": (
        "R6",
        body(
            user("go"),
            assistant(call("a")),
            user(result("a")),
            model="claude-sonnet-4-6",
            thinking={"type": "enabled", "budget_tokens": 1024},
        ),
    ),
    "context_management without beta": (
        "R7",
        body(context_management={"edits": [{"type": "clear_thinking_20251015"}]}),
    ),
    "block_binding without beta": ("R7", body(thinking={"type": "adaptive", "block_binding": {}})),
    "effort in mid-conversation without beta": (
        "R7",
        body(
            user("a"), {"role": "system", "content": [], "output_config": {"effort": "low"}}, assistant("b"), user("c")
        ),
    ),
    "billing entry second": ("R9", body(system=[text("You are."), BILLING])),
    "billing entry flattened": ("R9", body(system=BILLING["text"] + "\nYou are.")),
}


@pytest.mark.parametrize("name", FINE)
def test_request_within_the_rules_has_no_violation(name: str) -> None:
    assert violations(FINE[name], []) == []


@pytest.mark.parametrize("name", BROKEN)
def test_violation_is_named_by_exactly_its_rule(name: str) -> None:
    rule, request = BROKEN[name]
    found = violations(request, [])
    assert {violation.rule for violation in found} == {rule}
    assert all(violation.message for violation in found)


def test_missing_result_has_the_message_that_clients_match() -> None:
    [violation] = violations(body(user("go"), assistant(call("a"), call("b")), user("no")), [])
    assert "`tool_use` ids were found without `tool_result` blocks immediately after: a, b" in violation.message
    assert violation.path == "messages.1"


@pytest.mark.parametrize("lines", [1, 2])
def test_beta_field_is_accepted_with_its_beta_in_one_header_line(lines: int) -> None:
    request = body(context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]})
    headers = [("Anthropic-Beta", "other-2025-01-01, context-management-2025-06-27")] * lines
    assert [violation.rule for violation in violations(request, headers)] == ["R7"] * (lines - 1)


def test_counting_needs_no_max_tokens() -> None:
    request = body()
    del request["max_tokens"]
    assert violations(request, [], counting=True) == []
    assert violations(request, [])[0].rule == "R0"


def test_body_over_32_megabytes_is_too_large() -> None:
    assert too_large(LARGEST_BODY) is None
    violation = too_large(LARGEST_BODY + 1)
    assert violation is not None
    assert violation.rule == "R8"


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
_KEYS = st.sampled_from(
    ["type", "text", "role", "content", "id", "name", "input", "cache_control", "tool_use_id", "system"]
)
_VALUES = st.sampled_from(["user", "assistant", "system", "text", "tool_use", "tool_result", "thinking"])
_JSON = st.recursive(
    _SCALARS | _VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "model": _SCALARS,
            "max_tokens": _SCALARS,
            "messages": st.lists(_JSON, max_size=4),
            "tools": _JSON,
            "system": _JSON,
            "tool_choice": _JSON,
            "thinking": _JSON,
            "cache_control": _JSON,
        },
    )
)
def test_any_json_is_validated_without_an_exception(request_body: Json) -> None:
    violations({"model": "m", "max_tokens": 1, **request_body}, [])


_TURN = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True)


@given(st.lists(_TURN, min_size=1, max_size=4), st.data())
def test_removing_any_result_of_a_valid_history_violates_pairing(rounds: list[list[str]], data: st.DataObject) -> None:
    messages = [user("go")]
    for number, names in enumerate(rounds):
        calls = [call(f"{name}{number}") for name in names]
        messages += [assistant("ok", *calls), user(*[result(c["id"]) for c in calls], "next")]
    assert violations(body(*messages), []) == []
    places = [(i, j) for i, m in enumerate(messages) for j, b in enumerate(m["content"]) if b["type"] == "tool_result"]
    if places:
        i, j = data.draw(st.sampled_from(places))
        del messages[i]["content"][j]
        assert [violation.rule for violation in violations(body(*messages), [])] == ["R2"]


def test_every_recorded_request_of_real_clients_is_within_the_rules() -> None:
    if not RECORDED.is_dir():
        pytest.skip("the recorded requests are not part of the repository")
    judged = 0
    for file in sorted(RECORDED.glob("*/*POST-v1_messages*.json")):
        recorded = json.loads(file.read_text(encoding="utf-8"))
        headers = [(name, value) for name, value in recorded["headers"]]
        found = violations(recorded["body"], headers, counting="count_tokens" in recorded["path"])
        assert found == [], f"{file.parent.name}/{file.name}"
        judged += 1
    assert judged > 100


def test_each_rule_named_in_the_module_is_violated_by_a_test_here() -> None:
    import mnemosyne_lab.provider.rules as module

    named = set(re.findall(r"^(R\d)\b", module.__doc__ or "", re.MULTILINE))
    assert named == {rule for rule, _ in BROKEN.values()} | {"R8"}
