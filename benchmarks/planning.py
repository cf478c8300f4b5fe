"""The value of the planner on recorded sessions: each ingredient left out, ages scaled, developers left out. Each
session is also judged as if it had ended after each request.

Without the recordings there are no rows.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import islice, product
from typing import Any

import attrs

from benchmarks.chart import Axis, Line, draw_lines
from benchmarks.harness import Group, Row, Server, single
from benchmarks.recordings import FIRST, MORE, OTHERS, list_sessions
from mnemosyne.domain.objects.fidelity import Fidelity, FidelityMode
from mnemosyne.domain.window.ages import AGES, NEEDED_AGAIN, Age, Ages
from mnemosyne.domain.window.planning import RULE, Candidates, Plan, Planner, Rule, Situation, planner
from mnemosyne_lab.evaluation.demand import Demand, demands
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.policies import UNCOMPACTED, UNMANAGED, hour_after_a_break
from mnemosyne_lab.evaluation.policy import API_1H, API_5M, LOCAL, JudgedTariff, Policy, Settings, same_ttl
from mnemosyne_lab.evaluation.results import SessionResult
from mnemosyne_lab.evaluation.running import own_model
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Trace, trace_of

LONG = 30
"""Requests; shorter sessions are judged by the dearest of them alone."""

DEAREST_GOAL = 102.0
"""Goal for the dearest session, in percent of its real bill."""

NEVER = 10**9
FEWEST = 2
"""Sessions, and variants of each kind, in a quick run."""


@attrs.frozen
class Judged:
    """A trace measured under settings, what its replies took from earlier context, and what really happened."""

    sized: Sized
    wanted: Sequence[Demand]
    reality: SessionResult
    developer: str = ""

    def under(self, policy: Policy) -> SessionResult:
        return simulate(self.sized, self.wanted, policy, self.reality)


@cache
def _traces(file: str, quick: bool) -> Sequence[tuple[Trace, Sequence[Demand], str, str]]:
    long = [each for each in list_sessions(file) if len(each.requests) >= LONG]
    traces = [
        (trace_of(each), own_model(each.model), each.developer or file) for each in long[: FEWEST if quick else None]
    ]
    return [(trace, demands(trace), model, developer) for trace, model, developer in traces]


def judge_sessions(
    file: str, quick: bool, tariff: JudgedTariff = API_5M, model: str | None = None, fixed: int = 41_000
) -> list[Judged]:
    """The long sessions of a file, each under its own model's prices unless there is a ``model``; ``fixed`` is the size
    of system prompt and tools in tokens.
    """
    found = []
    for trace, wanted, own, developer in _traces(file, quick):
        sized = Sized(trace, Settings(tariff=tariff, model=model or own, fixed=fixed))
        found.append(Judged(sized, wanted, simulate(sized, wanted, UNMANAGED), developer))
    return found


def plan_by(rule: Rule = RULE, *, hour: bool = False, by: Planner | None = None) -> Policy:
    head = hour_after_a_break if hour else same_ttl
    return Policy(name="planned", about="", planner=by or partial(planner, rule=rule), head=head, has_memory=True)


# Rows


def _billed(results: Sequence[SessionResult]) -> float:
    """The bill in percent of reality's."""
    whole = sum(each.billed_unmanaged for each in results)
    return float(100 * sum(each.billed for each in results) / whole) if whole else 0.0


def _faults(results: Sequence[SessionResult]) -> float:
    """Missing exact texts in percent of evictions."""
    return 100 * sum(each.exact_faults for each in results) / max(1, sum(each.evictions for each in results))


def _dearest(results: Sequence[SessionResult]) -> float:
    return max(float(100 * each.billed / each.billed_unmanaged) for each in results if each.billed_unmanaged)


def _rows(variant: str, results: Sequence[SessionResult], goal: float | None = None) -> list[Row]:
    if not results:
        return []
    asked, there = sum(each.demands for each in results), sum(each.resident for each in results)
    return [
        single("billed", variant, "%", _billed(results), goal),
        single("exact faults ÷ evictions", variant, "%", _faults(results)),
        single("demands not resident", variant, "%", 100 * (asked - there) / max(1, asked), 5.0),
        single("lost silently", variant, "", sum(each.silent for each in results), 0),
        single("dearest session", variant, "%", _dearest(results), DEAREST_GOAL),
    ]


def _ends(variant: str, results: Sequence[SessionResult]) -> list[Row]:
    """As if each session had ended after every one of its requests: a rewrite may not have paid by then."""
    ends = [float(100 * end) for each in results for end in each.ends]
    if not ends:
        return []
    return [
        single("ends above 102 %", variant, "%", 100 * sum(end > DEAREST_GOAL for end in ends) / len(ends)),
        single("dearest end", variant, "%", max(ends)),
    ]


# Settings


