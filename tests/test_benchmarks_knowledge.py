"""Sessions of a project are told what the server would tell them, and what is wrong in that is counted."""

import attrs

from benchmarks.knowledge import (
    Labels,
    RecordedSession,
    follow,
    name_of,
    question_about,
    read_labels,
    read_past,
)

DECIDED, DROPPED = (
    "Let's use npm for the packages of the web client",
    "On second thought we drop packages of the web client",
)
LABELS = Labels(
    frozenset(map(name_of, (DECIDED, DROPPED))), frozenset(), frozenset(), {name_of(DECIDED): name_of(DROPPED)}
)


def session(*said: str, at: int = 0) -> RecordedSession:
    messages = [{"role": "user", "content": each} for each in said]
    return RecordedSession(f"s{at}", messages, at, at + 1)


def test_a_session_is_told_what_an_earlier_one_settled_that_its_prompt_is_about() -> None:
    asking, other = "which packages has the web client?", "why is the build red on arm64?"
    course = follow([session(DECIDED), session(asking, at=10), session(other, at=20)], LABELS)
    assert [block is not None for block in course.blocks] == [False, True, False]
    assert course.told == ["holds"]
    assert [each.content for each in course.learned] == [DECIDED]
    assert course.questions == [True]


def test_what_a_later_sentence_ended_is_wrong_from_then_on() -> None:
    (entry,) = follow([session(DECIDED)], LABELS).learned
    assert LABELS.judge(entry, frozenset()) == "holds"
    assert LABELS.judge(entry, frozenset({name_of(DROPPED)})) == "ended"
    assert attrs.evolve(LABELS, holds=frozenset()).judge(entry, frozenset()) == "not labelled"


def test_each_sentence_has_one_label() -> None:
    labels = read_labels()
    assert len(labels.holds | labels.passing | labels.unsure) == sum(
        map(len, (labels.holds, labels.passing, labels.unsure))
    )
    assert {*labels.ended, *labels.ended.values()} <= labels.holds


def test_a_question_has_half_of_the_words() -> None:
    assert question_about("alpha beta gamma delta") == "what did we decide about alpha gamma"


def test_questions_about_what_was_done_name_neither_the_file_nor_the_edit() -> None:
    def call(name: str, said: str, **given: str) -> list[dict[str, object]]:
        use = {"type": "tool_use", "id": name, "name": "Tool", "input": given}
        result = {"type": "tool_result", "tool_use_id": name, "content": said, "is_error": said.startswith("Exit")}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]

    edit = call("b", "done", file_path="/a/parser.go", old_string="x", new_string="y")
    said = {"type": "text", "text": "In parser.go the loop never ends where a header is empty."}
    edit[0]["content"] = [said, *edit[0]["content"]]  # type: ignore[misc]
    fails = call("a", "Exit code 1\nFAIL TestHeader: the loop ran out of time", command="go test")
    messages = [*fails, *edit, *call("c", "ok", command="go test")]
    past = read_past([RecordedSession("s", messages, 0, 1)])
    assert [each.kind for each in past.questions] == ["which file", "which fix"]
    assert [set(each.right) for each in past.questions] == [{1}, {1}]
    assert "parser" not in past.questions[0].text
    assert past.questions[1].text.startswith("FAIL TestHeader")
