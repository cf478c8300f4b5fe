"""The result of an evaluation in one sentence."""

from collections.abc import Sequence
from fractions import Fraction

from mnemosyne.figures import dollars_text, plural
from mnemosyne_lab.evaluation.policies import POLICIES
from mnemosyne_lab.evaluation.policy import Policy
from mnemosyne_lab.evaluation.results import DEARER, Evaluation, PolicyComparison, PolicyResult, SessionResult

OURS = "mnemosyne"


def find_judged(evaluation: Evaluation) -> PolicyResult | None:
    """The judged policy: the user's own, else ours, else the cheapest that evicts and does not know the future."""
    candidates = [each for each in evaluation.policies if not each.bound]
    own = [each for each in candidates if each.name not in {policy.name for policy in POLICIES}]
    ours = [each for each in candidates if each.name == OURS]
    others = [each for each in candidates if any(one.evictions for one in each.sessions)]
    return next(iter([*own, *ours, *sorted(others, key=_sum_billed)]), None)


def choose_policy_to_judge(policies: Sequence[Policy]) -> Policy | None:
    """The policy whose contexts a helper model judges: the user's own, else ours, else the first that evicts and does
    not know the future.
    """
    candidates = [each for each in policies if each.planner is not None and each.for_trace is None]
    return min(candidates, key=lambda each: (each in POLICIES, each.name != OURS), default=None)


def _sum_billed(policy: PolicyResult) -> Fraction:
    return sum((each.billed for each in policy.sessions), Fraction(0))


def verdict(evaluation: Evaluation) -> str | None:
    """The sentence; None if no policy manages anything."""
    policy = find_judged(evaluation)
    if policy is None or not policy.sessions:
        return None
    sessions = policy.sessions
    ours = sum(each.nanodollars for each in sessions)
    unmanaged = sum(each.nanodollars_unmanaged for each in sessions)
    which = "This session" if len(sessions) == 1 else f"These {len(sessions)} sessions"
    who = f" of {plural(evaluation.developers, 'developer')}" if evaluation.developers else ""
    name = "" if policy.name == OURS else f" under {policy.name}"
    bill = _render_bill(ours, unmanaged)
    return f"{which}{who} would have cost {bill}{name}; {_dearer(sessions)}; {_render_misses(sessions)}."


def _render_bill(bill: int, unmanaged: int) -> str:
    amount, without = dollars_text(bill), dollars_text(unmanaged)
    return f"{amount} either way" if amount == without else f"{amount} instead of {without}"


def closeness(evaluation: Evaluation) -> str | None:
    """How far the simulation without Mnemosyne is from the recorded cost; None if no cost is on record."""
    sessions = [each for each in evaluation.policies[0].sessions if each.scale] if evaluation.policies else []
    recorded = sum(each.nanodollars_unmanaged for each in sessions)
    if not recorded:
        return None
    off = 100 * float(sum(each.nanodollars_unmanaged / (each.scale or 1) for each in sessions) / recorded - 1)
    return (
        f"The cost without Mnemosyne is the recorded one, as in `mnemosyne savings`; the simulation comes to"
        f" {abs(off):.1f} % {'more' if off >= 0 else 'less'}, and all dollars are scaled by that."
    )


WITHOUT = {
    "unmanaged": "what really happened",
    "uncompacted": "never compacting",
    "native": "the client of today",
}
"""Names of the alternatives in a tariff's sentence."""


def verdicts(comparisons: Sequence[PolicyComparison]) -> dict[str, str]:
    """A sentence for each tariff, from the comparisons of one policy."""
    return {
        tariff: _sentence([each for each in comparisons if each.tariff == tariff])
        for tariff in dict.fromkeys(each.tariff for each in comparisons)
    }


def _sentence(comparisons: Sequence[PolicyComparison]) -> str:
    told = [
        f"{_render_change(each.ratio)} {WITHOUT[each.against]}"
        for each in comparisons
        if each.ratio is not None and each.against in WITHOUT
    ]
    worst = max(comparisons, key=lambda each: Fraction(each.ends_dearer, each.ends or 1))
    ends = "no end of a session more than 2 % dearer"
    if worst.ends_dearer and worst.dearest_end is not None:
        share, most = 100 * worst.ends_dearer / worst.ends, max(each.dearest_end or 0 for each in comparisons)
        ends = f"{share:.2g} % of the ends more than 2 % dearer, up to {100 * float(most - 1):.0f} %"
    return f"{', '.join(told)}; {ends}."


def _render_change(ratio: Fraction) -> str:
    percent = round(100 * float(ratio - 1), 1)
    return f"{abs(percent)} % {'more' if percent > 0 else 'less'} than" if percent else "as much as"


def _dearer(sessions: Sequence[SessionResult]) -> str:
    worst, count = max(each.ratio for each in sessions), sum(each.ratio > DEARER for each in sessions)
    if worst <= 1:
        return "none dearer"
    if not count:
        return "none more than 2 % dearer"
    return f"{count} more than 2 % dearer, the worst by {100 * float(worst - 1):.0f} %"


def _render_misses(sessions: Sequence[SessionResult]) -> str:
    evictions, again, silent = (
        sum(getattr(each, name) for each in sessions) for name in ("evictions", "exact_faults", "silent")
    )
    if not evictions:
        return "nothing was evicted"
    lost = f", {silent} times without a hint where it is" if silent else ""
    return f"{100 * again / evictions:.2f} % of {plural(evictions, 'evicted item')} were needed again{lost}"
