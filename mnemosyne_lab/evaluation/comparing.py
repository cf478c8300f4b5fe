"""Comparison of a policy with its alternatives under each tariff.

Each session is also judged as if it had ended after each of its requests, because an average hides early ends.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, groupby

from mnemosyne_lab.evaluation.results import DEARER, DearerStretch, PolicyComparison, SessionResult, list_ends

SMALLER = Fraction(98, 100)
"""A prompt below this share of another means that the client dropped some of its history."""


def compare(
    tariff: str,
    policy: str,
    against: str,
    managed: Sequence[SessionResult],
    others: Sequence[SessionResult],
) -> PolicyComparison:
    """Compare two policies on the same sessions, given in the same order."""
    pairs = list(zip(managed, others, strict=True))
    billed, whole = (sum((each.billed for each in results), Fraction(0)) for results in (managed, others))
    ratios = [(one.billed / other.billed, one.name) for one, other in pairs if other.billed]
    worst, name = max(ratios, key=lambda each: each[0], default=(None, ""))
    ends = [(end, one.name) for one, other in pairs for end in ends_of(one, other)]
    worst_end, end_name = max(ends, key=lambda each: each[0], default=(None, ""))
    return PolicyComparison(
        tariff=tariff,
        policy=policy,
        against=against,
        billed=billed,
        billed_against=whole,
        nanodollars=sum(each.nanodollars for each in managed),
        nanodollars_against=sum(each.nanodollars for each in others),
        ratio=billed / whole if whole else None,
        dearest=worst,
        dearest_session=name,
        ends=len(ends),
        ends_dearer=sum(end > DEARER for end, _ in ends),
        dearest_end=worst_end,
        dearest_end_session=end_name,
        dearer=[each for one, other in pairs for each in find_dearer(one, other)],
    )


def ends_of(managed: SessionResult, other: SessionResult) -> list[Fraction]:
    """For each request, the ratio of both bills if the session had ended after it."""
    return list_ends((point.billed for point in managed.points), (point.billed for point in other.points))


def find_dearer(managed: SessionResult, other: SessionResult) -> Iterator[DearerStretch]:
    """The stretches of requests after which a session cost more than 1.02 times as much. Each names the request that
    added most since the session was last no dearer.
    """
    more = [one.billed - without.billed for one, without in zip(managed.points, other.points, strict=True)]
    sums = list(accumulate(more))
    ends = ends_of(managed, other)
    if len(ends) < len(more):  # a free session has no ratio
        return
    for is_dearer, group in groupby(range(len(ends)), lambda number: ends[number] > DEARER):
        stretch = list(group)
        if is_dearer:
            first = stretch[0]
            since = max((number + 1 for number in range(first) if sums[number] <= 0), default=0)
            turn = max(range(since, first + 1), key=more.__getitem__)
            yield DearerStretch(
                session=managed.name,
                first=managed.points[first].turn,
                last=managed.points[stretch[-1]].turn,
                worst=max(ends[number] for number in stretch),
                turn=managed.points[turn].turn,
                more=more[turn],
                why=_explain(managed, other, turn),
            )


def _explain(managed: SessionResult, other: SessionResult, number: int) -> str:
    point = managed.points[number]
    for epoch in managed.epochs:
        if epoch.turn == point.turn:
            return f"rewritten: {epoch.reason}"
    if point.restored:
        return f"{point.restored:,} tokens that had left were needed"
    if other.points[number].prompt < SMALLER * point.prompt:
        return "the other client had dropped some of its history"
    return "its prompt was larger, or less of it was in the cache"


def payback(turn: int, saved: dict[int, Fraction]) -> int | None:
    """The number of turns until the savings are back at their level before this turn; None if not within the session.

    ``saved`` is the session's total savings by turn. Earlier rewrites contribute, so this is the session's recovery,
    not one epoch's yield.
    """
    before = next((value for at, value in reversed(saved.items()) if at < turn), Fraction(0))
    return next((at - turn for at, value in saved.items() if at >= turn and value >= before), None)


def list_paybacks(session: SessionResult) -> list[int | None]:
    """The turns until each rewrite of a session had paid off."""
    saved = accumulate(point.shadow - point.billed for point in session.points)
    by_turn = {point.turn: amount for point, amount in zip(session.points, saved, strict=True)}
    return [payback(epoch.turn, by_turn) for epoch in session.epochs]
