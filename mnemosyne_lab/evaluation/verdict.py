"""The result of an evaluation in sentences: its verdict, and what a limited window does to a client that does nothing,
to one that compacts, and with memory.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import median_low

from mnemosyne.figures import dollars_text, plural
from mnemosyne_lab.evaluation.policies import POLICIES
from mnemosyne_lab.evaluation.policy import Policy
from mnemosyne_lab.evaluation.results import DEARER, Evaluation, PolicyResult, SessionResult

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


# A limited window

Driven = Mapping[tuple[str, str], SessionResult]
"""One session by tariff and policy."""


def split_too_small(
    results: Sequence[Driven], window: int | None, driven: tuple[str, str]
) -> tuple[list[SessionResult], list[Driven]]:
    """Split off the sessions whose system prompt and tools exceed the window, with their results for ``driven``."""
    small = [found for found in results if window is not None and found[driven].points[0].fixed >= window]
    return [found[driven] for found in small], [found for found in results if found not in small]


def list_refused(session: SessionResult, window: int) -> list[int]:
    """The indexes of the requests that exceed the window."""
    return [number for number, point in enumerate(session.points) if point.prompt > window]


def render_too_small(sessions: Sequence[SessionResult], window: int) -> list[str]:
    """A sentence about the sessions that a window cannot hold at all."""
    if not sessions:
        return []
    sizes = [each.points[0].fixed for each in sessions]
    size = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    return [
        f"System prompt and tools of {plural(len(sessions), 'session')} take {size} tokens, so no request fits into"
        f" a window of {window:,}, with us or without, and nothing was compared. Take a larger window, a client that"
        " sends less, or say with --fixed-tokens what such a client would send."
    ]


def render_window(
    window: int, idle: Sequence[SessionResult], native: Sequence[SessionResult], ours: PolicyResult | None
) -> list[str]:
    """Sentences about a client that does nothing when the window is full, one that compacts, and one with memory."""
    if not idle:
        return []
    refused = {number: found for number, each in enumerate(idle) if (found := list_refused(each, window))}
    requests = sum(len(each.points) for each in idle)
    if not refused:
        return [f"All {requests:,} requests of {plural(len(idle), 'session')} fit into a window of {window:,} tokens."]
    lost = sum(len(idle[number].points) - found[0] for number, found in refused.items())
    first = median_low(1 + found[0] for found in refused.values())
    said = [
        f"In a window of {window:,} tokens a client that does nothing when it is full is refused in"
        f" {len(refused):,} of {plural(len(idle), 'session')}, at request {first} in the median;"
        f" {lost:,} of {plural(requests, 'request')} {'is' if lost == 1 else 'are'} never answered.",
        f"One that compacts by itself does so {_times(sum(each.compactions for each in native))};"
        f" {_render_missing(native)} had left with that; {_render_refused(native, window)}.",
    ]
    if ours is not None:
        rewrites = plural(sum(len(each.epochs) for each in ours.sessions), "rewrite")
        missing, refusals = _render_missing(ours.sessions), _render_refused(ours.sessions, window)
        said.append(f"With {ours.name}: {rewrites}; {missing} was no longer in the prompt; {refusals}.")
    return said


def _render_missing(sessions: Sequence[SessionResult]) -> str:
    demands = sum(each.demands for each in sessions)
    missing = demands - sum(each.resident for each in sessions)
    return f"{100 * missing / max(1, demands):.1f} % of what was needed later"


def _render_refused(sessions: Sequence[SessionResult], window: int) -> str:
    count = sum(len(list_refused(each, window)) for each in sessions)
    return f"{plural(count, 'request')} would not fit all the same" if count else "every request fits"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"
