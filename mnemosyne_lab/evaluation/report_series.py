"""What the charts of one session draw: its turns, fewer of them where there are many, and when each epoch paid back."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

import attrs

from mnemosyne_lab.evaluation.results import Epoch, SessionResult

LAYERS = ("fixed", "L0", "L1", "L2", "L3")
"""What a context is made of, from the bottom of the chart."""

DRAWN = 120
"""The most turns of a session that are drawn; of a longer one they are spread evenly."""


@attrs.frozen(kw_only=True)
class DrawnEpoch:
    """One rewrite: ``price`` in whole input tokens, ``expected`` and ``paid`` in how many turns it was to pay, and did;
    None where that is not known, or was not within the session.
    """

    turn: int
    reason: str
    price: int
    expected: int | None
    paid: int | None


@attrs.frozen(kw_only=True)
class Series:
    """The lines of a session, each with a value for each of ``turns``: tokens of its prompt by layer, and of what the
    client would have sent. ``billed`` and ``shadow`` are sums since its beginning, in whole input tokens.
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
    """The places of the turns that are drawn: all, or ``DRAWN`` of them with the first and the last."""
    if count <= DRAWN:
        return list(range(count))
    return [index * (count - 1) // (DRAWN - 1) for index in range(DRAWN)]


def payback(turn: int, saved: dict[int, Fraction]) -> int | None:
    """In how many turns the ledger was again where it stood before this turn; None if not within the session.

    The ledger, ``saved`` by turn, is what the session has saved so far. What earlier rewrites still save helps it back,
    so that this is when the session recovered, not what one epoch earned.
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
