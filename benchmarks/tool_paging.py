"""What paging of tool schemas is worth: recorded sessions under the planner's rule, with tool lists of real clients.

A paged tool is asked for before its first call, and again after everything was rewritten: another round, whose prompt
is read from the cache, and its definition, which is written and then read with every later request. The sessions and
the lists are no part of the repository; without them there are no rows. Nobody knows here whether a model asks.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import attrs

from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.tariffs import LIFETIME
from mnemosyne.domain.cost.tokens import Estimator, Features, features_of_message, features_of_tools
from mnemosyne.domain.objects.faults import Spent
from mnemosyne.domain.recall.memory_calls import Definition
from mnemosyne.domain.recall.memory_results import definition_text
from mnemosyne.domain.tools import tool_paging
from mnemosyne.domain.tools.memory_tools import TOOL, TOOL_JSON
from mnemosyne.domain.window.planning import planner
from mnemosyne.domain.wire.reply import as_json
from mnemosyne_lab.evaluation.demand import Demand, demands
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.policies import UNMANAGED
from mnemosyne_lab.evaluation.policy import FIXED, Policy, Settings
from mnemosyne_lab.evaluation.reading import read, trace_of
from mnemosyne_lab.evaluation.results import SessionResult
from mnemosyne_lab.evaluation.running import own_model
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Trace
from tests.domain.recorded import DATA

SESSIONS = DATA / "sessions" / "claude_code.jsonl"
LONG = 30
"""Requests of the sessions that are judged."""

FEWEST = 1
"""Sessions in a quick run."""

ASKING = 60
"""What the model writes to ask for a definition: tokens of output."""

BUDGETS = (0, 2_000, 4_000, 8_000)

LISTS = {
    "opencode 1.18.33": ("oc-loop30",),
    "Claude Code 2.1.329": ("cc-loop30",),
    "Claude Code 2.1.197": ("cc197-think",),
    "2.1.197 and two servers": ("cc197-think", "cc-loop30", "oc-loop30"),
}
"""Runs of clients whose tools a head has. Those of the second run and later stand for servers that nobody calls."""

HEADS = (
    (10_000, "opencode 1.18.33"),
    (26_000, "Claude Code 2.1.329"),
    (41_000, "Claude Code 2.1.197"),
    (41_000, "2.1.197 and two servers"),
)
"""Tokens of system prompt and tools together, and the tools among them."""

ALSO = {"task": "agent", "grep": "bash", "glob": "bash", "todowrite": "taskcreate"}
"""What a tool that a list does not have is called in it, or what is called instead; others are left out."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "read 0.1": {},
    "read 0.05": {"model": "claude-opus-5-5"},
}

PLANNED = Policy(name="planned", about="", planner=planner)


@attrs.frozen
class Judged:
    """A session, what its replies took from earlier context, and the model whose prices count."""

    trace: Trace
    wanted: Sequence[Demand]
    model: str


@attrs.frozen
class Paged:
    """A list of tools under a budget, at a model's tokens: how much smaller the head is, and what the round has
    in which one is asked for, by the tool's name in lower case.
    """

    saved: int
    rounds: Mapping[str, int]


@attrs.frozen
class Outcome:
    """A session with paging: what its requests cost, what asking cost besides, and how often it was asked."""

    result: SessionResult
    asking: Fraction
    asked: int

    @property
    def billed(self) -> Fraction:
        return self.result.billed + self.asking


@cache
def _sessions() -> Sequence[Judged]:
    if not SESSIONS.exists():
        return ()
    found = (each for each in read([SESSIONS], lambda _: iter(())) if not isinstance(each, str))
    traces = ((trace_of(each), own_model(each.model)) for each in found if len(each.requests) >= LONG)
    return [Judged(trace, demands(trace), model) for trace, model in traces]


@cache
def _tools(name: str) -> bytes:
    """The tools of a list as a client would write them."""
    found: list[dict[str, Any]] = []
    for number, run in enumerate(LISTS[name]):
        bodies = (
            json.loads(path.read_text())["body"] for path in sorted((DATA / "captures" / run).glob("*-POST-*.json"))
        )
        tools = next(body["tools"] for body in bodies if body.get("tools"))
        found += [{**each, "name": f"mcp__{number}__{each['name']}"} if number else each for each in tools]
    return as_json(found)


@cache
def _paged(name: str, budget: int, model: str) -> Paged:
    tools, estimator = _tools(name), Estimator.of(model)
    sent = json.loads(tool_paging.page_tools(tools, budget))
    cut = [each["name"] for each in sent if TOOL in each.get("description", "")]
    own = [json.loads(TOOL_JSON)] if cut else []
    saved = features_of_tools(json.loads(tools), model) - features_of_tools([*sent, *own], model)
    whole = tool_paging.definitions(tools)
    rounds = {each.lower(): estimator.tokens(_round(each, whole[each])) for each in cut}
    return Paged(estimator.tokens(saved), rounds)


def _round(name: str, text: str) -> Features:
    call = {"type": "tool_use", "id": "toolu_0", "name": TOOL, "input": {"name": name}}
    told = definition_text(Definition(name, text, tool_paging.tokens(text)), Spent())
    result = {"type": "tool_result", "tool_use_id": "toolu_0", "content": told}
    messages = ({"role": "assistant", "content": [call]}, {"role": "user", "content": [result]})
    return sum(map(features_of_message, messages), Features())


