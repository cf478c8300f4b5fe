"""Thinking signatures: the changes around a block that are allowed, and those that are not."""

import copy
from typing import Any

import pytest

from mnemosyne_lab.provider.signatures import CONTROLS, check, without
from tests.lab.provider.building import TOOL, Json, assistant, body, call, result, user

SECRET = b"test"
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
WITH_CONTROLS = [("anthropic-beta", CONTROLS)]


def think(request: Json, text: str = "hm") -> Json:
    """A thinking block as the server would make it in answer to the request."""
    verdict = check(SECRET, request, [])
    assert verdict.error is None
    return {"type": "thinking", "thinking": text, "signature": verdict.conversation.sign(text)}


def loop(rounds: int, **fields: Any) -> Json:
    """A history with thinking in each round, ending with a tool result."""
    request = body(user("go"), system="You are.", **fields)
    for number in range(rounds):
        block = think(request, f"thought {number}")
        said = request["messages"]
        tool_id = f"t{number}"
        request = {
            **request,
            "messages": [*said, assistant(block, "ok", call(tool_id, n=number, path="/x")), user(result(tool_id))],
        }
    return request


def edited(request: Json, *path: Any, value: Any) -> Json:
    changed = copy.deepcopy(request)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


def thinkless(request: Json, *rounds: int) -> Json:
    """The history without the thinking of those rounds."""
    changed = copy.deepcopy(request)
    for number in rounds:
        del changed["messages"][1 + 2 * number]["content"][0]
    return changed


def accepted(request: Json) -> bool:
    return check(SECRET, request, []).error is None


H = loop(3)
ECHOED_IN_OTHER_WORDS = {
    "tools in another order": (loop(2, tools=[TOOL, {**TOOL, "name": "B"}]), ("tools",), [{**TOOL, "name": "B"}, TOOL]),
    "a string for one text block": (H, ("messages", 0, "content"), "go"),
    "white space around a text": (H, ("messages", 0, "content", 0, "text"), " go\n"),
    "a cache marker": (H, ("messages", 2, "content", 0, "cache_control"), {"type": "ephemeral"}),
    "other key order and a float": (H, ("messages", 1, "content", 2, "input"), {"path": "/x", "n": 0.0}),
    "a result as a text block": (H, ("messages", 2, "content", 0, "content"), [{"type": "text", "text": "seen"}]),
    "a system of one block": (H, ("system",), [{"type": "text", "text": "You are."}]),
    "another effort": (H, ("output_config",), {"effort": "low"}),
    "a deferred tool that nothing refers to": (H, ("tools",), [TOOL, {**TOOL, "name": "D", "defer_loading": True}]),
    "a null field": (H, ("messages", 1, "content", 1, "citations"), None),
}
EDITS = {
    "the system prompt": ("system",),
    "the first prompt": ("messages", 0, "content", 0, "text"),
    "a tool's description": ("tools", 0, "description"),
    "an old result": ("messages", 2, "content", 0, "content"),
    "an old text": ("messages", 1, "content", 1, "text"),
    "an old tool input": ("messages", 1, "content", 2, "input", "path"),
}


def test_unchanged_history_is_accepted() -> None:
    assert accepted(H)


@pytest.mark.parametrize("name", ECHOED_IN_OTHER_WORDS)
def test_equivalent_echo_is_accepted(name: str) -> None:
    request, path, value = ECHOED_IN_OTHER_WORDS[name]
    assert accepted(edited(request, *path, value=value))


@pytest.mark.parametrize("name", EDITS)
def test_edit_before_the_thinking_is_refused_with_the_message_that_clients_match(name: str) -> None:
    error = check(SECRET, edited(H, *EDITS[name], value="another"), []).error
    assert error is not None
    assert "Invalid `signature` in `thinking` block. The block is bound to a different conversation" in error


def test_edit_after_the_last_thinking_is_accepted() -> None:
    assert accepted(edited(H, "messages", 6, "content", 0, "content", value="another"))


def test_tool_added_later_invalidates_every_block() -> None:
    assert not accepted({**H, "tools": [TOOL, {**TOOL, "name": "New"}]})


def test_deferred_tool_counts_once_it_is_referenced() -> None:
    deferred = {**TOOL, "name": "D", "defer_loading": True}
    found = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "D"}]}
    request = body(user("go"), assistant(call("t")), user(found), tools=[TOOL, deferred])
    request["messages"] = [*request["messages"], assistant(think(request), "ok"), user("more")]
    assert accepted(request)
    assert not accepted({**request, "tools": [TOOL, {**deferred, "description": "other"}]})


