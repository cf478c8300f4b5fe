"""Passages: each short enough, together everything, cut where a reader would cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.text.passages import _TOKEN, MOST_CHARACTERS, MOST_PIECES, _pieces, passages
from tests.domain.recorded import sessions

TEXTS = st.text(max_size=400).map(lambda text: text * 12) | st.lists(
    st.sampled_from(
        ["word ", "\n", "\n\n", "End. ", "longIdentifierName", "x" * 300, "修复。", "é한", " " * 500, "a1b2c3"]
    ),
    max_size=200,
).map("".join)


def estimate(text: str) -> float:
    return sum(map(_pieces, _TOKEN.finditer(text, 0, MOST_CHARACTERS)))


@given(TEXTS)
def test_passages_cover_every_character_in_order_and_each_is_short_enough(text: str) -> None:
    found = passages(text)
    assert (found == []) == (text == "")
    reached = 0
    for number, each in enumerate(found):
        assert each.start <= reached < each.end
        assert number == 0 or each.start > found[number - 1].start
        assert each.end - each.start <= MOST_CHARACTERS
        assert estimate(text[each.start : each.end]) <= MOST_PIECES
        reached = each.end
    assert reached == len(text)


def test_a_short_text_is_one_passage() -> None:
    assert [(each.start, each.end) for each in passages("A line.\n\nAnother.")] == [(0, 17)]


def test_a_text_is_cut_between_paragraphs_before_lines_and_between_lines_before_words() -> None:
    paragraph = "One line of words that says something.\n" * 5
    text = f"{paragraph}\n" * 20
    assert all(text[: each.end].endswith("\n\n") for each in passages(text))
    lines = "one line of words without an end\n" * 100
    assert all(lines[: each.end].endswith("\n") for each in passages(lines))
    words = "word " * 1000
    assert all(words[: each.end].endswith(" ") for each in passages(words))


def test_neighbouring_passages_overlap_by_whole_words() -> None:
    text = " ".join(f"number{number}" for number in range(2000))
    found = passages(text)
    for one, two in pairwise(found):
        assert two.start < one.end
        assert text[two.start - 1] == " "


def test_one_line_of_megabytes_is_cut_hard() -> None:
    found = passages("x" * 1_000_000)
    assert len(found) < 2000


def test_recorded_sessions_fit_into_passages() -> None:
    for session in sessions(every=30):
        for message in session["messages"]:
            text = str(message["content"])
            found = passages(text)
            assert found[0].start == 0
            assert found[-1].end == len(text)
