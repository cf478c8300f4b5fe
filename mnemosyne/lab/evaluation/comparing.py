"""One policy against everything that a session could have been without it, under every tariff that was asked for.

That a policy saves on the whole says little to the one whose session ended early: so each session is also judged as if
it had ended after every one of its requests.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from mnemosyne.lab.evaluation.results import DEARER, PolicyComparison, SessionResult


def compare(
    tariff: str,
    policy: str,
    against: str,
    managed: Sequence[SessionResult],
    others: Sequence[SessionResult],
) -> PolicyComparison:
    """The same sessions, in the same order, under a policy and under another one."""
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
    )


def ends_of(managed: SessionResult, other: SessionResult) -> list[Fraction]:
    """What the session cost under one policy over the other, had it ended after each of its requests."""
    sums = zip(
        accumulate(point.billed for point in managed.points),
        accumulate(point.billed for point in other.points),
        strict=True,
    )
    return [billed / without for billed, without in sums if without]
