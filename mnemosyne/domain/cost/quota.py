"""Attribute the use of a subscription's windows to the turns of its account.

Each reply reports how much of a window is used. Its turn gets the rise since the account's previous reply, and shares
it by tokens with the turns that ran at the same time. The rise includes use by other machines, which no header reports
separately. Only a rise above all earlier replies of a window counts, so the shares of its turns add up to its rise.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Generic, TypeVar

import attrs

Turn = TypeVar("Turn", bound=Hashable)

SAME_RESET = 300 * 1_000_000
"""Reports with resets at most this many µs apart are of one window: Codex computes the time for each reply."""


@attrs.frozen(kw_only=True)
class QuotaReport(Generic[Turn]):
    """The statement of one reply, to ``turn``: the share of a window that was ``used``, in millionths, and the time of
    its ``reset``. The request arrived when it ``began``, the headers at ``at``; the reply ended at ``ended``. Times are
    in µs, and ``tokens`` are those of the turn.
    """

    turn: Turn
    used: int
    reset: int | None
    began: int
    at: int
    ended: int
    tokens: int


def attribute(reports: Iterable[QuotaReport[Turn]]) -> dict[Turn, int]:
    """The share of each turn, in millionths, from all reports of one account about windows of one length. The use of a
    window before its first report belongs to no turn.
    """
    ordered = sorted(reports, key=attrgetter("at", "ended"))
    shares: dict[Turn, int] = {}
    tops: dict[int | None, int] = {}
    for report, running in zip(ordered, _list_running(ordered), strict=True):
        window = next((reset for reset in reversed(tops) if is_same_window(reset, report.reset)), report.reset)
        top = tops.setdefault(window, report.used)
        for turn, share in _split(max(0, report.used - top), running):
            shares[turn] = shares.get(turn, 0) + share
        tops[window] = max(top, report.used)
    return shares


def is_same_window(one: int | None, other: int | None) -> bool:
    """Whether two resets are of the same window."""
    return one == other or (one is not None and other is not None and abs(one - other) <= SAME_RESET)


def _list_running(ordered: Sequence[QuotaReport[Turn]]) -> Iterator[list[QuotaReport[Turn]]]:
    """For each report, itself and the turns that ran between its request and its headers."""
    waiting = sorted(ordered, key=attrgetter("began"), reverse=True)
    longest = max((each.at - each.began for each in ordered), default=0)
    held: list[QuotaReport[Turn]] = []
    for report in ordered:
        held = [each for each in held if each.ended > report.at - longest]
        while waiting and waiting[-1].began < report.at:
            held.append(waiting.pop())
        yield [report, *(each for each in held if each is not report and each.ended > report.began)]


def _split(amount: int, among: Sequence[QuotaReport[Turn]]) -> Iterator[tuple[Turn, int]]:
    """Split an amount by tokens, without a remainder; equally if there are none."""
    weights = [each.tokens for each in among] if any(each.tokens for each in among) else [1] * len(among)
    ends = [amount * end // sum(weights) for end in accumulate(weights)]
    for each, start, end in zip(among, [0, *ends], ends, strict=False):
        if end > start:
            yield each.turn, end - start
