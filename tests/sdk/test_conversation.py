"""An agent's own history keeps the order that the Messages API demands."""

import json
from typing import Any

import pytest

from mnemosyne.errors import BadTurn
from mnemosyne.sdk.conversation import AgentHistory, message_of

CALLS: list[dict[str, Any]] = [{"type": "tool_use", "id": each, "name": "Look", "input": {}} for each in ("a", "b")]


def called() -> AgentHistory:
    said = AgentHistory()
    said.add_user("look twice")
    said.add_assistant(CALLS)
    return said


def test_results_stand_before_what_the_user_says_whenever_they_come() -> None:
    said = called()
    said.add_result("b", "two", is_error=False)
    said.add_user("hurry")
    said.add_result("a", "", is_error=True)
    assert [each["type"] for each in said.messages[-1]["content"]] == ["tool_result", "tool_result", "text"]
    assert said.messages[-1]["content"][1]["is_error"] is True
    assert said.list_open_calls() == []


def test_a_result_that_no_call_waits_for_is_refused_by_name() -> None:
    said = called()
    said.add_result("a", "one", is_error=False)
    for call in ("a", "c"):
        with pytest.raises(BadTurn, match=f"No call '{call}' waits for a result; b does"):
            said.add_result(call, "again", is_error=False)


@pytest.mark.parametrize("nothing", ["", []])
def test_nothing_is_not_said(nothing: Any) -> None:
    with pytest.raises(BadTurn, match="says nothing"):
        AgentHistory().add_user(nothing)


def test_it_is_the_model_s_turn_only_behind_the_user_and_all_results() -> None:
    with pytest.raises(BadTurn, match="not the model's turn"):
        AgentHistory().body({})
    said = called()
    said.add_result("a", "one", is_error=False)
    with pytest.raises(BadTurn, match="Calls without a result: b"):
        said.body({})


def test_a_request_marks_system_and_end_for_the_cache_and_the_history_keeps_no_mark() -> None:
    said = AgentHistory("You help.", [{"name": "Look"}])
    said.add_user("hello")
    body = json.loads(said.body({"model": "m"}))
    assert list(body) == ["model", "tools", "system", "messages"]
    assert [body["system"][-1]["cache_control"], body["messages"][-1]["content"][-1]["cache_control"]] == [
        {"type": "ephemeral"}
    ] * 2
    assert "cache_control" not in json.dumps(said.messages)


def test_the_least_of_a_request_begins_where_the_user_last_spoke() -> None:
    said = called()
    said.add_result("a", "one", is_error=False)
    said.add_result("b", "two", is_error=False)
    assert len(json.loads(said.least_body({}))["messages"]) == 3
    said.add_assistant("Seen.")
    said.add_user("thanks")
    assert len(json.loads(said.least_body({}))["messages"]) == 1


def test_a_copy_and_what_was_handed_in_are_nobody_else_s() -> None:
    block = {"type": "text", "text": "one"}
    said = AgentHistory()
    said.add_user([block])
    other = said.copy()
    block["text"] = "two"
    other.add_user("more")
    assert said.messages == [{"role": "user", "content": [{"type": "text", "text": "one"}]}]


def test_a_reply_may_come_as_the_vendor_s_library_gives_it() -> None:
    class Message:
        def to_dict(self) -> dict[str, Any]:
            return {"content": []}

    assert message_of(Message()) == message_of({"content": []}) == {"content": []}
