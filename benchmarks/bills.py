"""Bills of the live server under each tariff compared with `mnemosyne evaluate`, the cost of the memory tools for a
program with a small head, the share of sent content that is used, and the errors of predicted bills.

Three recorded sessions pass through the proxy to the strict stand-in, which bills by each tariff's rules, at the
recorded times. Without the recordings there are no rows.
"""

import random
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import attrs
import trio

from benchmarks.harness import Group, Row, Server, single
from benchmarks.recordings import FIRST, list_raw
from campaigns.payers.playing import PAYERS, WITHIN, hold, play_turns
from campaigns.payers.programs import Program, dearest, run
from campaigns.scenarios.scene import in_memory
from mnemosyne.domain.cost.tariffs import PaidIn
from mnemosyne.domain.history.manifest import Manifest
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.session.ledger import is_compared
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services.manifests import manifest_of
from mnemosyne.services.predicted_bills import predict_bill
from tests.http.managing import Client, bare_stage, model_says, results, text
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
    name = "Look" if make is None else "look"
    replies = [model_says(text(f"{n}."), {"type": "tool_use", "name": name, "input": {"at": n}}) for n in range(turns)]
    task = "Please do this.\n" + _write("task", 100)
    async with bare_stage({"replies": replies}, window=40_000, mode=mode) as stage:
        if make is None:
            client, content = Client(stage.url), [text(task)]
            for _ in range(turns):
                content = results(await client.turn(*content))
                for each in content:
                    each["content"] = _write(each["tool_use_id"])
        else:
            talk = make(stage.url, members={"model": model, "stream_options": {"include_usage": True}})
            talk.history.append({"role": "user", "content": task})
            for _ in range(turns):
                known = len(talk.history)
                talk.keep(await talk.send())
                for each in talk.history[known:]:
                    if call := each.get("tool_call_id") or (each.get("output") and each["call_id"]):
                        each["content" if "content" in each else "output"] = _write(call)
        found = predict_bill([_as_row(each) for each in await stage.events_until(TurnAccounted, turns)])
    return 100 * (found.predicted / found.billed - 1)


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


GROUP = Group("bills", (), {"tariffs": _bills, "programs": _programs, "contexts": _contexts, "predicted": _predictions})
