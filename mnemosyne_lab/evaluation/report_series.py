"""The rewrites of a session as the report shows them, and when each has paid off."""

from fractions import Fraction
from itertools import accumulate

import attrs

from mnemosyne_lab.evaluation.results import SessionResult


@attrs.frozen(kw_only=True)
class DrawnEpoch:
    """A rewrite: ``price`` in whole input tokens, ``expected`` and ``paid`` in turns until it pays off; None if unknown
    or not within the session.
    """

    turn: int
    reason: str
    price: int
    expected: int | None
    paid: int | None


def payback(turn: int, saved: dict[int, Fraction]) -> int | None:
    """The number of turns until the savings are back at their level before this turn; None if not within the session.

    ``saved`` is the session's total savings by turn. Earlier rewrites contribute, so this is the session's recovery,
    not one epoch's yield.
    """
    before = next((value for at, value in reversed(saved.items()) if at < turn), Fraction(0))
    return next((at - turn for at, value in saved.items() if at >= turn and value >= before), None)


def list_epochs(session: SessionResult) -> list[DrawnEpoch]:
    """The rewrites of a session, with their recovery."""
    billed = accumulate(point.billed for point in session.points)
    shadow = accumulate(point.shadow for point in session.points)
    saved = {point.turn: without - with_ for point, with_, without in zip(session.points, billed, shadow, strict=True)}
    return [
        DrawnEpoch(
            turn=epoch.turn,
            reason=epoch.reason,
            price=round(epoch.price),
            expected=epoch.expected_payback,
            paid=payback(epoch.turn, saved),
        )
        for epoch in session.epochs
    ]
