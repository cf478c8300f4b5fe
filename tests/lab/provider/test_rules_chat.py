"""Each rule of Chat Completions: a body that keeps it, and one for each way to break it."""

import pytest

from mnemosyne_lab.provider.rules_openai import find_chat_violations
from tests.lab.provider.building import Json
from tests.lab.provider.building_openai import CHAT_TOOL, chat, chat_call, chat_result

USER: Json = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "request_body",
    [
        chat(),
        chat(
            {"role": "developer", "content": "be brief"}, {"role": "user", "content": [{"type": "text", "text": "x"}]}
        ),
        chat(USER, chat_call("a"), chat_result("a"), {"role": "assistant", "content": "", "reasoning_content": "hm"}),
        chat(USER, chat_call("a"), chat_result("a"), chat_call("a"), chat_result("a")),
        chat(tool_choice={"type": "function", "function": {"name": "Look"}}, stream_options={"include_usage": True}),
    ],
)
def test_valid_request_breaks_no_rule(request_body: Json) -> None:
    assert find_chat_violations(request_body) == []


@pytest.mark.parametrize(
    ("request_body", "rule", "told"),
    [
        ({"messages": [USER]}, "O0", "'model'"),
        ({"model": "m"}, "O0", "'messages'"),
        ({"model": "m", "messages": []}, "O0", "empty array"),
        ({"model": "m", "messages": [7]}, "O0", "messages[0]"),
        (chat(input="hello"), "O0", "Unknown parameter: 'input'"),
        (chat({"role": "wizard", "content": "x"}), "O1", "Invalid value: 'wizard'"),
        (chat({"role": "user", "content": None}), "O1", "got null"),
        (chat({"role": "user", "content": [{"type": "tool_result"}]}), "O1", "Invalid value: 'tool_result'"),
        (chat({**chat_call("a"), "role": "user"}, chat_result("a")), "O1", "got null"),
        (chat(USER, chat_call("a")), "O2", "did not have response messages: a"),
        (chat(USER, chat_call("a"), USER, chat_result("a")), "O2", "did not have response messages: a"),
        (chat(USER, chat_result("a")), "O2", "must be a response to a preceding message"),
        (chat(USER, chat_call("a"), chat_result("a"), chat_result("a")), "O2", "Duplicate value"),
        (chat(USER, chat_call("a"), chat_result("a"), chat_result("b")), "O2", "must be a response"),
        (chat(tools=[]), "O4", "empty array"),
        (chat(tools=[{"function": {"name": "Look"}}]), "O4", "'tools[0].type'"),
        (chat(tool_choice={"type": "function", "function": {"name": "Jump"}}), "O4", "'Jump' not found"),
    ],
)
def test_each_violation_has_the_message_of_the_api(request_body: Json, rule: str, told: str) -> None:
    found = find_chat_violations(request_body)
    assert found[0].rule == rule
    assert told in found[0].message


def test_ids_of_one_message_are_unique() -> None:
    calls = chat_call("a")["tool_calls"] * 2
    message = {**chat_call("a"), "tool_calls": calls}
    found = find_chat_violations(chat(USER, message, chat_result("a"), chat_result("a")))
    assert [each.message for each in found] == ["Duplicate value for 'tool_calls' id 'a'"]


def test_arguments_that_are_no_string_are_refused() -> None:
    message = chat_call("a")
    message["tool_calls"][0]["function"]["arguments"] = {}
    (violation,) = find_chat_violations(chat(USER, message, chat_result("a"), tools=[CHAT_TOOL]))
    assert violation.path == "messages[1].tool_calls[0].function.arguments"
