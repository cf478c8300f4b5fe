"""How much of a text asks: in any script, of any shape, in time that grows with its length."""

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
def test_a_question_asks_with_all_of_it_in_any_script(text: str) -> None:
    assert share_of_questions(text) == 1


@pytest.mark.parametrize("text", ["", "It is so.", "https://host/path?query=1 is down", "a?.b()", "42", "x" * 1000])
def test_what_ends_no_sentence_with_a_question_mark_asks_nothing(text: str) -> None:
    assert share_of_questions(text) == 0


def test_what_also_says_something_asks_with_a_part_of_it() -> None:
    assert 0.3 < share_of_questions("It was Matt, he sang well. And you, what did you do?") < 0.6
    assert share_of_questions("And you?\nI was at home, all day long.") < 0.5


@pytest.mark.parametrize("unit", ["?", ". ", "?a", "\n", "。", "！？"])  # noqa: RUF001
def test_two_megabytes_of_one_mark_are_read_once(unit: str) -> None:
    """A rule that looked at a run again from each of its marks would never come back."""
    assert 0 <= share_of_questions(unit * 1_000_000) <= 1


@given(st.text(alphabet="ab .?!\n？", max_size=60))  # noqa: RUF001
def test_a_question_more_never_makes_a_text_ask_less(text: str) -> None:
    assert share_of_questions(text) <= share_of_questions(f"{text} why?") <= 1
