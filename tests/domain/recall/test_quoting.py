"""Quotes are verbatim, at their place, and within the requested size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.quoting import Where, find_places, quote, quote_passage

WORDS = st.sampled_from(["pool", "limit", "retry", "ünïcode", "x", "20", "\n", "the"])
TEXTS = st.lists(WORDS, min_size=1, max_size=60).map(" ".join)


def tokens(text: str) -> int:
    return len(text.split())


@given(TEXTS, TEXTS, st.integers(1, 40))
def test_quote_is_verbatim_and_within_the_limit_if_one_line_fits(text: str, question: str, most: int) -> None:
    quoted = quote_passage(Where("a", 0, len(text)), text, question, most, tokens)
    assert text.encode()[quoted.start : quoted.end].decode() == quoted.text
    lines = [line for line in text.split("\n") if line.strip()]
    assert not lines or tokens(quoted.text) <= max(most, *map(tokens, lines)) or quoted.text == text


@pytest.mark.parametrize(("most", "quoted"), [(5, 1), (20, 2), (100, 3)])
def test_line_with_the_words_of_the_question_is_quoted_with_lines_around_it(most: int, quoted: int) -> None:
    text = "first line\nthe pool has 20 connections\nlast line of this text"
    (place,) = find_places("pool", {"a": text})
    found = quote_passage(place, text, "how large is the pool", most, tokens)
    assert "the pool has 20 connections" in found.text
    assert len(found.text.split("\n")) == quoted


def test_places_without_a_word_of_the_query_are_omitted() -> None:
    assert [each.object_id for each in find_places("pool", {"a": "pool", "b": "limit"})] == ["a"]


def test_a_place_counts_bytes() -> None:
    found = quote("a", "über das Limit", 9, 14)
    assert (found.start, found.end, found.text) == (10, 15, "Limit")
