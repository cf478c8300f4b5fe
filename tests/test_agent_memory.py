"""The questions of the memory benchmark have the answers that they claim."""

import pytest

from benchmarks.agent_memory.__main__ import load_questions, render
from benchmarks.recordings import ALL, list_raw
from tests.domain.recorded import folder
from tests.replay.message_streams import Json, blocks_of


def test_every_committed_question_has_an_answer_of_the_length_of_its_span() -> None:
    questions = load_questions()
    assert len({each.id for each in questions}) == len(questions) >= 1_000
    for each in questions:
        assert each.end - each.start == len(each.gold.encode())
        assert bool(each.gold) is (each.of != "foreign")
        assert not each.gold or each.gold not in each.question


@pytest.mark.release
def test_an_answer_is_in_the_span_of_its_block_and_a_question_comes_eight_requests_later() -> None:
    folder("sessions")
    asked = [each for each in load_questions() if each.gold]
    sessions = {each["name"]: each for each in list_raw(ALL, names={each.session for each in asked})}
    for each in asked:
        recorded = sessions[each.session]
        text = read_text(blocks_of(recorded["messages"][each.message])[each.block])
        assert text.encode()[each.start : each.end].decode() == each.gold
        assert recorded["turns"][each.turn - 1 - 8]["msg"] > each.message


def test_a_table_counts_only_questions_with_a_result() -> None:
    asked = [each for each in load_questions() if each.of == "order"][:2]
    *_, row = render(asked, {"clearing": {asked[0].id: True}})
    assert "| 100% |" in row


def read_text(block: Json) -> str:
    """The text of a block, as README.md says; a call's is the strings of its input."""
    if block["type"] == "tool_use":
        return "\n".join(list_strings(block["input"]))
    if block["type"] == "tool_result":
        content = block.get("content") or ""
        return content if isinstance(content, str) else "\n".join(each.get("text", "") for each in content)
    return str(block["text"])


def list_strings(value: object) -> list[str]:
    """All strings in a JSON value, in order."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [each for one in inner for each in list_strings(one)]
