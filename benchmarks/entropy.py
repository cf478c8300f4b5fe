"""Whether a real model's uncertainty tells that something it needs has left its window, on recorded sessions.

At a *point* the recorded model went on with a name that it had from one earlier object alone. The measured model goes
on there with that object's passage before the last of the window, with our stub of the object, and with neither. At an
*ordinary* point it has such a stub, too, and the words that follow name nothing which is not in sight. What a gate
could see is the mean over the next tokens of the entropy, or of how unlikely the chosen token was.

It needs the recordings and a server of llama.cpp at ``COMPLETIONS_URL``; without them there are no rows.
"""

import json
import math
import os
import random
import re
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from benchmarks.harness import Group, Part, Row, Server, single
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.reading import recording, trace_of
from mnemosyne_lab.evaluation.trace import Item, Trace
from tests.domain.recorded import DATA

FILES = ("claude_code.jsonl", "claude_code_more.jsonl")
POINTS = 32
PER_SESSION = 2
TOKENS = 24
"""The window of a gate: so many tokens are generated."""

SOON = 8
"""Of these, the first, which are nearest to the name."""

LIKELIEST = 20
"""Of so many tokens a place, the most that Chat Completions tells, the entropy is taken."""

SEEN = 800
"""Characters of the window's end that the model sees: what came right before, and the reply up to the point."""

PASSAGE = 700
"""Characters of the object around the name."""

APART = 6
"""Messages between the object and the point, at least."""

SEED_GATES = (1.5, 2.2)
"""Entropy from which on the seed upgrades, and from which on it faults."""

_NAME = re.compile(r"[A-Za-z_][\w./-]{8,}\w")
_SPECIFIC = re.compile(r"[_./0-9]|[a-z][A-Z]")


@attrs.frozen
class Point:
    """A place in a reply. ``name`` is what comes next, empty at an ordinary one; ``passage`` is of the object that
    has it, and ``stub`` of the same.
    """

    window: str
    stub: str
    name: str = ""
    passage: str = ""


@attrs.frozen
class Uncertainty:
    """Of each generated token in nats; ``surprise`` is how unlikely the chosen one was. ``text`` is what came."""

    entropy: Sequence[float]
    surprise: Sequence[float]
    text: str


MEASURES: Mapping[str, Callable[[Uncertainty], float]] = {
    "entropy": lambda each: _mean(each.entropy),
    f"entropy of {SOON}": lambda each: _mean(each.entropy[:SOON]),
    "surprise": lambda each: _mean(each.surprise),
}


def names_in(text: str) -> Iterator[re.Match[str]]:
    """The words that are names of something, and not of the language."""
    return (found for found in _NAME.finditer(text) if _SPECIFIC.search(found.group()))


def points(trace: Trace, chance: random.Random) -> tuple[list[Point], list[Point]]:
    """Where a name from one earlier object is needed, and as many ordinary points."""
    texts = [_text_of(message) for message in trace.messages]
    needing: list[Point] = []
    ordinary: list[Point] = []
    for number, message in enumerate(trace.messages):
        if message["role"] != "assistant" or number <= APART:
            continue
        old = [item for item in trace.items if item.places and item.places[-1].message < number - APART]
        for found in names_in(texts[number]):
            window = _window(texts, number, found.start())
            holding = [index for index in range(number) if found.group() in texts[index]]
            if found.start() < 20 or found.group() in texts[number][: found.start()] or len(holding) != 1:
                continue
            held = [
                item
                for item in old
                if found.group() in item.text and item.places[0].message in (*holding, holding[0] - 1)
            ]
            if len(held) == 1 and (stub := held[0].texts.get(Fidelity.STUB)) and found.group() not in stub:
                needing.append(Point(window, stub, found.group(), _passage(held[0], found.group())))
                break
        else:
            ordinary += _ordinary(texts, number, old, chance)
    return needing, ordinary


def _ordinary(texts: Sequence[str], number: int, old: Sequence[Item], chance: random.Random) -> Iterator[Point]:
    places = [found.start() for found in re.finditer(r"\b\w", texts[number]) if found.start() >= 20]
    stubs = [stub for item in old if (stub := item.texts.get(Fidelity.STUB))]
    if places and stubs:
        at = chance.choice(places)
        window = _window(texts, number, at)
        if all(found.group() in window for found in names_in(texts[number][at : at + 5 * TOKENS])):
            yield Point(window, chance.choice(stubs))


