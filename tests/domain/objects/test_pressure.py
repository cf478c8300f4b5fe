"""Pressure is measured against the usable window, and never falls as a window fills."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.pressure import Window, Zone, zone

SIZES = st.integers(0, 2_000_000)
WINDOWS = st.builds(
    Window,
    model_tokens=SIZES,
    compaction_tokens=st.none() | SIZES,
    budget_tokens=st.none() | SIZES,
    fixed_tokens=SIZES,
    output_reserve=SIZES,
)
HUNDRED = Window(model_tokens=100)


@pytest.mark.parametrize(
    ("limit", "usable"),
    [
        ({}, 200_000 - 41_000 - 8_000),
        ({"compaction_tokens": 155_000}, 155_000 - 41_000 - 8_000),
        ({"compaction_tokens": 155_000, "budget_tokens": 100_000}, 100_000 - 41_000),
        ({"budget_tokens": 1_000_000}, 200_000 - 41_000 - 8_000),
        ({"budget_tokens": 195_000}, 200_000 - 41_000 - 8_000),
        ({"budget_tokens": 40_000}, 0),
    ],
)
def test_usable_window_is_the_smallest_limit_minus_system_tools_and_reply(limit: dict[str, int], usable: int) -> None:
    assert Window(model_tokens=200_000, fixed_tokens=41_000, output_reserve=8_000, **limit).usable == usable


@pytest.mark.parametrize(
    "name", ["model_tokens", "compaction_tokens", "budget_tokens", "fixed_tokens", "output_reserve"]
)
def test_negative_size_raises_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Window(**{"model_tokens": 1, name: -1})


def test_zones_begin_at_50_70_85_and_95_percent_of_the_usable_window() -> None:
    found = [zone(tokens, HUNDRED) for tokens in (0, 49, 50, 69, 70, 84, 85, 94, 95, 300)]
    assert [each.name[:2] for each in found] == ["NO", "NO", "CA", "CA", "WA", "WA", "CR", "CR", "EM", "EM"]


def test_pressure_uses_the_usable_window_not_the_models() -> None:
    assert zone(60, Window(model_tokens=1_000, budget_tokens=160, fixed_tokens=60)) is Zone.CAUTION


def test_window_without_room_is_an_emergency_unless_the_history_is_empty() -> None:
    full = Window(model_tokens=10, fixed_tokens=20)
    assert (zone(0, full), zone(1, full)) == (Zone.NORMAL, Zone.EMERGENCY)


@given(SIZES, SIZES, WINDOWS)
def test_more_tokens_are_never_in_a_lower_zone(tokens: int, more: int, window: Window) -> None:
    assert zone(tokens, window) <= zone(tokens + more, window)


@given(SIZES, SIZES, WINDOWS)
def test_a_smaller_window_is_never_in_a_lower_zone(tokens: int, smaller: int, window: Window) -> None:
    small = attrs.evolve(window, model_tokens=max(0, window.model_tokens - smaller))
    assert zone(tokens, window) <= zone(tokens, small)
