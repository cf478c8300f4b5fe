"""A hidden round is retried a few times, as the provider asks, and never for longer than a client would wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http.reply_rounds import MOST_PAUSED, PAUSES, Pauses, TryAgain, may_pass


def pauses(*asked: bytes) -> list[float]:
    """The pauses before each retry of a reply whose rounds fail with these ``retry-after`` values, until it is
    abandoned.
    """
    left, found = Pauses(), []
    for each in asked:
        again = left.after("overloaded", ((b"Retry-After", each),) if each else ())
        if again is None:
            break
        assert isinstance(again, TryAgain)
        found.append(again.pause)
    return found


def test_pauses_without_retry_after_grow_and_end() -> None:
    assert pauses(*[b""] * 9) == list(PAUSES)


@given(st.lists(st.integers(0, 50).map(lambda seconds: str(seconds).encode()) | st.just(b"") | st.just(b"soon")))
def test_pauses_of_one_reply_have_a_bound(asked: list[bytes]) -> None:
    found = pauses(*asked)
    assert len(found) <= len(PAUSES)
    assert sum(found) <= MOST_PAUSED


def test_retry_after_of_the_provider_counts() -> None:
    assert pauses(b"0.5", b"7") == [0.5, 7.0]
    assert pauses(str(int(MOST_PAUSED) + 1).encode()) == []
    assert Pauses().after("no", ((b"x-should-retry", b"False"),)) is None


@pytest.mark.parametrize(("status", "passes"), [(429, True), (500, True), (529, True), (400, False), (404, False)])
def test_temporary_errors_are_retried(status: int, passes: bool) -> None:
    assert may_pass(status) == passes
