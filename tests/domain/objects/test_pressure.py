"""Pressure is measured against the usable window, and never falls as a window fills."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.pressure import Zone, usable_tokens, zone

SIZES = st.integers(0, 2_000_000)


@pytest.mark.parametrize(
    ("ends", "budget", "usable"),
    [
        (200_000, None, 200_000 - 41_000 - 8_000),
        (155_000, 100_000, 100_000 - 41_000),
        (200_000, 1_000_000, 200_000 - 41_000 - 8_000),
        (200_000, 195_000, 200_000 - 41_000 - 8_000),
        (200_000, 40_000, 0),
    ],
)
def test_usable_window_is_the_smallest_limit_minus_system_tools_and_reply(
    ends: int, budget: int | None, usable: int
) -> None:
    assert usable_tokens(ends=ends, budget=budget, fixed=41_000, reserve=8_000) == usable


def test_zones_begin_at_50_70_85_and_95_percent_of_the_usable_window() -> None:
    found = [zone(tokens, 100) for tokens in (0, 49, 50, 69, 70, 84, 85, 94, 95, 300)]
    assert [each.name[:2] for each in found] == ["NO", "NO", "CA", "CA", "WA", "WA", "CR", "CR", "EM", "EM"]


def test_window_without_room_is_an_emergency_unless_the_history_is_empty() -> None:
    assert (zone(0, 0), zone(1, 0)) == (Zone.NORMAL, Zone.EMERGENCY)


@given(SIZES, SIZES, SIZES, SIZES)
def test_more_tokens_or_a_smaller_window_are_never_in_a_lower_zone(
    tokens: int, more: int, usable: int, smaller: int
) -> None:
    assert zone(tokens, usable) <= zone(tokens + more, usable)
    assert zone(tokens, usable) <= zone(tokens, max(0, usable - smaller))
