"""Bills of the live server under each tariff compared with `mnemosyne evaluate`, the cost of the memory tools for a
program with a small head, the share of sent content that is used, and the errors of predicted bills.

Three recorded sessions pass through the proxy to the strict stand-in, which bills by each tariff's rules, at the
recorded times. Without the recordings there are no rows.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import attrs
import trio

from benchmarks.harness import Group, Row, Server, single, spread
from benchmarks.planning import DEVELOPERS, NEVER, judge_sessions, plan_by
from benchmarks.recordings import FIRST, list_raw
from campaigns.payers.playing import PAYERS, WITHIN, hold, play_turns
from campaigns.payers.programs import Program, dearest, run
from campaigns.scenarios.scene import in_memory
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.tariffs import PaidIn
from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.history.manifest import Manifest
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.session.ledger import equivalents, is_compared
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.window.planning import Candidates, Plan, Situation, planner
from mnemosyne.domain.window.situation import OWN_TOOLS
from mnemosyne.services.manifests import manifest_of
from mnemosyne.services.predicted_bills import predict_bill
from mnemosyne_lab.evaluation.policy import API_1H, API_5M, OPENAI, Policy
from mnemosyne_lab.evaluation.results import list_ends
from tests.http.managing import LOOK, Client, Stage, bare_stage, model_says, results, text, think
from tests.http.test_joining_tools import switch_on
from tests.http.test_managed_dialects import ChatTalk, ResponsesTalk, Talk
from tests.plain.archive import MemoryArchive

PLAYED = ("entire-1c38adc0", "entire-19abe528", "entire-880d23f9", "entire-45f2ccfd")
"""Of 46, 54, 73 and 87 requests: clients that did not compact."""

QUICK = 6
"""Requests of a session in a quick run."""


def _sessions(quick: bool) -> list[dict[str, Any]]:
    """The sessions that are played, the shortest first; only the beginning of one in a quick run."""
    found = (each for each in list_raw(FIRST) if each["name"].startswith(PLAYED))
    ordered = sorted(found, key=lambda each: len(each["turns"]))
    return [{**each, "turns": each["turns"][:QUICK]} for each in ordered[:1]] if quick else ordered


def _bills(_: Sequence[Server], quick: bool) -> list[Row]:
    """The deviation of the bill from the estimate in percent, observed and managed."""
    rows = []
    for session in _sessions(quick):
        for payer in PAYERS:
            held = trio.run(hold, payer, session)
            variant = f"{payer.judged.name}, {session['name']}"
            rows += [
                single("deviation, watched", variant, "%", 100 * abs(held.unmanaged.share), 100 * WITHIN),
                single("deviation, managed", variant, "%", 100 * abs(held.managed.share), 100 * WITHIN),
                single("managed ÷ watched, billed", variant, "", float(held.managed.billed / held.unmanaged.billed)),
                single("managed ÷ watched, said", variant, "", float(held.managed.said / held.unmanaged.said)),
                single("requests that began anew", variant, "", held.rewrites),
            ]
            if PaidIn.DOLLARS in payer.judged.tariff.units[1:]:
                rows.append(single("deviation, managed, dollars", variant, "%", 100 * abs(held.dollars.share)))
    return rows


HEADS = (100, 1_000, 5_000, 20_000)
"""Tokens of system prompt of a program."""


def _programs(_: Sequence[Server], quick: bool) -> list[Row]:
    """How much dearer a managed program is than a watched one, at its end and at the worst of all its ends: managed
    from its first request on whatever its size, and as it is.
    """
    rows, payer = [], PAYERS[0]
    for head, turns, marks in product(HEADS[: 1 if quick else None], (QUICK,) if quick else (8, 60), (True, False)):
        program = Program(head=head, turns=turns, marks=marks)
        watched = trio.run(partial(run, program, payer, Mode.OBSERVE))
        for how, small in (("from the first request", True), ("as it is", False)):
            managed = trio.run(partial(run, program, payer, Mode.MANAGE, manages_small=small))
            variant = f"head of {head}, {turns} turns, {'' if marks else 'no '}markers, {how}"
            ours, theirs = (each.sums(payer, program.model)[-1] for each in (managed, watched))
            worst = dearest(watched, managed, payer, program.model)
            rows += [
                single("managed ÷ watched, billed", variant, "", float(ours / theirs)),
                single("the dearest end", variant, "", worst, 1 + WITHIN),
            ]
    return rows


def _contexts(_: Sequence[Server], quick: bool) -> list[Row]:
    """Of the requests of managed sessions: the tokens of objects that are used later, of all tokens of objects; and
    those of memory tools, notes and stubs, of all tokens. Goals: those of the original wishes.
    """
    rows = []
    for session in _sessions(quick):
        found = trio.run(_read_manifests, session)
        used, sent = (sum(getattr(each.effective, name) for each in found) for name in ("used", "sent"))
        added = sum(each.metadata for each in found) / sum(each.tokens for each in found)
        rows += [
            single("tokens of objects not used later", session["name"], "%", 100 * (1 - used / max(1, sent)), 40),
            single("tokens of tools, notes and stubs", session["name"], "%", 100 * added, 10),
        ]
    return rows


async def _read_manifests(session: dict[str, Any]) -> list[Manifest]:
    """The manifest of the first round of each turn of a managed session."""
    async with in_memory("played", window=None) as scene:
        await play_turns(scene, session)
        await scene.quiet()
        assert scene.log is not None
        archive = MemoryArchive(scene.log)
    (stream,) = await archive.events.streams()
    events = await archive.events.read(stream)
    history = history_of(str(stream), events)
    first = [attrs.evolve(each, round=each.rounds[0]) for each in history.attempts if each.rounds]
    return [await manifest_of(archive, stream, events, history, each) for each in first]


TALKS: dict[str, tuple[type[Talk] | None, str]] = {
    "Messages": (None, "claude-opus-5-5"),
    "Chat, gpt-5.5": (ChatTalk, "gpt-5.5"),
    "Chat, gpt-5.6-terra": (ChatTalk, "gpt-5.6-terra"),
    "Responses, gpt-5.5": (ResponsesTalk, "gpt-5.5"),
    "Responses, gpt-5.6-terra": (ResponsesTalk, "gpt-5.6-terra"),
}
SIDES = ("actual", "expected", "shadow")
GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon"


def _predictions(_: Sequence[Server], quick: bool) -> list[Row]:
    """Errors, in percent, of the bills predicted before each turn, in sessions of made-up text."""
    turns = QUICK if quick else 40
    return [
        single("predicted bill", f"{name}, {mode.value}", "%", trio.run(_predict, *talk, mode, turns))
        for mode, (name, talk) in product((Mode.OBSERVE, Mode.MANAGE), TALKS.items())
    ]


async def _predict(make: type[Talk] | None, model: str, mode: Mode, turns: int) -> float:
    async with _open_work(make, model, turns, mode=mode, window=40_000) as (stage, _, work):
        for _ in range(turns):
            await work()
        found = predict_bill([_as_row(each) for each in await stage.events_until(TurnAccounted, turns)])
    return 100 * (found.predicted / found.billed - 1)


@asynccontextmanager
async def _open_work(
    make: type[Talk] | None, model: str, turns: int, *, lines: int = 0, head: int = 0, **options: Any
) -> AsyncIterator[tuple[Stage, Client | Talk, Callable[[], Awaitable[None]]]]:
    """A proxy, its client, and the function that does one turn of a session: the model thinks and calls a tool, whose
    result is made up and has so many ``lines``; its definition has ``head`` lines.
    """
    call = {"type": "tool_use", "name": "Look" if make is None else "look"}
    replies = [model_says(think(), text(f"{n}."), {**call, "input": {"at": n}}) for n in range(turns)]
    task = text("Please do this.\n" + _write("task", 100))
    described = {"description": _write("head", head)} if head else {}
    async with bare_stage({"replies": replies}, **options) as stage:
        talk: Client | Talk
        if make is None:
            talk = Client(stage.url, model=model, tools=[LOOK | described])
        else:
            (tool,) = make.body["tools"]
            tool = {**tool, "function": tool["function"] | described} if "function" in tool else tool | described
            members = {"model": model, "stream_options": {"include_usage": True}, "tools": [tool]}
            talk = make(stage.url, members=members)
        talk.history.append({"role": "user", "content": [task] if make is None else task["text"]})

        async def work() -> None:
            known, reply = len(talk.history), await talk.send()
            if isinstance(talk, Client):
                found = results(reply)
                talk.history += [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": found}]
            else:
                talk.keep(reply)
                found = talk.history[known:]
            for each in found:
                if (
                    call_id := each.get("tool_use_id")
                    or each.get("tool_call_id")
                    or ("output" in each and each["call_id"])
                ):
                    each["output" if "output" in each else "content"] = _write(call_id, lines)

        yield stage, talk, work


def _as_row(event: TurnAccounted) -> dict[str, Any]:
    """A row of ``saved_by_turn`` for a reply at standard terms."""
    sides = {f"{side}_{part}": n for side in SIDES for part, n in attrs.asdict(getattr(event, side)).items()}
    terms = dict.fromkeys(("service_tier", "inference_geo", "speed")) | {"web_searches": 0, "size": 0, "shadow_size": 0}
    more = {"mode": event.mode.value, "turns": 1, "replies": 1, "compared": is_compared(event), "replied": event.model}
    return {**attrs.asdict(event, recurse=False), **sides, **terms, **more}


def _write(seed: str, lines: int = 0) -> str:
    """Made-up text of this many lines; by default 20 to 200."""
    rng, lines = random.Random(seed), lines or random.Random(seed).randint(20, 200)
    return "\n".join(f"{number:5}\t{' '.join(rng.choices(GREEK.split(), k=9))}" for number in range(lines))


SWITCHED = ("Messages", "Chat, gpt-5.6-terra", "Responses, gpt-5.6-terra")
"""The made-up sessions in which managing is switched on."""

LATER = (0, 1, 3, 10, 30)
"""Turns after the first compaction at which its cost is shown."""

Course = tuple[Sequence[Fraction], int]
"""A switched session: its bill so far, relative to the unmanaged one, after each turn; the turn (from 0) of its first
compaction.
"""


def _switching(_: Sequence[Server], quick: bool) -> list[Row]:
    """The cost of switching managing on, in percent of the bill so far: in made-up sessions after 1, 50 and 500 turns,
    and halfway through recorded ones, without memory tools. Before the first compaction no byte may change.
    """
    rows = []
    for name, turns in product(SWITCHED, (1,) if quick else (1, 50, 500)):
        rows += trio.run(_switch, name, turns)
    for developer, tariff, most in product(DEVELOPERS, (API_5M, API_1H, OPENAI), (None, Fraction(1, 1000))):
        judged = [each for file in DEVELOPERS[developer] for each in judge_sessions(file, quick, tariff)]
        results = [each.under(_switch_policy(len(each.reality.points) // 2, most)) for each in judged]
        courses = [(each.ends, each.epochs[0].turn - 1) for each in results if each.epochs]
        courses = [(ends, first) for ends, first in courses if ends[first - 1] == 1]  # no compaction by its client
        variant = f"{developer}, {tariff.name}{'' if most is None else ', for at most 0.1 %'}"
        rows += [*_rate(variant, courses), single("sessions compacted", variant, "", len(courses))]
    return rows


def _switch_policy(turns: int, most: Fraction | None) -> Policy:
    """The rule after this many turns; with ``most``, a first compaction costs at most this share of the bill so far."""

    def plan(situation: Situation, candidates: Candidates) -> Plan | None:
        found = planner(situation, candidates) if situation.turn > turns else None
        if found is None or most is None or situation.last_epoch is not None:
            return found
        return found if found.price <= most * situation.shadow else None

    return plan_by(by=plan)


def _rate(variant: str, courses: Sequence[Course]) -> list[Row]:
    """The cost of the first compactions. A session that ends earlier counts with its end."""
    rows = []
    for name, later in {**{f"{turns} turns later": turns for turns in LATER}, "at the end": NEVER}.items():
        costs = [float(100 * (ends[first:][: later + 1][-1] - 1)) for ends, first in courses]
        rows += [spread(f"first compaction, {name}", variant, "%", costs)] if costs else []
    paid = [next((n for n, end in enumerate(ends[first:]) if end <= ends[first - 1]), None) for ends, first in courses]
    known = [turns for turns in paid if turns is not None]
    rows += [spread("turns until it has paid", variant, "", known)] if known else []
    return [*rows, single("sessions that end before", variant, "", paid.count(None))]


async def _switch(name: str, turns: int) -> list[Row]:
    (make, model), variant = TALKS[name], f"{name}, after turn {turns}"
    work = _open_work(make, model, turns + 300, lines=min(60, 3_000 // turns), head=900, mode=Mode.OBSERVE)
    async with work as (stage, client, go_on):
        registry = stage.process.opener.registry
        registry.settings = attrs.evolve(
            registry.settings, host="api.anthropic.com" if make is None else "api.openai.com"
        )
        for _ in range(turns):
            await go_on()
        await switch_on(stage)
        epochs: list[EpochBegan] = []
        while not epochs or len(client.bodies) <= epochs[0].turn + LATER[-1]:
            await go_on()
            epochs = epochs or await stage.events_of(EpochBegan)
        found = await stage.events_until(TurnAccounted, len(client.bodies))
        sent, first = stage.standin.messages, epochs[0].turn - 1
    compared = [(each.actual, each.shadow if is_compared(each) else each.actual) for each in found]
    billed, without = ([equivalents(each, model) for each in side] for side in zip(*compared, strict=True))
    ends, tools = list_ends(billed, without), Tokens(write_5m=Estimator.of(model).tokens(OWN_TOOLS))
    changed = sum(one.body != own for one, own in zip(sent[:first], client.bodies, strict=False))
    refused = sum(each.status != 200 for each in sent) + len(stage.standin.violations)
    of_tools = equivalents(tools, model) / sum(without[: first + 1])
    figures: Sequence[tuple[str, str, float, float | None]] = (
        ("requests changed before the first compaction, refused, or against a rule", "", changed + refused, 0),
        ("the switch, until then", "%", float(100 * (ends[first - 1] - 1)), 0.1),
        ("turns until then", "", first - turns, None),
        ("tokens read at it", "", found[first].actual.read, None),
        ("tokens written at it", "", found[first].actual.write_5m, None),
        ("memory tools, at it", "%", float(100 * of_tools), None),
    )
    rows = [single(figure, variant, unit, value, goal) for figure, unit, value, goal in figures]
    return [*rows, *_rate(variant, [(ends, first)])]


PARTS = {"tariffs": _bills, "programs": _programs, "contexts": _contexts, "predicted": _predictions}
GROUP = Group("bills", (), {**PARTS, "switching": _switching})
