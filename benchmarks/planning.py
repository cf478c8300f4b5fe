"""What the planner is worth on recorded sessions: each ingredient left out, each number moved, one session left out,
and what a session has cost wherever it ends.

The sessions are no part of the repository; without them there are no rows.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from typing import Any

import attrs

from benchmarks.harness import Group, Part, Row, Server, single, spread
from mnemosyne.domain.fidelity import Fidelity
from mnemosyne.domain.planning import RULE, Candidates, Plan, Planner, Rule, Situation, planner
from mnemosyne.domain.prompt import Ttl
from mnemosyne.evaluation.demand import Demand, demands
from mnemosyne.evaluation.driver import simulate
from mnemosyne.evaluation.policies import UNMANAGED, hour_after_a_break
from mnemosyne.evaluation.policy import Policy, Settings, same_ttl
from mnemosyne.evaluation.reading import read, trace_of
from mnemosyne.evaluation.results import SessionResult
from mnemosyne.evaluation.running import own_model
from mnemosyne.evaluation.sizing import Sized
from mnemosyne.evaluation.trace import Trace
from tests.domain.recorded import DATA

SESSIONS = DATA / "sessions"
TUNED_ON = "claude_code.jsonl"
LONG = 30
"""Requests; shorter sessions are judged by the dearest of them alone."""

BILLED_GOAL, BILLED_HOUR_GOAL, FAULTS_GOAL, DEAREST_GOAL = 69.0, 66.0, 0.5, 102.0
"""Percent: of the bill of reality (for five minutes, and with the choice of markers), of what was evicted, and of any
session's bill.
"""

NEVER = 10**9
JITTERS, SEED = 12, 5
FEWEST = 2
"""Sessions in a quick run."""


@attrs.frozen
class Judged:
    """A trace measured under settings, what its replies took from earlier context, and what really happened."""

    sized: Sized
    wanted: Sequence[Demand]
    reality: SessionResult

    def under(self, policy: Policy) -> SessionResult:
        return simulate(self.sized, self.wanted, policy, self.reality)


@cache
def _traces(file: str) -> Sequence[tuple[Trace, Sequence[Demand], str]]:
    path = SESSIONS / file
    found = [each for each in read([path]) if not isinstance(each, str)] if path.exists() else []
    return [(trace, demands(trace), own_model(each.model)) for each in found for trace in [trace_of(each)]]


@cache
def _judged(
    file: str, least: int, most: int, ttl: Ttl = "5m", model: str | None = None, fixed: int = 41_000
) -> list[Judged]:
    """The sessions of a file with so many requests, each under its own model's prices unless there is a ``model``."""
    found = []
    for trace, wanted, own in _traces(file):
        if least <= len(trace.requests) <= most:
            sized = Sized(trace, Settings(ttl=ttl, model=model or own, fixed=fixed))
            found.append(Judged(sized, wanted, simulate(sized, wanted, UNMANAGED)))
    return found


def _long(quick: bool, **settings: Any) -> list[Judged]:
    """The sessions that the rule was chosen on."""
    return _judged(TUNED_ON, LONG, NEVER, **settings)[: FEWEST if quick else None]


def _policy(rule: Rule = RULE, *, hour: bool = False, by: Planner | None = None) -> Policy:
    head = hour_after_a_break if hour else same_ttl
    return Policy(name="planned", about="", planner=by or partial(planner, rule=rule), head=head)


# What is said of results


def _billed(results: Sequence[SessionResult]) -> float:
    """The bill in percent of reality's."""
    whole = sum(each.billed_unmanaged for each in results)
    return float(100 * sum(each.billed for each in results) / whole) if whole else 0.0


def _faults(results: Sequence[SessionResult]) -> float:
    """Exact texts that were not there, in percent of what was evicted."""
    return 100 * sum(each.exact_faults for each in results) / max(1, sum(each.evictions for each in results))


def _ratios(results: Sequence[SessionResult]) -> list[float]:
    return [float(100 * each.billed / each.billed_unmanaged) for each in results if each.billed_unmanaged]


def _rows(variant: str, results: Sequence[SessionResult], goal: float | None = None) -> list[Row]:
    if not results:
        return []
    asked, there = sum(each.demands for each in results), sum(each.resident for each in results)
    return [
        single("billed", variant, "%", _billed(results), goal),
        single("exact faults ÷ evictions", variant, "%", _faults(results)),
        single("demands not resident", variant, "%", 100 * (asked - there) / max(1, asked), 5.0),
        single("lost silently", variant, "", sum(each.silent for each in results), 0),
        single("dearest session", variant, "%", max(_ratios(results)), DEAREST_GOAL),
    ]


# Settings


