"""The share of questions in a text: in any script, of any shape, in linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.text.asking import share_of_questions

QUESTIONS = [
    "What's up?",
    'She said "why?"',
    "Really?!",
    "Quoi ?",
    "そうですか？",  # noqa: RUF001
    "لماذا؟",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_in_any_script_has_a_share_of_one(text: str) -> None:
    assert share_of_questions(text) == 1


@pytest.mark.parametrize("text", ["", "It is so.", "https://host/path?query=1 is down", "a?.b()", "42", "x" * 1000])
def test_a_text_without_a_sentence_ending_in_a_question_mark_has_a_share_of_zero(text: str) -> None:
    assert share_of_questions(text) == 0


def test_a_text_with_questions_and_statements_has_a_share_between() -> None:
    assert 0.3 < share_of_questions("It was Matt, he sang well. And you, what did you do?") < 0.6
    assert share_of_questions("And you?\nI was at home, all day long.") < 0.5


@given(st.text(alphabet="ab .?!\n？", max_size=60))  # noqa: RUF001
def test_another_question_never_lowers_the_share(text: str) -> None:
    assert share_of_questions(text) <= share_of_questions(f"{text} why?") <= 1