@pytest.mark.parametrize(
    ("rounds", "fine"), [((0,), True), ((0, 1), True), ((2,), True), ((1, 2), True), ((0, 1, 2), True), ((1,), False)]
)
def test_thinking_may_be_omitted_at_the_front_or_end_but_not_in_the_middle(rounds: tuple[int, ...], fine: bool) -> None:
    assert accepted(thinkless(H, *rounds)) is fine


def test_omitted_thinking_cannot_be_put_back() -> None:
    stripped = thinkless(H, 0, 1, 2)
    fresh = assistant(think(stripped, "later"), "ok")
    assert accepted({**stripped, "messages": [*stripped["messages"], fresh, user("more")]})
    assert not accepted({**H, "messages": [*H["messages"], fresh, user("more")]})


def test_changed_thinking_text_is_refused() -> None:
    error = check(SECRET, edited(H, "messages", 1, "content", 0, "thinking", value="other"), []).error
    assert error is not None
    assert "cannot be modified" in error


def test_signature_of_another_server_is_refused() -> None:
    assert check(b"another secret", H, []).error is not None
    assert not accepted(edited(H, "messages", 1, "content", 0, "signature", value="bm9uc2Vuc2U="))


def test_compaction_block_restarts_the_conversation() -> None:
    summary = {"type": "compaction", "content": "so far", "signature": "x"}
    request = body(user("old"), assistant(summary))
    ignored = {"type": "thinking", "thinking": "before the summary", "signature": "anything"}
    said = [user("old"), assistant(ignored, summary, think(request), "ok"), user("more")]
    assert accepted(body(*said))
    assert accepted(edited(body(*said), "messages", 0, "content", 0, "text", value="quite other"))
    assert not accepted(edited(body(*said), "messages", 1, "content", 1, "content", value="quite other"))


def test_older_models_do_not_bind_thinking_to_the_conversation() -> None:
    request = loop(2, model="claude-opus-4-8")
    assert accepted(edited(request, "messages", 0, "content", 0, "text", value="other"))
    asked = edited(
        request, "thinking", value={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    )
    assert accepted(asked)
    assert not accepted(edited(asked, "messages", 0, "content", 0, "text", value="other"))


def test_drop_block_drops_the_block_and_all_later_ones_and_reports_it() -> None:
    request = {**edited(H, "messages", 2, "content", 0, "content", value="other"), "thinking": DROP}
    verdict = check(SECRET, request, WITH_CONTROLS)
    assert verdict.error is None
    assert [entry.report() for entry in verdict.dropped] == [
        {"type": "thinking_dropped", "path": f"messages.{place}.content.0", "reason": "prefix_binding_mismatch"}
        for place in (3, 5)
    ]
    seen = without(request, verdict.dropped)
    kinds = [message["content"][0]["type"] for message in seen["messages"][1::2]]
    assert kinds == ["thinking", "text", "text"]


def test_reply_after_a_drop_is_signed_so_that_the_same_echo_is_accepted() -> None:
    broken = {**edited(H, "messages", 2, "content", 0, "content", value="other"), "thinking": DROP}
    verdict = check(SECRET, broken, WITH_CONTROLS)
    fresh = {"type": "thinking", "thinking": "new", "signature": verdict.conversation.sign("new")}
    longer = {**broken, "messages": [*broken["messages"], assistant(fresh, "ok"), user("more")]}
    assert [entry.message for entry in check(SECRET, longer, WITH_CONTROLS).dropped] == [3, 5]


def test_drop_block_without_its_beta_is_still_an_error() -> None:
    request = {**edited(H, "system", value="other"), "thinking": DROP}
    assert check(SECRET, request, []).error is not None


def test_another_model_drops_silently_and_the_first_one_still_accepts() -> None:
    other = check(SECRET, {**H, "model": "claude-sonnet-5-5"}, [])
    assert other.error is None
    assert {entry.reason for entry in other.dropped} == {"model_binding_mismatch"}
    assert accepted(H)


def test_redacted_thinking_is_bound_as_well() -> None:
    request = body(user("go"))
    data = check(SECRET, request, []).conversation.sign("")
    said = body(user("go"), assistant({"type": "redacted_thinking", "data": data}, "ok"), user("more"))
    assert accepted(said)
    assert not accepted(edited(said, "messages", 0, "content", 0, "text", value="stop"))
