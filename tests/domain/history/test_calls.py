"""The calls of a conversation, each with its result."""

from typing import Any

from mnemosyne.domain.history.calls import read_calls
from tests.domain.segmenting_support import Talk


def test_a_call_is_listed_when_its_result_arrives() -> None:
    """In the order of the results, each with its turn; a call without a result is not listed."""
    talk = Talk().user("go").call("Bash", {"command": "ls"}, "a.py").call("Read", {"file_path": "a.py"}, "x")
    talk.assistant({"type": "tool_use", "id": "waits", "name": "Bash", "input": {}})
    assert [(each.turn, each.tool, each.said) for each in read_calls(talk.messages)] == [
        (2, "Bash", "a.py"),
        (3, "Read", "x"),
    ]


def test_a_call_has_its_failure_and_its_exchange() -> None:
    refusal = "The user doesn't want to proceed with this tool use."
    talk = Talk().user("go").call("Bash", {}, refusal).user("then so").call("Bash", {}, "ok")
    failed = {"type": "tool_result", "tool_use_id": "f", "content": "no", "is_error": True}
    talk.assistant({"type": "tool_use", "id": "f", "name": "Bash", "input": {}})._say("user", [failed])
    assert [(each.failed, each.refused, each.exchange) for each in read_calls(talk.messages)] == [
        (False, True, 1),
        (False, False, 2),
        (True, False, 2),
    ]


def test_malformed_blocks_are_ignored() -> None:
    unnamed = {"type": "tool_use", "id": 7, "name": 7, "input": "x"}
    odd: list[dict[str, Any]] = [{}, {"type": "tool_use"}, {"type": "tool_result"}, unnamed]
    talk = Talk().assistant(*odd)._say("user", odd)
    assert [each.given for each in read_calls(talk.messages)] in ([], [{}])
