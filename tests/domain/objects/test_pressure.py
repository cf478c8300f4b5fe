"""Pressure is counted against what is usable of a window, and a fuller window never asks for less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.pressure import ASKS, THRESHOLDS, Thresholds, Window, Zone, goal, zone

SIZES = st.integers(0, 2_000_000)
WINDOWS = st.builds(
    Window,
    model_tokens=SIZES,
    compaction_tokens=st.none() | SIZES,
    budget_tokens=st.none() | SIZES,
    fixed_tokens=SIZES,
    output_reserve=SIZES,
)
LIMITS = (
    st.lists(st.integers(1, 200), min_size=4, max_size=4, unique=True)
    .map(sorted)
    .map(lambda percent: Thresholds((percent[0], percent[1], percent[2], percent[3])))
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
def test_usable_is_the_smallest_limit_without_system_tools_and_reply(limit: dict[str, int], usable: int) -> None:
    assert Window(model_tokens=200_000, fixed_tokens=41_000, output_reserve=8_000, **limit).usable == usable


@pytest.mark.parametrize(
    "name", ["model_tokens", "compaction_tokens", "budget_tokens", "fixed_tokens", "output_reserve"]
)
def test_a_negative_size_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Window(**{"model_tokens": 1, name: -1})


def test_zones_begin_at_50_70_85_and_95_percent_of_the_usable_window() -> None:
    found = [zone(tokens, HUNDRED) for tokens in (0, 49, 50, 69, 70, 84, 85, 94, 95, 300)]
    assert [each.name[:2] for each in found] == ["NO", "NO", "CA", "CA", "WA", "WA", "CR", "CR", "EM", "EM"]


def test_the_usable_window_counts_and_not_the_models() -> None:
    assert zone(60, Window(model_tokens=1_000, budget_tokens=160, fixed_tokens=60)) is Zone.CAUTION


def test_a_window_without_room_is_an_emergency_and_an_empty_history_never_is() -> None:
    full = Window(model_tokens=10, fixed_tokens=20)
    assert (zone(0, full), zone(1, full)) == (Zone.NORMAL, Zone.EMERGENCY)


@given(SIZES, SIZES, WINDOWS, LIMITS)
def test_more_tokens_are_never_in_a_lower_zone(tokens: int, more: int, window: Window, limits: Thresholds) -> None:
    assert zone(tokens, window, limits) <= zone(tokens + more, window, limits)


@given(WINDOWS, LIMITS, st.sampled_from(Zone))
def test_a_zone_begins_where_it_says(window: Window, limits: Thresholds, which: Zone) -> None:
    begin = limits.begin(which, window)
    assert zone(begin, window, limits) >= which
    assert begin == 0 or zone(begin - 1, window, limits) < which


@given(WINDOWS, LIMITS, st.sampled_from([each for each in Zone if each is not Zone.NORMAL]))
def test_reaching_a_zones_goal_leaves_the_zone_and_the_next_one_too(
    window: Window, limits: Thresholds, which: Zone
) -> None:
    reached = goal(which, window, limits)
    assert reached >= 0
    assert zone(reached, window, limits) <= max(which - 2, Zone.NORMAL)


@pytest.mark.parametrize("percent", [(0, 70, 85, 95), (50, 50, 85, 95), (50, 70, 95, 85)])
def test_thresholds_out_of_order_are_refused(percent: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        Thresholds(percent)


def test_each_zone_reaches_deeper_than_the_one_below() -> None:
    deepest = [max((ask.fidelity for ask in ASKS[each]), default=Fidelity.FULL) for each in Zone]
    assert deepest == [Fidelity.FULL, Fidelity.DETAILED, Fidelity.STUB, Fidelity.EVICTED, Fidelity.EVICTED]


def test_what_each_zone_asks_of_the_same_fidelity_reaches_younger_objects_than_the_zone_below() -> None:
    for fidelity in Fidelity:
        idle = [ask.idle for each in Zone for ask in ASKS[each] if ask.fidelity is fidelity]
        assert idle == sorted(idle, reverse=True)


def test_the_default_thresholds_are_a_value_that_can_be_replaced() -> None:
    assert zone(60, HUNDRED, Thresholds((61, 70, 85, 95))) is Zone.NORMAL
    assert zone(60, HUNDRED, THRESHOLDS) is Zone.CAUTION