def _settings(_: Sequence[Server], quick: bool) -> list[Row]:
    """The rule as it is, at other prices, lives of the cache, and sizes of what is fixed."""
    variants: Mapping[str, tuple[dict[str, Any], bool, float | None]] = {
        "5 minutes, read 0.1": ({}, False, BILLED_GOAL),
        "head held for an hour": ({}, True, BILLED_HOUR_GOAL),
        "1 hour": ({"ttl": "1h"}, False, 85.0),
        "read 0.05": ({"model": "claude-opus-5-5"}, False, 74.0),
        "read 0.05, 1 hour": ({"model": "claude-opus-5-5", "ttl": "1h"}, False, None),
        "read 0.025": ({"model": "claude-fable-5-2"}, False, None),
        "read 0.025, 1 hour": ({"model": "claude-fable-5-2", "ttl": "1h"}, False, None),
        "10k fixed": ({"fixed": 10_000}, False, None),
        "26k fixed": ({"fixed": 26_000}, False, None),
    }
    rows = []
    for variant, (settings, hour, goal) in variants.items():
        rows += _rows(variant, [each.under(_policy(hour=hour)) for each in _long(quick, **settings)], goal)
    return rows


# Ablation


def _without(condition: Callable[[Situation], bool]) -> Planner:
    """Asks the planner only where the condition does not hold."""

    def plan(situation: Situation, candidates: Candidates) -> Plan | None:
        return None if condition(situation) else planner(situation, candidates)

    return plan


def _stubs(situation: Situation, candidates: Candidates) -> Plan | None:
    """Stubs instead of evictions."""
    objects = {each.key: each for each in candidates()}
    plan = planner(situation, candidates)
    if plan is None:
        return None
    fidelities = {
        key: min(after, Fidelity.STUB)
        for key, after in plan.fidelities.items()
        if objects[key].fidelity < Fidelity.STUB and objects[key].tokens[3] < objects[key].tokens[0]
    }
    return attrs.evolve(plan, fidelities=fidelities) if fidelities else None


def _by_birth(situation: Situation, candidates: Candidates) -> Plan | None:
    """Age counts from birth and not from the last use."""
    return planner(situation, lambda: [attrs.evolve(each, last_use=each.born) for each in candidates()])


def _ablation(_: Sequence[Server], quick: bool) -> list[Row]:
    """What the rule is without one of its ingredients, where it would cost more or miss more."""
    left_out: Mapping[str, Policy] = {
        "the rule": _policy(),
        "no cold epochs": _policy(by=_without(lambda now: now.cold)),
        "only cold epochs": _policy(by=_without(lambda now: not now.cold)),
        "only at new exchanges": _policy(by=_without(lambda now: now.exchange != now.turn)),
        "stubs, nothing evicted": _policy(by=_stubs),
        "age from birth": _policy(by=_by_birth),
        "one age for all kinds": _policy(attrs.evolve(RULE, written=RULE.read, stale=RULE.read, replaced=NEVER)),
        "stale like the rest": _policy(attrs.evolve(RULE, stale=RULE.read)),
        "size does not matter": _policy(attrs.evolve(RULE, small=0)),
        "edits whole": _policy(attrs.evolve(RULE, replaced=NEVER)),
        "what was said stays": _policy(attrs.evolve(RULE, said=NEVER)),
        "no protection after a fault": _policy(attrs.evolve(RULE, missed=-1)),
        "no rent-or-buy": _policy(attrs.evolve(RULE, regret=Fraction(NEVER))),
        "rent-or-buy at 1.0": _policy(attrs.evolve(RULE, regret=Fraction(1))),
        "no least gain": _policy(attrs.evolve(RULE, gain=0)),
        "no rewrite of a full window": _policy(attrs.evolve(RULE, full=Fraction(NEVER))),
        "a full window without hurry": _policy(attrs.evolve(RULE, hurry=1)),
        "no guard": _policy(attrs.evolve(RULE, margin=Fraction(NEVER))),
    }
    rows = []
    for variant, policy in left_out.items():
        results = [each.under(policy) for each in _long(quick)]
        hour = [each.under(policy) for each in _long(quick, ttl="1h")]
        if results:
            rows += [
                single("billed", variant, "%", _billed(results)),
                single("billed, 1 hour", variant, "%", _billed(hour)),
                single("exact faults ÷ evictions", variant, "%", _faults(results)),
                single("dearest session, 1 hour", variant, "%", max(_ratios(hour))),
            ]
    return rows


# Jitter


def neighbours(count: int) -> Iterator[Rule]:
    """The rule with each of its numbers, but what a session may cost, up to a quarter smaller or larger."""
    dice = random.Random(SEED)
    for _ in range(count):
        moved: dict[str, Any] = {}
        for name, value in attrs.asdict(RULE).items():
            factor = Fraction(dice.randint(75, 125), 100)
            moved[name] = value * factor if isinstance(value, Fraction) else max(1, round(value * factor))
        yield Rule(**{**moved, "full": min(moved["full"], Fraction(97, 100)), "margin": RULE.margin})


