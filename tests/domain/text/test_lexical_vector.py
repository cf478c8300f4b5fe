"""Vectors of hashed words are deterministic, of length 1, and near if they share words or parts of words."""

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.text.lexical_vector import DIMENSION, _features, lexical_vector


def near(one: str, other: str) -> float:
    pairs: zip[tuple[float, float]] = zip(lexical_vector(one), lexical_vector(other), strict=True)
    return sum(a * b for a, b in pairs)


@given(st.text())
def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    vector = lexical_vector(text)
    assert isinstance(vector, array)
    assert len(vector) == DIMENSION
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)


def test_texts_that_share_words_are_nearer() -> None:
    query = "fix the token refresh in the auth middleware"
    assert near(query, "the auth middleware refreshes tokens twice") > 0.5
    assert near(query, "a lovely sunny day in Paris") < 0.2


def test_a_misspelled_word_is_still_near() -> None:
    assert near("middleware", "midleware") > 0.1 > abs(near("middleware", "database"))


def test_words_share_their_cached_features() -> None:
    places = {id(feature) for number in range(1_000) for feature in _features(f"word{number}")}
    assert len(places) <= 4 * DIMENSION
