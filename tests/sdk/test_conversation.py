"""An agent's own history keeps the order that the Messages API requires."""

import json
from typing import Any

import pytest

from mnemosyne.errors import BadTurn
from mnemosyne.sdk.conversation import AgentHistory, message_of

CALLS: list[dict[str, Any]] = [{"type": "tool_use", "id": each, "name": "Look", "input": {}} for each in ("a", "b")]


def called() -> AgentHistory:
    history = AgentHistory()
    history.add_user("look twice")
    history.add_assistant(CALLS)
    return history


def test_tool_results_precede_user_text_in_any_order_of_calls() -> None:
    history = called()
    history.add_result("b", "two", is_error=False)
    history.add_user("hurry")
    history.add_result("a", "", is_error=True)
    assert [each["type"] for each in history.messages[-1]["content"]] == ["tool_result", "tool_result", "text"]
    assert history.messages[-1]["content"][1]["is_error"] is True
    assert history.list_open_calls() == []


def test_a_result_without_an_open_call_is_refused() -> None:
    history = called()
    history.add_result("a", "one", is_error=False)
    for call in ("a", "c"):
        with pytest.raises(BadTurn, match=f"Call '{call}' is not waiting for a result; open calls: b"):
            history.add_result(call, "again", is_error=False)


@pytest.mark.parametrize("nothing", ["", []])
def test_an_empty_user_message_is_refused(nothing: Any) -> None:
    with pytest.raises(BadTurn, match="message is empty"):
        AgentHistory().add_user(nothing)


def test_it_is_the_model_s_turn_only_after_the_user_and_all_results() -> None:
    with pytest.raises(BadTurn, match="not the model's turn"):
        AgentHistory().body({})
    history = called()
    history.add_result("a", "one", is_error=False)
    with pytest.raises(BadTurn, match="Calls without a result: b"):
        history.body({})


def test_a_request_has_cache_markers_and_the_history_has_none() -> None:
    history = AgentHistory("You help.", [{"name": "Look"}])
    history.add_user("hello")
    body = json.loads(history.body({"model": "m"}))
    assert list(body) == ["model", "tools", "system", "messages"]
    assert [body["system"][-1]["cache_control"], body["messages"][-1]["content"][-1]["cache_control"]] == [
        {"type": "ephemeral"}
    ] * 2
    assert "cache_control" not in json.dumps(history.messages)


def test_the_smallest_request_begins_at_the_last_prompt() -> None:
    history = called()
    history.add_result("a", "one", is_error=False)
    history.add_result("b", "two", is_error=False)
    assert len(json.loads(history.least_body({}))["messages"]) == 3
    history.add_assistant("Seen.")
    history.add_user("thanks")
    assert len(json.loads(history.least_body({}))["messages"]) == 1


def test_copies_and_arguments_share_no_state() -> None:
    block = {"type": "text", "text": "one"}
    history = AgentHistory()
    history.add_user([block])
    other = history.copy()
    block["text"] = "two"
    other.add_user("more")
    assert history.messages == [{"role": "user", "content": [{"type": "text", "text": "one"}]}]


def test_a_reply_may_be_an_object_of_the_vendor_s_library() -> None:
    class Message:
        def to_dict(self) -> dict[str, Any]:
            return {"content": []}

    assert message_of(Message()) == message_of({"content": []}) == {"content": []}
