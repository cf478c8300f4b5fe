"""Charts of a session match its turns, and a payback is measured on all of them."""

from fractions import Fraction
from itertools import accumulate

import attrs

from mnemosyne_lab.evaluation.report_series import DrawnEpoch, list_epochs, payback
from mnemosyne_lab.evaluation.results import Epoch, TurnPoint
from tests.lab.evaluation.building import session


def points(pairs: list[tuple[int, int]]) -> list[TurnPoint]:
    """Turns with these costs (with the policy, without)."""
    return [
        TurnPoint(
            turn=turn, at=0.0, resident=(0, 0, 0, 0), fixed=0, unmanaged_tokens=0,
            billed=Fraction(billed), shadow=Fraction(shadow),
        )
        for turn, (billed, shadow) in enumerate(pairs, 1)
    ]  # fmt: skip


def paid(turn: int, pairs: list[tuple[int, int]]) -> int | None:
    saved = accumulate(Fraction(shadow - billed) for billed, shadow in pairs)
    return payback(turn, dict(enumerate(saved, 1)))


def test_epoch_has_paid_off_when_the_balance_is_back_at_its_start() -> None:
    assert paid(2, [(10, 10), (25, 10), (5, 10), (5, 10), (5, 10), (5, 10)]) == 3


def test_savings_before_an_epoch_must_be_recovered() -> None:
    assert paid(3, [(10, 10), (0, 10), (20, 10), (5, 10), (5, 10), (5, 10)]) == 2


def test_free_epoch_pays_off_at_once_and_a_late_one_never() -> None:
    assert paid(2, [(10, 10), (5, 10)]) == 0
    assert paid(2, [(10, 10), (30, 10), (5, 10)]) is None


def test_epoch_before_the_first_turn_starts_from_zero() -> None:
    assert paid(1, [(15, 10), (5, 10)]) == 1


def test_epoch_reports_its_reason_price_and_both_paybacks() -> None:
    told = attrs.evolve(
        session(), points=points([(10, 10), (25, 10), (0, 10), (0, 10)]),
        epochs=[Epoch(turn=2, reason="paid for", price=Fraction(15), expected_payback=4)],
    )  # fmt: skip
    assert list_epochs(told) == [DrawnEpoch(turn=2, reason="paid for", price=15, expected=4, paid=2)]
