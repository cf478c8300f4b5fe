"""What the charts of one session draw: its turns, fewer of them where there are many, and when each epoch paid back."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

from mnemosyne.lab.evaluation.report_figures import printable
from mnemosyne.lab.evaluation.report_json import round_amount
from mnemosyne.lab.evaluation.results import Epoch, Evaluation, SessionResult

LAYERS = ("fixed", "L0", "L1", "L2", "L3")
"""What a context is made of, from the bottom of the chart."""

DRAWN = 120
"""The most turns of a session that are drawn; of a longer one they are spread evenly."""

Series = Mapping[str, Any]
"""One session under one policy: a list of numbers for each line, by name, and ``epochs``."""


class Pool:
    """Lists that many sessions share, each kept once: the unmanaged lines are the same under every policy."""

    def __init__(self) -> None:
        self.lists: list[tuple[int, ...]] = []
        self._places: dict[tuple[int, ...], int] = {}

    def place(self, values: Sequence[int]) -> int:
        """Where in ``lists`` these values are."""
        key = tuple(values)
        if key not in self._places:
            self._places[key] = len(self.lists)
            self.lists.append(key)
        return self._places[key]


def page_data(evaluation: Evaluation) -> dict[str, Any]:
    """All that the page's script needs: ``sessions[policy][session]``, whose lines are places in ``lists``."""
    pool = Pool()
    sessions = [[_pool(session_series(session), pool) for session in policy.sessions] for policy in evaluation.policies]
    return {
        "policies": [printable(policy.name) for policy in evaluation.policies],
        "sessions": sessions,
        "lists": pool.lists,
    }


def _pool(series: Series, pool: Pool) -> dict[str, Any]:
    return {name: pool.place(value) if name in _LINES else value for name, value in series.items()}


_LINES = ("turn", *LAYERS, "unmanaged", "billed", "shadow")


def session_series(session: SessionResult) -> Series:
    """The lines of a session. ``billed`` and ``shadow`` are sums since its beginning, in whole input tokens.

    Each of ``epochs`` is ``[turn, reason, price, expected payback, payback]``, paybacks in turns or None.
    """
    points = session.points
    billed = list(accumulate(point.billed for point in points))
    shadow = list(accumulate(point.shadow for point in points))
    saved = {point.turn: without - with_ for point, with_, without in zip(points, billed, shadow, strict=True)}
    kept = choose_turns(len(points))
    return {
        "name": printable(session.name),
        "turn": [points[index].turn for index in kept],
        "fixed": [points[index].fixed for index in kept],
        **{f"L{level}": [points[index].resident[level] for index in kept] for level in range(4)},
        "unmanaged": [points[index].unmanaged_tokens for index in kept],
        "billed": [round(billed[index]) for index in kept],
        "shadow": [round(shadow[index]) for index in kept],
        "epochs": [_epoch(epoch, saved) for epoch in session.epochs],
        "ratio": round_amount(session.ratio, 4),
        "turns": session.turns,
    }


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


def _epoch(epoch: Epoch, saved: dict[int, Fraction]) -> list[Any]:
    paid = payback(epoch.turn, saved)
    return [epoch.turn, printable(epoch.reason), round(epoch.price), epoch.expected_payback, paid]
