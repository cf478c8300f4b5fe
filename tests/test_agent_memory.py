"""The questions of the memory benchmark have the answers that they claim."""

from random import Random
from typing import Any

from benchmarks.agent_memory.__main__ import load_questions, render
from benchmarks.agent_memory.generate import AHEAD, ask_for_errors, ask_for_order, ask_for_values, read_session, text_of


def test_every_committed_question_has_an_answer_of_the_length_of_its_span() -> None:
    questions = load_questions()
    assert len({each.id for each in questions}) == len(questions) >= 1_000
    for each in questions:
        assert each.end - each.start == len(each.gold.encode())
        assert bool(each.gold) is (each.of != "foreign")
        assert not each.gold or each.gold not in each.question


def test_an_answer_is_in_the_span_of_its_block_and_a_question_comes_later() -> None:
    recorded = a_session(AHEAD + 20)
    session = read_session(recorded)
    questions = [
        question
        for generator in (ask_for_values, ask_for_errors, ask_for_order)
        for question in generator(session, Random(0))
    ]
    assert {each.of for each in questions} == {"value", "error", "order"}
    for each in questions:
        text = text_of(recorded["messages"][each.message]["content"][each.block])
        assert text.encode()[each.start : each.end].decode() == each.gold
        assert recorded["turns"][each.turn - 1 - AHEAD]["msg"] > each.message


def test_a_table_counts_only_questions_with_a_result() -> None:
    asked = [each for each in load_questions() if each.of == "order"][:2]
    *_, row = render(asked, {"clearing": {asked[0].id: True}})
    assert "| 100% |" in row


def a_session(turns: int) -> dict[str, Any]:
    """A session in which the agent runs a different command each turn; every third one fails."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Run them."}]}]
    for number in range(turns):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"check naïve{number:04}"}}
        text = f"first line\nmodule naïve{number} was checked after {number * 37} milliseconds\n"
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, "is_error": number % 3 == 0}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    requests = [{"msg": number} for number in range(1, len(messages), 2)]
    return {"name": "a session", "messages": messages, "turns": requests}
