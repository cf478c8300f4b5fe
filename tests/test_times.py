"""Every number has a date, so that no event of a foreign file can break a list."""

from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.figures import iso_time, local_time
from mnemosyne.times import LAST, is_time, parse_time, utc


@given(at=st.integers())
def test_every_number_is_displayable_and_a_time_is_shown_unchanged(at: int) -> None:
    local_time(at)
    iso_time(at)
    if is_time(at):
        assert abs(utc(at).timestamp() - at / 1e6) < 1


def test_last_time_has_a_date_everywhere() -> None:
    assert utc(LAST).year == utc(2**70).year == 9998


def test_date_outside_the_range_is_its_nearest_end() -> None:
    assert (parse_time("9999-12-31", 0, is_end=True), parse_time("1960-01-01", 0)) == (LAST, 0)


def test_a_day_ends_a_range_with_its_last_moment() -> None:
    assert parse_time("2026-11-21", 0, is_end=True) == parse_time("2026-11-22", 0) - 1 > parse_time("2026-11-21", 0)
    assert parse_time("2026-11-21T14:00", 0, is_end=True) == parse_time("2026-11-21T14:00", 0)
