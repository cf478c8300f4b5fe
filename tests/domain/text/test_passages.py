"""Passages are short enough, cover the whole text, and are cut where a reader would cut."""

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
    cut = passages(text)
    assert (cut == []) == (text == "")
    reached = 0
    for number, passage in enumerate(cut):
        assert passage.start <= reached < passage.end
        assert number == 0 or passage.start > cut[number - 1].start
        assert passage.end - passage.start <= MOST_CHARACTERS
        assert estimate(text[passage.start : passage.end]) <= MOST_PIECES
        reached = passage.end
    assert reached == len(text)


def test_a_short_text_is_one_passage() -> None:
    assert [(passage.start, passage.end) for passage in passages("A line.\n\nAnother.")] == [(0, 17)]


def test_cuts_prefer_paragraphs_to_lines_and_lines_to_words() -> None:
    paragraph = "One line of words that says something.\n" * 5
    text = f"{paragraph}\n" * 20
    assert all(text[: passage.end].endswith("\n\n") for passage in passages(text))
    lines = "one line of words without an end\n" * 100
    assert all(lines[: passage.end].endswith("\n") for passage in passages(lines))
    words = "word " * 1000
    assert all(words[: passage.end].endswith(" ") for passage in passages(words))


def test_adjacent_passages_overlap_by_whole_words() -> None:
    text = " ".join(f"number{number}" for number in range(2000))
    cut = passages(text)
    for one, two in pairwise(cut):
        assert two.start < one.end
        assert text[two.start - 1] == " "


def test_a_very_long_line_is_cut_at_the_limit() -> None:
    cut = passages("x" * 1_000_000)
    assert len(cut) < 2000


def test_recorded_sessions_fit_into_passages() -> None:
    for session in sessions(every=30):
        for message in session["messages"]:
            text = str(message["content"])
            cut = passages(text)
            assert cut[0].start == 0
            assert cut[-1].end == len(text)
