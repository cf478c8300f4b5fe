"""Quotes are verbatim, at their place, and within the requested size."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.quoting import MOST_QUOTES, Quotable, Where, quote

WORDS = st.sampled_from(["pool", "limit", "retry", "ünïcode", "x", "20", "\n", "the"])
TEXTS = st.lists(WORDS, min_size=1, max_size=60).map(" ".join)


def tokens(text: str) -> int:
    return len(text.split())


@given(st.dictionaries(st.sampled_from("abcd"), TEXTS, min_size=1), TEXTS, st.integers(0, 40))
def test_quotes_are_verbatim_disjoint_and_within_the_budget(texts: dict[str, str], question: str, most: int) -> None:
    quotable = Quotable(texts)
    whole = [Where(each, 0, len(text)) for each, text in quotable.texts.items()]
    found = quotable.quotes_at(question, [*quotable.places(question), *whole], most, tokens)
    assert sum(cost for _, cost in found) <= most
    assert len(found) <= MOST_QUOTES
    for quoted, cost in found:
        assert texts[quoted.object_id].encode()[quoted.start : quoted.end].decode() == quoted.text
        assert cost == tokens(quoted.text) > 0
    spans = [(each.object_id, each.start, each.end) for each, _ in found]
    assert not [
        (one, other)
        for one in spans
        for other in spans
        if one is not other and one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
    ]


def test_line_with_the_words_of_the_question_is_quoted() -> None:
    text = "first line\nthe pool has 20 connections\nlast line"
    quotable = Quotable({"a": text})
    ((quoted, _),) = quotable.quotes_at("how large is the pool", quotable.places("pool"), 5, tokens)
    assert quoted.text == "the pool has 20 connections"


def test_passages_of_missing_objects_are_skipped() -> None:
    assert Quotable({"a": "pool"}).quotes_at("pool", [Where("gone", 0, 4)], 100, tokens) == []


def test_a_place_counts_bytes() -> None:
    found = quote("a", "über das Limit", 9, 14)
    assert (found.start, found.end, found.text) == (10, 15, "Limit")
