"""The curve adds up the cost of each turn, in dollars or tokens."""

from uuid import UUID
from xml.etree import ElementTree

import pytest

from mnemosyne.services.money_curve import MoneyCurve, money_chart, money_curve
from mnemosyne.services.savings import balance_of, balances_of
from tests.services.test_savings import row

ONE = UUID(int=1)


def rows(*amounts: tuple[int, int], model: str = "claude-opus-4-5") -> list[dict[str, object]]:
    return [
        {**row(ONE, "manage", sent, unmanaged), "branch": "main", "turn": number, "model": model}
        for number, (sent, unmanaged) in enumerate(amounts, 1)
    ]


BESIDE = {
    **row(ONE, "manage", 10_000, 0),
    **{"mode": None, "compared": None, "model": "claude-haiku-4-5", "turns": 0, "asked_at": 2},
}
"""A reply to a side call."""


def curve_of(rows: list[dict[str, object]]) -> MoneyCurve:
    return money_curve(rows, [balance_of(row) for row in rows])


def test_each_point_is_the_cost_of_all_turns_up_to_it() -> None:
    curve = curve_of(rows((100, 200), (50, 150)))
    assert curve.unit == "dollars"
    assert [point.actual for point in curve.points] == pytest.approx([100 * 5e-6, 150 * 5e-6])
    assert [point.unmanaged for point in curve.points] == pytest.approx([200 * 5e-6, 350 * 5e-6])


def test_cost_of_a_helper_is_billed_and_expected_but_not_without_mnemosyne() -> None:
    turns = [{**each, "version": number, "began": number} for number, each in enumerate(rows((100, 200), (50, 150)))]
    without = money_curve(turns, balances_of(turns, [], []))
    curve = money_curve(turns, balances_of(turns, [], [{"version": 1, "helpers": 10**9}]))
    for point, before, dollars in zip(curve.points, without.points, (0, 1), strict=True):
        assert point.actual == pytest.approx(before.actual + dollars)
        assert point.expected == pytest.approx(before.expected + dollars)
        assert point.unmanaged == before.unmanaged


def test_a_side_call_to_another_model_adds_its_own_cost_to_what_was_expected() -> None:
    """Tokens of a cheap model do not weigh those of an expensive one."""
    turns = [{**each, "version": 1, "began": 1, "expected_input": 50} for each in rows((100, 200))]
    (point,) = money_curve(turns, balances_of(turns, [BESIDE], [])).points
    assert point.expected == pytest.approx(50 * 5e-6 + 10_000 * 1e-6)


def test_the_curve_of_a_session_of_side_calls_only_denies_no_costs() -> None:
    """Its page shows them above."""
    assert "costs" not in money_chart(money_curve([], balances_of([], [BESIDE], [])))


def test_chart_stays_in_dollars_and_counts_the_unpriced_replies_that_it_leaves_out() -> None:
    turns = [{**each, "version": 1, "began": 1} for each in rows((100, 200))]
    beside = {**BESIDE, "model": "nobody-knows"}
    curve = money_curve(turns, balances_of(turns, [beside], []))
    assert (curve.unit, curve.points) == ("dollars", money_curve(turns, balances_of(turns, [], [])).points)
    assert "in dollars, without 1 unpriced reply" in money_chart(curve)


def test_without_any_known_price_it_counts_tokens_of_input() -> None:
    curve = curve_of(rows((100, 200), model="nobody-knows"))
    assert curve.unit == "tokens of input"
    assert [(point.actual, point.unmanaged) for point in curve.points] == [(100, 200)]


@pytest.mark.parametrize("amounts", [[], [(0, 0)], [(1, 1)], [(10**9, 2 * 10**9)] * 300])
def test_any_curve_is_drawn(amounts: list[tuple[int, int]]) -> None:
    drawn = ElementTree.fromstring(money_chart(curve_of(rows(*amounts))))
    lines = [each for each in drawn.iter() if (each.get("class") or "").startswith("line ")]
    assert len(lines) == (3 if amounts else 0)
