"""Pauses that double."""

from itertools import islice, pairwise

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.backoff import backoff

SECONDS = st.floats(min_value=0.001, max_value=1e6)


def test_each_pause_is_twice_the_previous_one() -> None:
    assert list(islice(backoff(0.5, 3.0), 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]


@given(SECONDS, SECONDS)
def test_pauses_only_grow_up_to_the_longest(first: float, longest: float) -> None:
    pauses = list(islice(backoff(first, longest), 50))
    assert all(one <= other for one, other in pairwise(pauses))
    assert pauses[0] == min(first, longest)
    assert pauses[-1] == longest