def _called(trace: Trace, known: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The calls of paged tools: the number of the request, from 0, and the tool."""
    for number, request in enumerate(trace.requests):
        if request.messages >= len(trace.messages):
            continue
        content = trace.messages[request.messages]["content"]
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                name = str(block.get("name")).lower()
                name = name if name in known else ALSO.get(name, name)
                if name in known:
                    yield number, name


def _outcome(each: Judged, reality: SessionResult, settings: Settings, paged: Paged) -> Outcome:
    sized = Sized(each.trace, attrs.evolve(settings, fixed=(settings.fixed or FIXED) - paged.saved))
    result = simulate(sized, each.wanted, PLANNED, reality)
    asking, asked = _asking(each.trace, result, settings, paged)
    return Outcome(result, asking, asked)


def _asking(trace: Trace, result: SessionResult, settings: Settings, paged: Paged) -> tuple[Fraction, int]:
    """What asking costs in tokens of plain input, and how often it happens: at the first call of a tool since
    everything was last rewritten, by us or by the client.
    """
    turns = {each.turn: number for number, each in enumerate(trace.requests)}
    resets = (reset.turn for reset in trace.resets if reset.by_user)
    anew = sorted({turns[turn] for turn in (*(epoch.turn for epoch in result.epochs), *resets) if turn in turns})
    known: set[tuple[int, str]] = set()
    cost = Fraction(0)
    for number, name in _called(trace, paged.rounds):
        epoch = bisect_right(anew, number)
        if (epoch, name) in known:
            continue
        held = sum(paged.rounds[other] for before, other in known if before == epoch)
        known.add((epoch, name))
        point = result.points[number]
        prompt = sum(point.resident) + point.fixed + held
        cost += _price(settings, Tokens(read=prompt, output=ASKING)) + _written(settings, paged.rounds[name])
        last = anew[epoch] if epoch < len(anew) else len(trace.requests)
        for later in range(number + 1, last):
            idle = trace.requests[later].at - trace.requests[later - 1].at
            cold = idle >= LIFETIME[settings.ttl]
            tokens = paged.rounds[name]
            cost += _written(settings, tokens) if cold else _price(settings, Tokens(read=tokens))
    return cost, len(known)


def _written(settings: Settings, tokens: int) -> Fraction:
    return _price(settings, Tokens(write_1h=tokens) if settings.ttl == "1h" else Tokens(write_5m=tokens))


def _price(settings: Settings, tokens: Tokens) -> Fraction:
    return settings.price.equivalents(tokens)


def _worth(_: Sequence[Server], quick: bool) -> list[Row]:
    """The bill with and without paging, in percent of that of reality."""
    judged = _sessions()[: FEWEST if quick else None]
    heads = HEADS[: 1 if quick else None] if judged else ()
    rows: list[Row] = []
    for head, tools in heads:
        for conditions, given in SETTINGS.items():
            rows += _rows(judged, f"{head // 1000}k head, {tools}", conditions, given, head, tools)
    return rows


def _rows(
    judged: Sequence[Judged], about: str, conditions: str, given: Mapping[str, Any], head: int, tools: str
) -> list[Row]:
    outcomes: dict[int | None, list[Outcome]] = {None: [], **{budget: [] for budget in BUDGETS}}
    for each in judged:
        settings = Settings(**{"model": each.model, "fixed": head, **given})
        reality = simulate(Sized(each.trace, settings), each.wanted, UNMANAGED)
        known: dict[int, Outcome] = {}
        for budget in outcomes:
            paged = Paged(0, {}) if budget is None else _paged(tools, budget, settings.model)
            if paged.saved not in known:
                known[paged.saved] = _outcome(each, reality, settings, paged)
            outcomes[budget].append(known[paged.saved])
    unmanaged = sum(each.result.billed_unmanaged for each in outcomes[None])
    before = sum(each.billed for each in outcomes[None])
    rows = [single("billed", f"{about}, {conditions}, no paging", "%", float(100 * before / unmanaged))]
    for budget in BUDGETS:
        variant = f"{about}, {conditions}, budget {budget // 1000}k"
        found = outcomes[budget]
        ratios = [float(100 * one.billed / other.billed) for one, other in zip(found, outcomes[None], strict=True)]
        billed, asking = sum(each.billed for each in found), sum(each.asking for each in found)
        paged = _paged(tools, budget, str(given.get("model", judged[0].model)))
        rows += [
            single("head smaller by", variant, "tokens", paged.saved),
            single("billed", variant, "%", float(100 * billed / unmanaged)),
            single("saved", variant, "points", float(100 * (before - billed) / unmanaged)),
            single("asking alone", variant, "points", float(100 * asking / unmanaged)),
            single("dearest session ÷ no paging", variant, "%", max(ratios)),
            single("rounds more, mean of a session", variant, "", sum(each.asked for each in found) / len(found)),
        ]
    return rows


GROUP = Group("tool_paging", (), (Part("worth", _worth),))
