"""Policies: planners that decide when a session's context is rewritten, and to what.

The server and ``mnemosyne evaluate`` run the same planners behind the same ``guard``: no warm rewrite may make a
session dearer than ``planning.RULE`` allows, no plan may change what has to stay, and a window that overflows is
compacted by the built-in rule if the policy does not do it. A planner from the operator's own module is called outside
the domain, with a time limit (``actors/actor_services.py``).
"""

from collections.abc import Callable, Mapping, Sequence

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, keeps_prompt
from mnemosyne.domain.objects.pressure import PERCENT, Zone, zone
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.planning import (
    RULE,
    Candidates,
    NoRewrite,
    Plan,
    Planner,
    Situation,
    find_least_gain,
    find_payback,
    find_refusal,
    is_last_chance,
    plan_epoch,
    planner,
    price_of_rewrite,
    size_after,
    sum_freed,
)

ECONOMIC, ZONES = "economic", "zones"

LONGEST_REASON = 200
"""Characters of a reason that a policy gives."""


class PolicyFailed(Exception):
    """A policy gave no usable plan; the message says why. It can quote the session, ``brief`` does not."""

    def __init__(self, brief: str, quote: str = "") -> None:
        super().__init__(f"{brief}: {quote}"[:LONGEST_REASON] if quote else brief)
        self.brief = brief


@attrs.frozen
class PlugIn:
    """A planner of the operator's own: ``name`` is its MODULE:NAME, ``version`` the one that it states, if any."""

    name: str
    version: str
    planner: Planner

    @property
    def label(self) -> str:
        """Its name and version, for people."""
        return label_of(self.name, self.version)


def label_of(name: str, version: str) -> str:
    """A policy's name and version, for people."""
    return f"{name} {version}".rstrip()


# For planners

Chosen = Callable[[Situation, Candidate], Fidelity]
"""The fidelity at which a rewrite would show an object."""


def plan_of(situation: Situation, candidates: Candidates, chosen: Chosen, reason: str) -> Plan | None:
    """The epoch with every object at its chosen fidelity; None if nothing changes."""
    fidelities = {}
    for each in candidates():
        fidelity = each.fidelity if each.kept else chosen(situation, each)
        if fidelity is not each.fidelity:
            fidelities[each.key] = fidelity
    return Plan(fidelities=fidelities, reason=reason) if fidelities else None


def is_conversation(candidate: Candidate) -> bool:
    """Whether it is dialogue, which is small and carries the thread."""
    return KINDS[candidate.kind].is_conversation or keeps_prompt(candidate.tags)


def lower(candidate: Candidate, fidelity: Fidelity) -> Fidelity:
    """The fidelity, if the object gets smaller by it; otherwise its current one."""
    tokens = candidate.at(fidelity)
    here = candidate.at(candidate.fidelity)
    if tokens is None or here is None or tokens >= here:
        return candidate.fidelity
    return max(fidelity, candidate.fidelity)


# The zones of pressure

RECENT = 3
"""Turns since its last use in which an object is not degraded."""

_ONE_RUNG = {
    Fidelity.FULL: Fidelity.DETAILED,
    Fidelity.DETAILED: Fidelity.COMPACT,
    Fidelity.COMPACT: Fidelity.STUB,
    Fidelity.STUB: Fidelity.EVICTED,
}

_TURNS_KEPT = 2
"""Turns of the user that an emergency leaves."""


def zones(situation: Situation, candidates: Candidates) -> Plan | None:
    """Degrade by how full the window is. From 50 % on, the oldest objects at L0 go to L1; from 70 % on, L0 to L1, L1 to
    L2 and the oldest at L2 to L3; from 85 % on, also L3 to L4, each until the zone is left. From 95 % on, everything
    but the last two turns of the user goes.
    """
    usable = max(0, situation.window - situation.fixed)
    level = zone(situation.prompt - situation.fixed, usable)
    if level is Zone.NORMAL:
        return None
    objects = [each for each in candidates() if not each.kept]
    reason = f"the window is at {100 * (situation.prompt - situation.fixed) // max(1, usable)} %"
    fidelities = (
        _evict_before(_find_start(situation, candidates()), objects)
        if level is Zone.EMERGENCY
        else _step_down(situation, objects, level, usable)
    )
    return Plan(fidelities=fidelities, reason=reason) if fidelities else None


def _step_down(situation: Situation, objects: Sequence[Candidate], level: Zone, usable: int) -> dict[str, Fidelity]:
    """One rung for the objects that this zone degrades, the longest unused first, until the zone is left."""
    deepest = {Zone.CAUTION: Fidelity.FULL, Zone.WARNING: Fidelity.COMPACT}.get(level, Fidelity.STUB)
    excess = situation.prompt - situation.fixed - PERCENT[level] * usable // 100
    fidelities: dict[str, Fidelity] = {}
    for each in sorted(objects, key=lambda each: (each.last_use, each.born)):
        if excess < 0 or situation.turn - each.last_use < RECENT:
            break
        after = _next_rung(each) if each.fidelity <= deepest else each.fidelity
        if after is not each.fidelity:
            fidelities[each.key] = after
            excess -= (each.at(each.fidelity) or 0) - (each.at(after) or 0)
    return fidelities


