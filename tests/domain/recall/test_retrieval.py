"""BM25 scores, combined rankings, and empty results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.retrieval import RELEVANT, Calibration, WordIndex, blend
from mnemosyne.domain.text.words import query_words

TEXTS = {
    "login": "the login page calls auth/session.py and shows an error",
    "token": "ERR_TOKEN_2041 is raised by refreshToken when the token has expired",
    "parser": "the parser reads tokens one by one, and a token more at the end of the line",
}


def index() -> WordIndex[str]:
    found: WordIndex[str] = WordIndex()
    for key, text in TEXTS.items():
        found.add(key, text)
    return found


@pytest.mark.parametrize(
    ("query", "best"), [("2041", "token"), ("refresh token", "token"), ("session.py", "login"), ("parsers", "parser")]
)
def test_the_text_with_the_rarest_words_comes_first(query: str, best: str) -> None:
    assert index().search(query, 3)[0].key == best


def test_a_query_without_a_word_of_any_text_finds_nothing() -> None:
    for query in ("zebra", "", "…", "什么"):
        assert index().search(query, 3) == []
        assert index().coverage(query, "login") == 0
    assert WordIndex[str]().search("token", 3) == []


def test_among_equal_texts_the_newest_comes_first() -> None:
    found: WordIndex[int] = WordIndex()
    for key in range(4):
        found.add(key, "the same words")
    assert [hit.key for hit in found.search("words", 3)] == [3, 2, 1]


def test_coverage_is_the_share_of_the_query_in_a_text() -> None:
    found = index()
    assert found.coverage("expired token", "token") == pytest.approx(1)
    assert 0 < found.coverage("token zebra", "token") < 0.5


@given(st.lists(st.text("ab c", max_size=20), max_size=8), st.text("ab c", max_size=6))
def test_a_search_gives_the_best_scores_of_all(texts: list[str], query: str) -> None:
    found: WordIndex[int] = WordIndex()
    for key, text in enumerate(texts):
        found.add(key, text)
    scores = found.scores(query)
    assert all(score > 0 for score in scores.values())
    assert [hit.score for hit in found.search(query, 3)] == sorted(scores.values(), reverse=True)[:3]


@given(st.lists(st.text("ab c", max_size=20), max_size=8), st.text("abc", min_size=1, max_size=6))
def test_scores_of_words_are_bounded_and_add_up(texts: list[str], word: str) -> None:
    found: WordIndex[int] = WordIndex()
    for key, text in enumerate(texts):
        found.add(key, text)
    asked = query_words(f"{word} ab c")
    added: dict[int, float] = {}
    for each in asked:
        for key, score in found.scores_of(each).items():
            assert score <= found.most(each)
            added[key] = added.get(key, 0.0) + score
    assert added == pytest.approx(found.scores(f"{word} ab c"))


def test_relevance_grows_with_nearness_and_coverage() -> None:
    calibration = Calibration(nearness=16.0, coverage=10.8, base=-10.2)
    assert calibration.relevance(0.1, 0.0) < RELEVANT < calibration.relevance(0.5, 0.5)
    assert calibration.relevance(0.3, 0.2) < calibration.relevance(0.4, 0.2) < calibration.relevance(0.4, 0.6)


SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES)
def test_score_rises_with_words_and_nearness_and_stays_in_0_to_1(words: float, nearness: float, more: float) -> None:
    score = blend(words, nearness)
    assert 0 <= score <= 1
    assert blend(min(1.0, words + more), nearness) >= score
    assert blend(words, min(1.0, nearness + more)) >= score
