"""Probes ask for text that is in the history, word for word, in its latest state."""

from typing import Any

import pytest

from mnemosyne_lab.evaluation.demand import plain, texts_of
from mnemosyne_lab.evaluation.probes import FAILURES, LONGEST, SHORTEST, Past, Probe, ProbeClass
from tests.lab.evaluation.recordings import LONG, session

Json = dict[str, Any]


def called(name: str, result: str, *, failed: bool = False, **given: Any) -> list[Json]:
    """A call and its result."""
    use = {"type": "tool_use", "id": "t", "name": name, "input": given}
    got = {"type": "tool_result", "tool_use_id": "t", "content": result, "is_error": failed}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [got]}]


def asked(messages: list[Json], about: ProbeClass | None = None) -> list[Probe]:
    past = Past(messages)
    past.read_to(len(messages))
    return [each for each in past.probes() if about in (None, each.about)]


def texts(messages: list[Json], about: ProbeClass) -> list[str]:
    return [each.text for each in asked(messages, about)]


def test_every_answer_is_in_the_history() -> None:
    messages = session(LONG)["messages"]
    said = "\n".join(map(plain, texts_of(messages)))
    found = asked(messages)
    assert {each.about for each in found} >= {ProbeClass.ARTIFACT, ProbeClass.DECISION}
    assert all(each.text in said and SHORTEST <= len(each.text) <= LONGEST for each in found)
    assert len({each.text for each in found}) == len(found)


def test_latest_failures_are_probed_by_their_error_line() -> None:
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


def test_file_is_probed_for_its_path_and_its_last_change() -> None:
    edits = [{"old_string": "o", "new_string": "in_the_other = 3"}]
    messages = [
        *called("Write", "ok", file_path="/src/a.py", content="first_version = 1"),
        *called("Edit", "ok", file_path="/src/a.py", old_string="first", new_string="second_version = 2\nx"),
        *called("MultiEdit", "ok", file_path="/src/b.py", edits=edits),
        *called("Read", "not_a_change = 4", file_path="/src/c.py"),
    ]
    assert texts(messages, ProbeClass.ARTIFACT) == ["/src/a.py", "second_version = 2", "/src/b.py", "in_the_other = 3"]


def test_user_text_is_probed_and_client_additions_are_not() -> None:
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
def test_only_unfinished_items_are_open(messages: list[Json]) -> None:
    assert texts(messages, ProbeClass.CONTINUATION) == ["Write the new parser"]


def test_failing_tests_are_open_until_they_pass() -> None:
    failing = called("Bash", "FAILED tests/test_a.py::test_b\n1 failed", command="pytest -q")
    assert texts(failing, ProbeClass.CONTINUATION) == ["tests/test_a.py::test_b"]
    assert texts([*failing, *called("Bash", "FAILED no test here", command="ls")], ProbeClass.CONTINUATION)
    assert not texts([*failing, *called("Bash", "1 passed", command="pytest -q")], ProbeClass.CONTINUATION)


def test_text_dropped_by_the_user_is_not_probed() -> None:
    past = Past(session(LONG)["messages"])
    past.read_to(20)
    assert past.probes()
    past.forget()
    assert past.probes() == []
