"""The data of one session's charts: its turns, thinned out in long sessions, and the payback of each epoch."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

import attrs

from mnemosyne_lab.evaluation.results import Epoch, SessionResult

LAYERS = ("fixed", "L0", "L1", "L2", "L3")
"""The layers of a context, from the bottom of the chart."""

DRAWN = 120
"""The most turns drawn; longer sessions are sampled evenly."""


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


@attrs.frozen(kw_only=True)
class Series:
    """The lines of a session, with a value for each of ``turns``: tokens of the prompt by layer and of the client's own
    request. ``billed`` and ``shadow`` are cumulative, in whole input tokens.
    """

    turns: Sequence[int]
    layers: Mapping[str, Sequence[int]]
    unmanaged: Sequence[int]
    billed: Sequence[int]
    shadow: Sequence[int]
    epochs: Sequence[DrawnEpoch]


def session_series(session: SessionResult) -> Series:
    """The lines of a session."""
    points = session.points
    billed = list(accumulate(point.billed for point in points))
    shadow = list(accumulate(point.shadow for point in points))
    saved = {point.turn: without - with_ for point, with_, without in zip(points, billed, shadow, strict=True)}
    kept = choose_turns(len(points))
    history = {f"L{level}": [points[index].resident[level] for index in kept] for level in range(4)}
    return Series(
        turns=[points[index].turn for index in kept],
        layers={"fixed": [points[index].fixed for index in kept], **history},
        unmanaged=[points[index].unmanaged_tokens for index in kept],
        billed=[round(billed[index]) for index in kept],
        shadow=[round(shadow[index]) for index in kept],
        epochs=[_draw(epoch, saved) for epoch in session.epochs],
    )


def choose_turns(count: int) -> list[int]:
    """The indexes of the turns that are drawn: all, or ``DRAWN`` of them including first and last."""
    if count <= DRAWN:
        return list(range(count))
    return [index * (count - 1) // (DRAWN - 1) for index in range(DRAWN)]


def payback(turn: int, saved: dict[int, Fraction]) -> int | None:
    """The number of turns until the savings are back at their level before this turn; None if not within the session.

    ``saved`` is the session's total savings by turn. Earlier rewrites contribute, so this is the session's recovery,
    not one epoch's yield.
    """
    before = next((value for at, value in reversed(saved.items()) if at < turn), Fraction(0))
    return next((at - turn for at, value in saved.items() if at >= turn and value >= before), None)


def _draw(epoch: Epoch, saved: dict[int, Fraction]) -> DrawnEpoch:
    return DrawnEpoch(
        turn=epoch.turn,
        reason=epoch.reason,
        price=round(epoch.price),
        expected=epoch.expected_payback,
        paid=payback(epoch.turn, saved),
    )
