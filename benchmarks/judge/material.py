"""The recorded sessions as objects, and the checked pairs about them.

``data/short_forms.json`` contains no recorded text: a pair is a session's name, the place of its object's first block,
its rule and a hash of question and answer. The rules generate the pair again; pairs that are no longer generated or no
longer in an object are counted and skipped.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from benchmarks.judge.answers import Pair
from benchmarks.judge.rules import RULES
from benchmarks.judge.sources import Source, sources_of
from benchmarks.recordings import list_raw
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.trace import Item, Trace, trace_of

CHECKED = Path(__file__).parents[1] / "data" / "short_forms.json"
TUNING, HELD_OUT = "tuning", "held-out"


@attrs.frozen(eq=False)
class Question:
    """A checked pair and the object that it is about; ``source`` is the part of the object that answers it."""

    split: str
    session: str
    item: Item = attrs.field(repr=False)
    source: Source = attrs.field(repr=False)
    pair: Pair


Objects = Sequence[tuple[Item, Sequence[Source]]]
"""The objects of a recorded session with their sources."""


@attrs.frozen(eq=False)
class Material:
    """Everything that is asked. ``missing`` counts checked pairs that the rules no longer make of any object."""

    sessions: Mapping[str, Objects] = attrs.field(repr=False)
    questions: Sequence[Question]
    missing: int


def made(source: Source) -> Iterator[Pair]:
    """The pairs about one source; nothing is asked twice."""
    seen: set[str] = set()
    for rule in RULES[source.speaker == "tool"]:
        for pair in rule(source):
            if pair.question not in seen:
                seen.add(pair.question)
                yield pair


def list_objects(trace: Trace) -> Objects:
    """The objects of a session, as the judge sees it. Derived objects take no room and are not asked about."""
    return [(item, sources_of(trace.messages, item.places)) for item in trace.items if item.places]


def listed() -> Mapping[str, Any]:
    """The repository's list of checked pairs."""
    loaded: Mapping[str, Any] = json.loads(CHECKED.read_text(encoding="utf-8"))
    return loaded


@cache
def material(quick: bool = False) -> Material:
    """The checked pairs with their objects; of one session in each split where it is to be ``quick``."""
    splits: Mapping[str, Sequence[str]] = listed()["splits"]
    names = {name: split for split in (TUNING, HELD_OUT) for name in splits[split][: 1 if quick else None]}
    wanted = {tuple(row) for row in listed()["pairs"] if row[0] in names}
    sessions = {
        each["name"]: list_objects(trace_of(recording(each["name"], each))) for each in list_raw("*.jsonl", names=names)
    }
    questions = [each for name, objects in sessions.items() for each in _ask(name, objects, names[name], wanted)]
    return Material(sessions, questions, len(wanted) - len(questions))


def _ask(session: str, objects: Objects, split: str, wanted: Collection[tuple[Any, ...]]) -> Iterator[Question]:
    places = {row[:3] for row in wanted}
    for item, sources in objects:
        place = (session, item.places[0].message, item.places[0].block)
        seen: set[str] = set()
        for source in sources if place in places else ():
            for pair in made(source):
                is_wanted = (*place, pair.rule, pair.digest) in wanted and pair.digest not in seen
                if is_wanted and pair.answered_by(item.text):
                    seen.add(pair.digest)
                    yield Question(split, session, item, source, pair)
