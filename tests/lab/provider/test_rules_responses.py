"""Each rule of Responses: a body that keeps it, and one for each way to break it."""

import pytest

from mnemosyne_lab.provider.openai_messages import seal
from mnemosyne_lab.provider.rules_openai import find_responses_violations
from tests.lab.provider.building import Json
from tests.lab.provider.building_openai import asked, item_call, item_result

SECRET = b"of the test"
USER: Json = {"role": "user", "content": "hello"}


def thought(following: str = "function_call a", **fields: str) -> Json:
    """A reasoning item before the call `a`."""
    return {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": seal(SECRET, following, "hm"),
        **fields,
    }


CUSTOM = item_call("a", "custom_tool_call"), item_result("a", "custom_tool_call_output")


@pytest.mark.parametrize(
    "request_body",
    [
        asked(),
        {"model": "m", "input": "hello"},
        asked(USER, item_call("a"), item_call("b"), item_result("b"), item_result("a")),
        asked(USER, *CUSTOM),
        asked(USER, thought(), item_call("a"), item_result("a")),
        asked(USER, thought(), thought(), {**item_call("a"), "id": "fc_9"}, item_result("a")),
        asked(USER, thought("message"), {"role": "assistant", "content": [{"type": "output_text", "text": "x"}]}),
        asked(USER, {"type": "compaction", "encrypted_content": seal(SECRET, "", "so far")}),
        asked(USER, {"type": "compaction_trigger"}),
        asked({"type": "agent_message", "author": "/root", "content": [{"type": "input_text", "text": "go"}]}),
        asked(tool_choice="auto", tools=[{"type": "web_search"}, {"type": "namespace", "name": "many", "tools": []}]),
    ],
)
def test_valid_request_breaks_no_rule(request_body: Json) -> None:
    assert find_responses_violations(request_body, SECRET) == []


@pytest.mark.parametrize(
    ("request_body", "rule", "told"),
    [
        ({"input": "hello"}, "O0", "'model'"),
        ({"model": "m"}, "O0", "'input'"),
        (asked(messages=[]), "O0", "has moved to 'input'"),
        (asked(max_tokens=1), "O0", "Unknown parameter: 'max_tokens'"),
        (asked(previous_response_id="resp_1"), "O0", "'resp_1' not found"),
        (asked(conversation="conv_1"), "O0", "'conv_1' not found"),
        (asked({"type": "spell"}), "O1", "Invalid value: 'spell'"),
        (asked({"role": "tool", "content": "x"}), "O1", "Invalid value: 'tool'"),
        (asked({"role": "user", "content": [{"type": "text", "text": "x"}]}), "O1", "Invalid value: 'text'"),
        (asked({"type": "agent_message", "content": [{"type": "text"}]}), "O1", "Invalid value: 'text'"),
        (asked({"type": "compaction_trigger"}, USER), "O1", "must be the last"),
        (asked({"type": "function_call", "call_id": "a", "name": "Look"}), "O0", "'input[0].arguments'"),
        (asked(item_call("call_x")), "O2", "No tool output found for function call call_x."),
        (asked(item_result("call_x")), "O2", "No tool call found for function call output with call_id call_x."),
        (asked(item_result("a"), item_call("a")), "O2", "No tool call found"),
        (asked(item_call("a"), CUSTOM[1]), "O2", "No tool call found for custom tool call output with call_id a."),
        (asked(CUSTOM[0]), "O2", "No tool output found for custom tool call a."),
        (asked(item_call("a"), item_call("a"), item_result("a")), "O2", "Duplicate function call"),
        (asked(item_call("a"), item_result("a"), item_result("a")), "O2", "Duplicate tool output"),
        (asked(thought()), "O3", "without its required following item"),
        (asked(thought(), item_call("b"), item_result("b")), "O3", "without its required following item"),
        (asked(thought(), USER), "O3", "without its required following item"),
        (asked(tool_choice={"type": "function", "name": "Jump"}), "O4", "'Jump' not found"),
        (asked({"type": "additional_tools", "tools": {}}), "O4", "input[0].tools"),
        (asked(tools=[{"type": "function"}]), "O4", "'tools[0].name'"),
    ],
)
def test_each_violation_has_the_message_of_the_api(request_body: Json, rule: str, told: str) -> None:
    found = find_responses_violations(request_body, SECRET)
    assert found[0].rule == rule
    assert told in found[0].message


@pytest.mark.parametrize(
    "sealed", ["", "gAAAA", seal(b"of another issuer", "function_call a", "hm"), thought()["encrypted_content"] + "\n"]
)
def test_foreign_or_changed_encrypted_content_is_refused(sealed: str) -> None:
    (violation,) = find_responses_violations(
        asked(thought(encrypted_content=sealed), item_call("a"), item_result("a")), SECRET
    )
    assert (violation.code, violation.status) == (("invalid_encrypted_content", 400) if sealed else (None, 404))


def test_every_changed_character_of_encrypted_content_is_noticed() -> None:
    sealed = thought()["encrypted_content"]
    for place, character in enumerate(sealed):
        changed = sealed[:place] + ("A" if character != "A" else "B") + sealed[place + 1 :]
        body = asked(thought(encrypted_content=changed), item_call("a"), item_result("a"))
        assert [each.code for each in find_responses_violations(body, SECRET)] == ["invalid_encrypted_content"]


def test_reference_to_a_server_side_item_is_not_found() -> None:
    (violation,) = find_responses_violations(asked(USER, {"type": "item_reference", "id": "msg_1"}), SECRET)
    assert violation.status == 404
    assert "msg_1" in violation.message
