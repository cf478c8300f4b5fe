"""What there is to ask about a history is what stands in it, word for word, and what came last."""

from typing import Any

import pytest

from mnemosyne_lab.evaluation.demand import plain, texts_of
from mnemosyne_lab.evaluation.probes import FAILURES, LONGEST, SHORTEST, Past, Probe, ProbeClass
from tests.lab.evaluation.recordings import LONG, session

Json = dict[str, Any]


def called(name: str, result: str, *, failed: bool = False, **given: Any) -> list[Json]:
    """A call and what it got."""
    use = {"type": "tool_use", "id": "t", "name": name, "input": given}
    got = {"type": "tool_result", "tool_use_id": "t", "content": result, "is_error": failed}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [got]}]


def asked(messages: list[Json], about: ProbeClass | None = None) -> list[Probe]:
    past = Past(messages)
    past.read_to(len(messages))
    return [each for each in past.probes() if about in (None, each.about)]


def texts(messages: list[Json], about: ProbeClass) -> list[str]:
    return [each.text for each in asked(messages, about)]


def test_whatever_is_asked_for_stands_in_the_history() -> None:
    messages = session(LONG)["messages"]
    said = "\n".join(map(plain, texts_of(messages)))
    found = asked(messages)
    assert {each.about for each in found} >= {ProbeClass.ARTIFACT, ProbeClass.DECISION}
    assert all(each.text in said and SHORTEST <= len(each.text) <= LONGEST for each in found)
    assert len({each.text for each in found}) == len(found)


def test_of_failures_the_last_are_asked_for_by_the_line_that_tells_the_error() -> None:
    messages = [
        message
        for number in range(FAILURES + 1)
        for message in called(
            "Bash", f"some output here\nValueError: bad part {number}", failed=True, command=f"run {number}"
        )
    ]
    found = asked(messages, ProbeClass.RECALL)
    assert [each.text for each in found] == [f"ValueError: bad part {number}" for number in range(1, FAILURES + 1)]
    assert found[-1].question == f"What was the error of run {FAILURES}?"


def test_of_a_file_the_place_and_the_last_change_are_asked_for() -> None:
    edits = [{"old_string": "o", "new_string": "in_the_other = 3"}]
    messages = [
        *called("Write", "ok", file_path="/src/a.py", content="first_version = 1"),
        *called("Edit", "ok", file_path="/src/a.py", old_string="first", new_string="second_version = 2\nx"),
        *called("MultiEdit", "ok", file_path="/src/b.py", edits=edits),
        *called("Read", "not_a_change = 4", file_path="/src/c.py"),
    ]
    assert texts(messages, ProbeClass.ARTIFACT) == ["/src/a.py", "second_version = 2", "/src/b.py", "in_the_other = 3"]


def test_what_the_user_said_is_asked_for_and_what_the_client_added_is_not() -> None:
    said = "<system-reminder>Never tell of this.</system-reminder>Please keep the old parser."
    messages = [{"role": "user", "content": said}, {"role": "user", "content": "<command-name>/clear</command-name>"}]
    assert texts(messages, ProbeClass.DECISION) == ["Please keep the old parser."]


@pytest.mark.parametrize(
    "messages",
    [
        called(
            "TodoWrite",
            "ok",
            todos=[
                {"content": "Write the new lexer", "status": "completed"},
                {"content": "Write the new parser", "status": "in_progress"},
            ],
        ),
        [
            *called("TaskCreate", "ok", subject="Write the new lexer"),
            *called("TaskCreate", "ok", subject="Write the new parser"),
            *called("TaskUpdate", "ok", taskId="1", status="completed"),
        ],
    ],
    ids=["a list", "tasks"],
)
def test_only_what_is_not_done_is_open(messages: list[Json]) -> None:
    assert texts(messages, ProbeClass.CONTINUATION) == ["Write the new parser"]


def test_tests_that_fail_are_open_until_they_pass() -> None:
    failing = called("Bash", "FAILED tests/test_a.py::test_b\n1 failed", command="pytest -q")
    assert texts(failing, ProbeClass.CONTINUATION) == ["tests/test_a.py::test_b"]
    assert texts([*failing, *called("Bash", "FAILED no test here", command="ls")], ProbeClass.CONTINUATION)
    assert not texts([*failing, *called("Bash", "1 passed", command="pytest -q")], ProbeClass.CONTINUATION)


def test_what_the_user_had_dropped_is_not_asked_for() -> None:
    past = Past(session(LONG)["messages"])
    past.read_to(20)
    assert past.probes()
    past.forget()
    assert past.probes() == []
