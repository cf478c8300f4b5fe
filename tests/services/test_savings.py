"""Savings by session, with the clients' names, since a given time."""

from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.services.money_curve import money_curve
from mnemosyne.services.savings import (
    Balance,
    Savings,
    balances_of,
    join_replies,
    list_caveats,
    read_break_even,
    read_savings,
)
from tests.services.answers import Answers

ONE, OTHER = UUID(int=1), UUID(int=2)


def row(stream: UUID, mode: str, sent: int, unmanaged: int) -> dict[str, Any]:
    sides = {"shadow": unmanaged, "expected": sent, "actual": sent}
    parts = ("output", "read", "write_5m", "write_1h")
    counted = {f"{side}_input": tokens for side, tokens in sides.items()}
    nothing = {f"{side}_{part}": 0 for side in sides for part in parts}
    flags = {"size": 0, "shadow_size": 0, "assumed": 0, "far": 0, "compacted": 0, "deviates": False, "replies": 1}
    flags["compared"] = mode != "observe"
    terms = {"replied": None, "service_tier": None, "inference_geo": None, "speed": None, "web_searches": 0}
    about = {"stream": stream, "mode": mode, "model": "claude-opus-4-5", "turns": 1}
    return {**about, **counted, **nothing, **flags, **terms}


async def test_each_session_has_its_balance_and_the_total_is_their_sum() -> None:
    models = Answers(
        {
            ("savings", "saved"): [row(ONE, "manage", 10, 30), row(OTHER, "observe", 5, 9), row(ONE, "observe", 1, 1)],
            ("timeline", "sessions"): [{"stream": ONE, "external_id": "mine"}],
        }
    )
    found = await read_savings(models, since=7)
    assert {each.query: each.about for each in models.asked}["saved"] == {"since": 7, "streams": None}
    assert list(found.sessions) == [ONE, OTHER]
    assert found.names == {ONE: "mine"}
    assert (found.sessions[ONE].turns, found.sessions[ONE].managed) == (2, 1)
    assert found.total.nanodollars_saved == 20 * 5_000
    assert found.sessions[OTHER].nanodollars_saved == 0


async def test_a_helper_is_part_of_the_cost_of_its_session() -> None:
    models = Answers(
        {
            ("savings", "saved"): [row(ONE, "manage", 10, 30), row(OTHER, "observe", 5, 9)],
            ("budget", "helpers"): [
                {"stream": ONE, "helpers": 7},
                {"stream": OTHER, "helpers": 2},
                {"stream": UUID(int=3), "helpers": 900},
            ],
        }
    )
    found = await read_savings(models)
    assert found.total.helpers == 909  # those of a session without an accounted turn, too
    assert found.sessions[ONE].nanodollars_saved == 20 * 5_000 - 7
    assert found.sessions[OTHER].nanodollars_saved == -2
    assert any("for the helper model" in each for each in list_caveats(found.total))


@pytest.mark.parametrize(
    ("epochs", "turns", "expected"),
    [([(4, 9), (7, 12)], 8, 19), ([(4, 9)], 13, None), ([(4, None)], 5, None), ([], 3, 0)],
)
async def test_break_even_is_the_planner_s_forecast_until_that_turn(
    epochs: list[tuple[int, int | None]], turns: int, expected: int | None
) -> None:
    models = Answers(
        {
            ("savings", "epochs_of"): [{"turn": turn, "payback": payback} for turn, payback in epochs],
            ("savings", "saved_by_turn"): [{"turn": turn} for turn in range(1, turns + 1)],
        }
    )
    one = Savings({ONE: Balance()}, {})
    assert await read_break_even(models, one) == expected
    assert await read_break_even(models, Savings({ONE: Balance(), OTHER: Balance()}, {})) is None


COSTS = [("main", 1, 10), ("main", 2, 20), ("agent", 1, 30)]
TURNS = [
    {**row(ONE, "manage", sent, 0), "branch": branch, "turn": turn, "version": 10 * number, "began": number}
    for number, (branch, turn, sent) in enumerate(COSTS, 1)
]


def test_costs_of_helpers_are_in_the_sum_of_the_turns_wherever_they_were_recorded() -> None:
    for version in (1, 10, 29, 30, 99):
        helpers = [{"version": version, "helpers": 7}]
        whole = sum(balances_of(TURNS, [], helpers), Balance())
        assert (whole.turns, whole.helpers, whole.nanodollars) == (3, 7, 60 * 5_000 + 7)
    first = balances_of([], [], [{"version": 1, "helpers": 7}])
    assert [(each.turns, each.helpers, each.nanodollars) for each in first] == [(0, 7, 7)]
    assert (balances_of([], [], []), money_curve([], first).points) == ([], [])
    unknown = [{**each, "model": "nobody's"} for each in TURNS]
    whole = sum(balances_of(unknown, [], [{"version": 1, "helpers": 7}]), Balance())
    assert (whole.is_priced, whole.unpriced, whole.nanodollars) == (True, 3, 7)


balances = st.builds(
    Balance, turns=st.integers(0, 9), deviates=st.booleans(), actual=st.builds(Tokens, input=st.integers(0, 9))
)


@given(balances, balances, balances)
def test_balances_add_up_in_any_order(one: Balance, other: Balance, third: Balance) -> None:
    assert one + other == other + one
    assert (one + other) + third == one + (other + third)
    assert one + Balance() == one
    assert attrs.evolve(one, replies=3, unpriced=3).is_priced is False


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"assumed": 2}, "For 2 turns the provider reported no complete usage"),
        ({"unpriced": 1, "unknown": frozenset({"claude-opus-5 (priority)"})}, "1 reply without a known price (claude"),
        ({"far": 1}, "The provider's counts of 1 turn are not credible"),
        ({"deviates": True}, "At times the provider billed considerably more"),
    ],
)
def test_observed_turns_have_the_caveats_of_their_figures_too(more: dict[str, Any], said: str) -> None:
    observed, *others = list_caveats(Balance(turns=3, **more))
    assert observed.startswith("These turns were only observed")
    (caveat,) = others
    assert caveat.startswith(said)


def test_a_turn_whose_replies_differ_in_price_is_one_turn_with_the_sum_of_their_costs() -> None:
    cheap = {**row(ONE, "manage", 10, 0), "model": "claude-haiku-4-5", "turns": 0}
    dear, other = row(ONE, "manage", 20, 90), row(ONE, "manage", 1, 1)
    first, second = balances_of(
        [{**each, "version": 1, "began": 1} for each in join_replies([cheap, dear, other])], [], []
    )
    assert (first.turns, first.nanodollars, first.nanodollars_unmanaged) == (1, 10 * 1_000 + 20 * 5_000, 90 * 5_000)
    assert (second.turns, second.nanodollars) == (1, 5_000)