def _jitter(_: Sequence[Server], quick: bool) -> list[Row]:
    """Rules whose every number is a little different, averaged: faults are too few to judge one rule by."""
    judged = _long(quick)
    found = [[each.under(_policy(rule)) for each in judged] for rule in neighbours(FEWEST if quick else JITTERS)]
    if not judged:
        return []
    bills, faults = [_billed(results) for results in found], [_faults(results) for results in found]
    return [
        spread("billed", "numbers moved by ±25 %", "%", bills),
        spread("exact faults ÷ evictions", "numbers moved by ±25 %", "%", faults),
        single("billed, mean", "numbers moved by ±25 %", "%", sum(bills) / len(bills), BILLED_GOAL),
        single("exact faults ÷ evictions, mean", "numbers moved by ±25 %", "%", sum(faults) / len(faults), FAULTS_GOAL),
        single("dearest session", "numbers moved by ±25 %", "%", max(map(max, map(_ratios, found))), DEAREST_GOAL),
    ]


# Cross-validation

GRID = tuple(
    attrs.evolve(RULE, read=read, written=written, small=small)
    for read in (2, 3, 4)
    for written in (20, 25, 30, 40)
    for small in (0, 1_000, 1_500)
)


def _best(choices: Sequence[Sequence[SessionResult]], among: Sequence[int]) -> int:
    """The cheapest choice on some sessions that stays within the goal for faults; the one with the fewest if none."""
    found = [[choice[number] for number in among] for choice in choices]
    lawful = [number for number, results in enumerate(found) if _faults(results) <= FAULTS_GOAL]
    if lawful:
        return min(lawful, key=lambda number: _billed(found[number]))
    return min(range(len(found)), key=lambda number: _faults(found[number]))


def _cross_validation(_: Sequence[Server], quick: bool) -> list[Row]:
    """The rule chosen on some sessions and judged on the others, all of them put together."""
    judged = _long(quick)
    grid = GRID[:FEWEST] if quick else GRID
    choices = [[each.under(_policy(rule)) for each in judged] for rule in grid]
    everywhere = range(len(judged))
    folds = {
        "leave one out": [[number] for number in everywhere],
        "even and odd": [list(everywhere[::2]), list(everywhere[1::2])],
    }
    rows = []
    for variant, parts in folds.items():
        unseen = []
        for part in parts if judged else ():
            chosen = choices[_best(choices, [number for number in everywhere if number not in part])]
            unseen += [chosen[number] for number in part]
        rows += _rows(f"chosen on others: {variant}", unseen)
    return rows


# Wherever a session ends


def _ends(_: Sequence[Server], quick: bool) -> list[Row]:
    """Sessions that end after every tenth request: a rewrite may not have paid by then."""
    rows = []
    for variant, hour, settings in (
        ("5 minutes", False, {}),
        ("head held for an hour", True, {}),
        ("1 hour", False, {"ttl": "1h"}),
    ):
        ratios = []
        for each in _long(quick, **settings):
            requests = each.sized.trace.requests
            for end in range(10, len(requests), 10):
                trace = attrs.evolve(each.sized.trace, requests=requests[:end])
                cut = Sized(trace, each.sized.settings)
                wanted = [demand for demand in each.wanted if demand.turn <= end]
                ratios += _ratios([Judged(cut, wanted, simulate(cut, wanted, UNMANAGED)).under(_policy(hour=hour))])
        if ratios:
            dearer = sum(ratio > DEAREST_GOAL for ratio in ratios)
            rows += [
                single("ended above 102 %", variant, "%", 100 * dearer / len(ratios)),
                single("dearest end", variant, "%", max(ratios)),
            ]
    return rows


# Other sessions


def _others(_: Sequence[Server], quick: bool) -> list[Row]:
    """Sessions that nothing was chosen on: short ones, and those of other agents. None may become dearer."""
    sets = {
        "short": (TUNED_ON, LONG - 1),
        "mini-swe-agent": ("mini_swe_agent.jsonl", NEVER),
        "tau airline": ("tau_airline.jsonl", NEVER),
        "SWE-agent": ("swe_agent.jsonl", NEVER),
    }
    rows = []
    for name, (file, most) in sets.items():
        for ttl, model in (("5m", None), ("1h", None), ("5m", "claude-opus-5-5"), ("1h", "claude-fable-5-2")):
            judged = _judged(file, 1, most, ttl, model)[: FEWEST if quick else None]
            results = [each.under(_policy(hour=True)) for each in judged]
            rows += _rows(f"{name}, {ttl}, {model or 'own model'}", results)
    return rows


GROUP = Group(
    "planning",
    (),
    (
        Part("settings", _settings),
        Part("ablation", _ablation),
        Part("jitter", _jitter),
        Part("cross-validation", _cross_validation),
        Part("ends", _ends),
        Part("others", _others),
    ),
)
