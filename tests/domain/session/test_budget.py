"""The room of a budget is never negative, and never above its limits."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.session.budget import Budget, DaySpending

AMOUNTS = st.integers(0, 10**12)


@given(AMOUNTS, st.floats(0, 1), AMOUNTS, AMOUNTS)
def test_room_never_exceeds_the_daily_amount_or_the_share(a_day: int, share: float, turns: int, helpers: int) -> None:
    room = Budget(a_day, share).room(DaySpending(3, turns=turns, helpers=helpers))
    assert 0 <= room <= min(a_day, int(share * turns))
    assert room == 0 or room + helpers <= a_day


def test_a_day_without_turns_has_no_room() -> None:
    assert Budget(1_000, 0.5).room(DaySpending(3)) == 0
    assert Budget(1_000, 0.5).room(DaySpending(3, turns=100, helpers=20)) == 30