def _settings(_: Sequence[Server], quick: bool) -> list[Row]:
    """The rule at other prices, cache lifetimes and head sizes, with the goal for its bill."""
    variants: Mapping[str, tuple[dict[str, Any], bool, float | None]] = {
        "5 minutes, read 0.1": ({}, False, 69.0),
        "head held for an hour": ({}, True, 66.0),
        "1 hour": ({"tariff": API_1H}, False, 85.0),
        "read 0.05": ({"model": "claude-opus-5-5"}, False, 74.0),
        "read 0.05, 1 hour": ({"model": "claude-opus-5-5", "tariff": API_1H}, False, None),
        "read 0.025": ({"model": "claude-fable-5-2"}, False, None),
        "read 0.025, 1 hour": ({"model": "claude-fable-5-2", "tariff": API_1H}, False, None),
        "10k fixed": ({"fixed": 10_000}, False, None),
        "26k fixed": ({"fixed": 26_000}, False, None),
    }
    rows, together = [], []
    for variant, (settings, hour, goal) in islice(variants.items(), FEWEST if quick else None):
        results = [each.under(plan_by(hour=hour)) for each in judge_sessions(FIRST, quick, **settings)]
        rows += _rows(variant, results, goal) + _ends(variant, results)
        together += results
    return [*rows, single("exact faults ÷ evictions", "all of these", "%", _faults(together), 0.5)] if rows else []


# Ablation


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


def _count_from_birth(situation: Situation, candidates: Candidates) -> Plan | None:
    """Age counts from birth and not from the last use."""
    return planner(situation, lambda: [attrs.evolve(each, last_use=each.born) for each in candidates()])


_KINDS: list[str] = [name for name, value in attrs.asdict(AGES, recurse=False).items() if isinstance(value, Age)]


def _aged(**changes: Any) -> Policy:
    """The rule with other ages."""
    return plan_by(attrs.evolve(RULE, ages=attrs.evolve(AGES, **changes)))


def _ablation(_: Sequence[Server], quick: bool) -> list[Row]:
    """The rule without each ingredient: cost and faults."""
    left_out: Mapping[str, Policy] = {
        "the rule": plan_by(),
        "no cold epochs": plan_by(by=lambda now, them: None if now.cold else planner(now, them)),
        "only cold epochs": plan_by(by=lambda now, them: planner(now, them) if now.cold else None),
        "only at new exchanges": plan_by(by=lambda now, them: planner(now, them) if now.exchange == now.turn else None),
        "stubs, nothing evicted": plan_by(by=_stubs),
        "age from birth": plan_by(by=_count_from_birth),
        "one age for all kinds": _aged(**dict.fromkeys(_KINDS, AGES.part)),
        "answers stay like files": _aged(answered=AGES.part),
        "what was done to a file since does not matter": _aged(whole_edited=AGES.whole, part_edited=AGES.part),
        "the replaced like the rest": _aged(replaced=AGES.part),
        "size does not matter": _aged(**{name: attrs.evolve(getattr(AGES, name), fewer=0) for name in _KINDS}),
        "a new task does not matter": _aged(away=Fraction(1)),
        "the session's own record does not matter": _aged(scales=(Fraction(1), Fraction(1))),
        "changes since do not matter": plan_by(attrs.evolve(RULE, changes=0)),
        "edits whole": plan_by(attrs.evolve(RULE, replaced=NEVER)),
        "what was said stays": _aged(said=Age(NEVER)),
        "no protection after a fault": plan_by(attrs.evolve(RULE, missed=-1)),
        "no rent-or-buy": plan_by(attrs.evolve(RULE, regret=Fraction(NEVER))),
        "rent-or-buy at 1.0": plan_by(attrs.evolve(RULE, regret=Fraction(1))),
        "no least gain": plan_by(attrs.evolve(RULE, gain=0)),
        "no rewrite of a full window": plan_by(attrs.evolve(RULE, full=Fraction(NEVER))),
        "a full window without hurry": plan_by(attrs.evolve(RULE, hurry=1)),
        "overflow at 90 %": plan_by(attrs.evolve(RULE, overflow=Fraction(9, 10))),
        "no guard": plan_by(attrs.evolve(RULE, margin=Fraction(NEVER))),
        "behind, nothing warm": plan_by(attrs.evolve(RULE, soon=-NEVER)),
        "behind, all that has earned its price": plan_by(attrs.evolve(RULE, soon=NEVER)),
    }
    rows = []
    for variant, policy in islice(left_out.items(), FEWEST if quick else None):
        results, hour = (
            [each.under(policy) for each in judge_sessions(FIRST, quick, tariff)] for tariff in (API_5M, API_1H)
        )
        if results:
            rows += [
                single("billed", variant, "%", _billed(results)),
                single("billed, 1 hour", variant, "%", _billed(hour)),
                single("exact faults ÷ evictions", variant, "%", _faults(results)),
                single("dearest session, 1 hour", variant, "%", _dearest(hour)),
                *_ends(f"{variant}, 1 hour", hour),
            ]
    return rows


# Choosing the ages


GRID = tuple(
    attrs.evolve(RULE, ages=attrs.evolve(AGES, whole=whole, part=part, needed_again=again))
    for whole in (Age(20, fewer=6), Age(28, fewer=6))
    for part in (Age(7), Age(10))
    for again in (NEEDED_AGAIN, {kind: 2 * expected for kind, expected in NEEDED_AGAIN.items()})
)

