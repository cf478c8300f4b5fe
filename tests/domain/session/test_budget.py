"""The room that is left of a day's budget is never below nothing, and never more than it allows."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.session.budget import Budget, DaySpending

AMOUNTS = st.integers(0, 10**12)


@given(AMOUNTS, st.floats(0, 1), AMOUNTS, AMOUNTS)
def test_there_is_never_more_room_than_a_day_or_the_share_allows(
    a_day: int, share: float, turns: int, own: int
) -> None:
    room = Budget(a_day, share).room(DaySpending(3, turns=turns, helpers=own))
    assert 0 <= room <= min(a_day, int(share * turns))
    assert room == 0 or room + own <= a_day
