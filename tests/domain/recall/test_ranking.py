"""The common score of every search: properties that hold for any constants."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.recall.ranking import blend

shares = st.floats(0, 1)


@given(shares, shares, shares)
def test_score_rises_with_words_and_nearness_and_stays_in_0_to_1(words: float, nearness: float, more: float) -> None:
    score = blend(words, nearness)
    assert 0 <= score <= 1
    assert blend(min(1.0, words + more), nearness) >= score
    assert blend(words, min(1.0, nearness + more)) >= score