CAUTIOUS = 0.45
"""The most faults, in percent, of a selectable rule: at the very limit it exceeds it elsewhere."""


def _choose(choices: Sequence[Sequence[SessionResult]], among: Sequence[int]) -> int:
    """The cheapest choice on some sessions that has few faults; the one with the fewest if none has."""
    found = [[choice[number] for number in among] for choice in choices]
    rank = [(max(CAUTIOUS, _faults(results)), _billed(results)) for results in found]
    return rank.index(min(rank))


def _developers(_: Sequence[Server], quick: bool) -> list[Row]:
    """The ages as they are, for each developer; and ages chosen on all developers but one, judged on that one."""
    judged = [each for file in (FIRST, MORE, OTHERS) for each in judge_sessions(file, quick)]
    by_developer: dict[str, list[int]] = {}
    for number, each in enumerate(judged):
        by_developer.setdefault(each.developer, []).append(number)
    choices = [
        [each.under(plan_by(rule, hour=True)) for each in judged] for rule in (RULE, *GRID[: 1 if quick else None])
    ]
    rows, unseen = [], list[SessionResult]()
    for developer, own in by_developer.items():
        chosen = _choose(choices, [number for number in range(len(judged)) if number not in own])
        left_out = [choices[chosen][number] for number in own]
        rows += _rows(f"developer {developer}, as it is", [choices[0][number] for number in own])
        rows += _rows(f"developer {developer}, chosen on the others", left_out)
        unseen += left_out
    return [*rows, *_rows("chosen on other developers", unseen), *_ends("chosen on other developers", unseen)]


# The frontier

STAYS = tuple(Fraction(times, 4) for times in (2, 4, 5, 6, 8, 12))
"""So many times as long as by the rule everything stays, for a bill and the faults that go with it."""

DEVELOPERS: Mapping[str, Sequence[str]] = {"first developer": (FIRST, MORE), "four others": (OTHERS,)}


def stay(times: Fraction) -> Rule:
    """The rule with everything staying so many times as long."""
    longer = attrs.asdict(AGES, recurse=False)
    for name in _KINDS:
        longer[name] = Age(max(1, round(longer[name].turns * times)), fewer=round(longer[name].fewer * times))
    return attrs.evolve(RULE, ages=Ages(**longer), gathered=round(RULE.gathered * times))


def _frontier(_: Sequence[Server], quick: bool) -> list[Row]:
    """Bill and faults for each factor of all ages, in each mode."""
    rows = []
    for developer, files in DEVELOPERS.items():
        judged = [each for file in files for each in judge_sessions(file, quick)]
        for mode, times in product(FidelityMode, STAYS[: 1 if quick else None] if judged else ()):
            results = [each.under(attrs.evolve(plan_by(stay(times)), mode=mode)) for each in judged]
            variant = f"{developer}, {mode.name.lower()}, {float(times):g} times as long"
            rows += [*_rows(variant, results), *_ends(variant, results)]
    return rows


def draw_frontier(points: Mapping[tuple[str, str, float], tuple[float, float]]) -> str:
    """The frontier as SVG. ``points`` maps (developers, mode, factor of the ages) to (bill, faults) in percent."""
    bills = {float(bill): f"{bill / 100:.2f}" for bill in range(65, 100, 5)}
    faults = {each: f"{each:g} %" for each in (0.0, 0.3, 0.5, 1.0, 1.5)}
    colors = {"first developer": "#0b6e99", "four others": "#b3541e"}
    lines = {
        f"{group[0]}, {group[1]}": Line(
            [at for key, at in points.items() if key[:2] == group], colors[group[0]], dashed=group[1] == "graded"
        )
        for group in dict.fromkeys(key[:2] for key in points)
    }
    x_axis, y_axis = Axis("billed, relative to unmanaged", bills), Axis("faults, of evictions", faults)
    return draw_lines("Bill and faults when all ages are multiplied", x_axis, y_axis, lines, legend=440)


LEFT = (3_000, 10_000, 20_000, 60_000)
"""Tokens of history that an overflow leaves if cached reads are free."""


def _local(_: Sequence[Server], quick: bool) -> list[Row]:
    """The frontier of a local server: its time against the faults, by how much of the history an overflow leaves."""
    rows = []
    for file in (FIRST, OTHERS)[: 1 if quick else None]:
        judged = judge_sessions(file, quick, LOCAL)
        named = {f"{left:,} tokens left": plan_by(attrs.evolve(RULE, reread=left)) for left in LEFT}
        for variant, policy in ({**named, "no compaction": UNCOMPACTED} if judged else {}).items():
            results = [each.under(attrs.evolve(policy, mode=FidelityMode.GRADED)) for each in judged]
            rows += [*_rows(f"{file}, {variant}", results), *_ends(f"{file}, {variant}", results)]
    return rows


GROUP = Group(
    "planning",
    (),
    {"settings": _settings, "ablation": _ablation, "developers": _developers, "frontier": _frontier, "local": _local},
)
