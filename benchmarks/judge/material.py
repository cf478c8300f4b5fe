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

from benchmarks.judge import code_rules, prose_rules, record_rules, run_rules, search_rules
from benchmarks.judge.answers import Pair
from benchmarks.judge.sources import Source, sources_of
from mnemosyne_lab.evaluation.reading import recording, trace_of
from mnemosyne_lab.evaluation.trace import Item, Trace

CHECKED = Path(__file__).parents[1] / "data" / "short_forms.json"
TUNING, HELD_OUT = "tuning", "held-out"
SPLITS = (TUNING, HELD_OUT)

_NAME_STANDS = 200
"""A session's name is within this many first characters of its line."""

_RULES = (code_rules.pairs, run_rules.pairs, search_rules.pairs, prose_rules.pairs, record_rules.pairs)


@attrs.frozen(eq=False)
class Question:
    """A checked pair and the object that it is about; ``source`` is the part of the object that answers it."""

    split: str
    session: str
    item: Item = attrs.field(repr=False)
    source: Source = attrs.field(repr=False)
    pair: Pair


@attrs.frozen(eq=False)
class Session:
    """A recorded session's objects with their sources."""

    name: str
    objects: Sequence[tuple[Item, Sequence[Source]]] = attrs.field(repr=False)


@attrs.frozen(eq=False)
class Material:
    """Everything that is asked. ``missing`` counts checked pairs that the rules no longer make of any object."""

    sessions: Mapping[str, Session] = attrs.field(repr=False)
    questions: Sequence[Question]
    missing: int


def made(source: Source) -> Iterator[Pair]:
    """The pairs about one source; nothing is asked twice."""
    seen: set[str] = set()
    for rule in _RULES:
        for pair in rule(source):
            if pair.question not in seen:
                seen.add(pair.question)
                yield pair


def session_of(trace: Trace) -> Session:
    """A session as the judge sees it. Derived objects take no room and are not asked about."""
    there = [item for item in trace.items if item.places]
    return Session(trace.name, [(item, sources_of(trace.messages, item.places)) for item in there])


def recorded(folder: Path, names: Collection[str]) -> Iterator[Session]:
    """The sessions of these names in a folder of recordings."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if any(f'"{name}"' in line[:_NAME_STANDS] for name in names):
                    raw: dict[str, Any] = json.loads(line)
                    yield session_of(trace_of(recording(f"{path.name}, line {number}", raw)))


def listed() -> Mapping[str, Any]:
    """The repository's list of checked pairs."""
    loaded: Mapping[str, Any] = json.loads(CHECKED.read_text(encoding="utf-8"))
    return loaded


@cache
def material(folder: Path, quick: bool = False) -> Material:
    """The checked pairs with their objects; of one session in each split where it is to be ``quick``."""
    splits: Mapping[str, Sequence[str]] = listed()["splits"]
    names = {name: split for split in SPLITS for name in splits[split][: 1 if quick else None]}
    wanted = {tuple(row) for row in listed()["pairs"] if row[0] in names}
    sessions = {session.name: session for session in recorded(folder, names)}
    questions = [each for session in sessions.values() for each in _asked(session, names[session.name], wanted)]
    return Material(sessions, questions, len(wanted) - len(questions))


def _asked(session: Session, split: str, wanted: Collection[tuple[Any, ...]]) -> Iterator[Question]:
    places = {row[:3] for row in wanted}
    for item, sources in session.objects:
        place = (session.name, item.places[0].message, item.places[0].block)
        seen: set[str] = set()
        for source in sources if place in places else ():
            for pair in made(source):
                if (
                    (*place, pair.rule, pair.digest) in wanted
                    and pair.digest not in seen
                    and pair.answered_by(item.text)
                ):
                    seen.add(pair.digest)
                    yield Question(split, session.name, item, source, pair)