def _next_rung(each: Candidate) -> Fidelity:
    """The next lower rendition that the object has; its own fidelity if there is none that is smaller."""
    rung = each.fidelity
    while rung in _ONE_RUNG:
        rung = _ONE_RUNG[rung]
        if lower(each, rung) is rung:
            return rung
    return each.fidelity


def _find_start(situation: Situation, objects: Sequence[Candidate]) -> int:
    """The turn in which the user typed for the last time but one."""
    typed = sorted({situation.exchange, *(each.born for each in objects if keeps_prompt(each.tags))})
    return typed[-_TURNS_KEPT:][0]


def _evict_before(turn: int, objects: Sequence[Candidate]) -> dict[str, Fidelity]:
    gone = [each for each in objects if each.born < turn and lower(each, Fidelity.EVICTED) is not each.fidelity]
    return {each.key: Fidelity.EVICTED for each in gone}


# The guard

BUILT_IN: Mapping[str, Planner] = {ECONOMIC: planner, ZONES: zones}
"""The policies that every server has, by name. ``economic`` is its own guard."""


def plan(policy: str, situation: Situation, candidates: Candidates) -> Plan | NoRewrite:
    """The epoch that a built-in policy plans before a request, if the guard allows it."""
    if policy == ECONOMIC:
        return plan_epoch(situation, candidates)
    objects = candidates()
    try:
        return guard(situation, objects, BUILT_IN[policy](situation, lambda: objects))
    except PolicyFailed as failure:
        return plan_without(situation, objects, str(failure))


def guard(situation: Situation, objects: Sequence[Candidate], planned: Plan | None) -> Plan | NoRewrite:
    """The plan of a policy with its price, if it may be followed. If it plans nothing that is allowed, the built-in
    rule plans for an overflowing window and for a client that would send less. Raises PolicyFailed for an impossible
    plan, and for one that leaves too much.
    """
    fidelities = {} if planned is None else _check(objects, planned)
    if planned is None or not fidelities:
        return plan_without(situation, objects, "the policy plans nothing")
    if situation.idle is None:
        return NoRewrite("nothing was sent yet")
    left = size_after(situation, objects, fidelities)
    if left > situation.limit and _overflows(situation):
        better = plan_epoch(situation, lambda: objects)
        if isinstance(better, Plan) and size_after(situation, objects, better.fidelities) < left:
            raise PolicyFailed(f"its plan leaves about {left} tokens in a window of {situation.limit}")
    reason = planned.reason.strip()[:LONGEST_REASON] or "the policy plans it"
    if situation.cold:
        return Plan(fidelities=fidelities, reason=reason)
    freed = sum_freed(objects, fidelities)
    price = price_of_rewrite(situation, objects, fidelities)
    if situation.prompt - freed <= situation.limit < situation.prompt:
        return Plan(fidelities=fidelities, reason=reason, price=price)
    saved = freed * situation.read
    if not saved and not (_overflows(situation) and freed >= find_least_gain(situation)):
        return NoRewrite("what is read again costs nothing, so a rewrite saves nothing before the window is full")
    refused = find_refusal(situation, objects, fidelities)
    if refused is not None:
        return plan_without(situation, objects, refused.reason)
    return Plan(fidelities=fidelities, reason=reason, price=price, payback=find_payback(price, saved))


def plan_without(situation: Situation, objects: Sequence[Candidate], why: str) -> Plan | NoRewrite:
    """The plan for a request whose policy gave none: the built-in rule's if one is needed now."""
    is_urgent = _overflows(situation) or is_last_chance(situation)
    return plan_epoch(situation, lambda: objects) if is_urgent else NoRewrite(why)


def _overflows(situation: Situation) -> bool:
    return situation.prompt > RULE.overflow * (situation.window if situation.cold else situation.limit)


def _check(objects: Sequence[Candidate], planned: Plan) -> dict[str, Fidelity]:
    """The changes of a plan. Raises PolicyFailed if one of them is impossible."""
    there = {each.key: each for each in objects}
    fidelities: dict[str, Fidelity] = {}
    for key, fidelity in planned.fidelities.items():
        each = there.get(key)
        if each is None:
            raise PolicyFailed("it plans for an object that is not in the window", repr(key[:LONGEST_REASON]))
        if fidelity is each.fidelity:
            continue
        if each.kept:
            raise PolicyFailed(f"it plans {key} at {fidelity.label}, but {key} must stay as it is")
        if fidelity < each.fidelity:
            raise PolicyFailed(f"it plans {key} at {fidelity.label}, above {each.fidelity.label}: a plan only degrades")
        if each.at(fidelity) is None:
            raise PolicyFailed(f"it plans {key} at {fidelity.label}, and there is no such form of it")
        if lower(each, fidelity) is fidelity:
            fidelities[key] = fidelity
    return fidelities