def _text_of(message: Mapping[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(
        str(block.get("text") or block.get("content") or json.dumps(block.get("input", ""), ensure_ascii=False))
        for block in content
        if block.get("type") in ("text", "tool_use", "tool_result")
    )


def _window(texts: Sequence[str], number: int, at: int) -> str:
    return "\n\n".join([*texts[max(0, number - APART) : number], texts[number][:at]])[-SEEN:]


def _passage(item: Item, name: str) -> str:
    begin = max(0, item.text.index(name) - PASSAGE // 2)
    return item.text[begin : begin + PASSAGE]


def ask(server: str, before: str, window: str) -> Uncertainty:
    """What a model goes on with behind the window, and how sure it is."""
    prompt = f"{before}\n\n{window}" if before else window
    asked = {"prompt": prompt.rstrip(" "), "max_tokens": TOKENS, "temperature": 0, "logprobs": LIKELIEST}
    request = urllib.request.Request(
        f"{server}/v1/completions", json.dumps(asked).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        choice = json.load(answer)["choices"][0]
    told = choice["logprobs"]["content"]
    entropies = [entropy_of([each["logprob"] for each in token["top_logprobs"]]) for token in told]
    return Uncertainty(entropies, [-token["logprob"] for token in told], choice["text"])


def entropy_of(logprobs: Sequence[float]) -> float:
    """Of the likeliest tokens and all others as one, in nats."""
    shares = [math.exp(each) for each in logprobs]
    shares.append(max(0.0, 1 - sum(shares)))
    return -sum(share * math.log(share) for share in shares if share > 0)


def auc(low: Sequence[float], high: Sequence[float]) -> float:
    """How often one of ``high`` is above one of ``low``; a tie is half."""
    return _mean([(above > below) + (above == below) / 2 for above in high for below in low])


def interval(low: Sequence[float], high: Sequence[float]) -> tuple[float, float]:
    """Of the area, 95 % of 1,000 redrawings."""
    chance = random.Random(1)
    drawn = sorted(auc(chance.choices(low, k=len(low)), chance.choices(high, k=len(high))) for _ in range(1000))
    return drawn[25], drawn[974]


def flagged(ordinary: Sequence[float], missing: Sequence[float]) -> float:
    """The share of ordinary points above a gate that is set where half of the missing are above it."""
    gate = sorted(missing)[len(missing) // 2]
    return _mean([float(each >= gate) for each in ordinary])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _gate(_: Sequence[Server], quick: bool) -> list[Row]:
    """The areas, false alarms at a gate that catches half, and what the seed's gates do."""
    server = os.environ.get("COMPLETIONS_URL", "")
    chance = random.Random(35)
    lines = [line for name in FILES if (file := DATA / "sessions" / name).is_file() for line in file.open("rb")]
    needing: list[Point] = []
    ordinary: list[Point] = []
    for number, line in enumerate(lines[:6] if quick else lines if server else ()):
        found, usual = points(trace_of(recording(str(number), json.loads(line))), chance)
        needing += chance.sample(found, min(PER_SESSION, len(found)))
        ordinary += chance.sample(usual, min(PER_SESSION, len(usual)))
    if not server or not needing or not ordinary:
        return []
    needing, ordinary = (chance.sample(each, min(2 if quick else POINTS, len(each))) for each in (needing, ordinary))
    cases: dict[str, list[Uncertainty]] = {
        "passage": [ask(server, each.passage, each.window) for each in needing],
        "stub": [ask(server, each.stub, each.window) for each in needing],
        "neither": [ask(server, "", each.window) for each in needing],
        "ordinary": [ask(server, each.stub, each.window) for each in ordinary],
    }
    return [
        *(single("points", name, "", len(each)) for name, each in cases.items()),
        *(
            single(
                "the name came",
                name,
                "%",
                100 * _mean([float(p.name in u.text) for p, u in zip(needing, cases[name], strict=True)]),
            )
            for name in ("passage", "stub", "neither")
        ),
        *(
            row
            for measure, value in MEASURES.items()
            for row in _rows(measure, {n: list(map(value, c)) for n, c in cases.items()})
        ),
        *(
            single(
                "above the seed's gate",
                f"{name}, {gate}",
                "%",
                100 * _mean([float(_mean(u.entropy) > gate) for u in case]),
            )
            for name, case in cases.items()
            for gate in SEED_GATES
        ),
    ]


def _rows(measure: str, values: Mapping[str, Sequence[float]]) -> Iterator[Row]:
    yield from (single(f"{measure}, mean", name, "nats", _mean(each)) for name, each in values.items())
    for low in ("passage", "ordinary"):
        for high in ("stub", "neither"):
            begin, end = interval(values[low], values[high])
            name = f"{high} against {low}"
            yield single(f"{measure}, AUC", name, "", auc(values[low], values[high]))
            yield single(f"{measure}, AUC from", name, "", begin)
            yield single(f"{measure}, AUC to", name, "", end)
    for high in ("stub", "neither"):
        yield single(
            f"{measure}, false alarms", f"half of {high} caught", "%", 100 * flagged(values["ordinary"], values[high])
        )


GROUP = Group("entropy", (), (Part("gate", _gate),), by_default=False)
