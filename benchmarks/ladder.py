"""Where the steps between all and nothing earn their place: the planner's own plans, with one step swapped for another.

What a step saves is in the bill of recorded sessions; what it tells is in ``short_forms``. Demands are what the
recorded replies took from earlier context. Without the recordings there are no rows.
"""

from collections.abc import Callable, Mapping, Sequence

import attrs

from benchmarks import planning
from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.window.keeping import Candidate
from mnemosyne.domain.window.planning import Candidates, Plan, Planner, Situation, planner
from mnemosyne_lab.evaluation.policy import Policy

Swap = Callable[[Candidate, Fidelity], Fidelity]
"""The fidelity that is planned for an object, turned into the one to try."""


def swapped(swap: Swap) -> Planner:
    """The planner, each step of whose plans is swapped; a step that would then free nothing is left out."""

    def plan(situation: Situation, candidates: Candidates) -> Plan | None:
        objects = {each.key: each for each in candidates()}
        planned = planner(situation, candidates)
        if planned is None:
            return None
        tried = {key: swap(objects[key], after) for key, after in planned.fidelities.items()}
        found = {key: after for key, after in tried.items() if _frees(objects[key], after)}
        return attrs.evolve(planned, fidelities=found) if found else None

    return plan


def _frees(each: Candidate, after: Fidelity) -> bool:
    here, there = each.at(each.fidelity), each.at(after)
    return after > each.fidelity and here is not None and there is not None and there < here


def fetched_at(fidelity: Fidelity) -> Swap:
    """Shows what tools brought at a fidelity where the planner evicts it; as it plans where there is no such form."""
    return lambda each, after: (
        fidelity if after is Fidelity.EVICTED and KINDS[each.kind].is_fetched and _frees(each, fidelity) else after
    )


def said_at(fidelity: Fidelity) -> Swap:
    """Shows what was said at a fidelity where the planner shows it compact."""
    return lambda each, after: fidelity if after is Fidelity.COMPACT and _frees(each, fidelity) else after


SWAPS: Mapping[str, Swap] = {
    "as planned": lambda _, after: after,
    "fetched at L3 for L4": fetched_at(Fidelity.STUB),
    "fetched at L2 for L4": fetched_at(Fidelity.COMPACT),
    "fetched at L1 for L4": fetched_at(Fidelity.DETAILED),
    "said at L1 for L2": said_at(Fidelity.DETAILED),
    "said at L3 for L2": said_at(Fidelity.STUB),
    "said at L4 for L2": said_at(Fidelity.EVICTED),
}


def _swaps(_: Sequence[Server], quick: bool) -> list[Row]:
    """The bill and what was missing, for each swap."""
    rows: list[Row] = []
    for variant, swap in SWAPS.items():
        policy = Policy(name="swapped", about="", planner=swapped(swap))
        results = [each.under(policy) for each in planning.long_sessions(quick)]
        whole, demands = sum(each.billed_unmanaged for each in results), sum(each.demands for each in results)
        if results:
            missing = demands - sum(each.resident for each in results)
            rows += [
                single("billed", variant, "%", float(100 * sum(each.billed for each in results) / whole)),
                single("demands not resident", variant, "%", 100 * missing / max(1, demands)),
                single("exact faults", variant, "", sum(each.exact_faults for each in results)),
            ]
    return rows


GROUP = Group("ladder", (), (Part("swaps", _swaps),), by_default=False)
