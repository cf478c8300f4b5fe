"""Demands: text in a recorded reply that the agent took word for word from earlier context.

An *exact text* is the old text of an edit; a *specific* is a path, an identifier, a number or a quoted string that
occurs in the history and not in the newest input. The recorded agent saw all of it; the question is whether a managed
agent would have.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.text.entities import specifics
from mnemosyne.domain.window.assembly import REPLACED
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne_lab.evaluation.trace import Item, Trace, TracePart

EXACT = "exact text"
SHORTEST_EXACT = 12
"""Characters without white space; shorter old texts are found everywhere."""

MOST_SOURCES = 40
"""So many of the latest objects that hold a specific are looked at."""

_LINE_NUMBERS = re.compile(r"^ {0,8}\d{1,7}[→\t]", re.MULTILINE)


class Outcome(Enum):
    """Whether the window held a demanded text."""

    RESIDENT = "resident"
    DECLARED = "declared"
    """The window named its source, or said that such specifics were dropped: one restore finds it."""
    SILENT = "silent"


@attrs.frozen(kw_only=True)
class Demand:
    """``text`` was needed for the reply to request ``turn``. ``kind`` is EXACT or a specific's kind; ``sources`` are
    the objects that hold it, latest first; ``distance`` counts turns since it was last said.
    """

    turn: int
    text: str
    kind: str
    sources: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether it is the old text of an edit, without which the edit fails."""
        return self.kind == EXACT


@attrs.frozen(kw_only=True)
class ShownObject:
    """The window's rendering of an object: all of it, or a ``text``. ``lost`` names the kinds of specifics it lacks;
    ``parts`` are the object's.
    """

    full: bool
    text: str = ""
    lost: str = ""
    parts: tuple[TracePart, ...] = ()


def plain(text: str) -> str:
    """A text without the line numbers that a reader puts before its lines: an edit quotes the file, not the reader."""
    return _LINE_NUMBERS.sub("", text)


def demands(trace: Trace) -> tuple[Demand, ...]:
    """All demands of the recorded replies, in order. Context that the user dropped does not count."""
    held = _Held(trace.items)
    found: list[Demand] = []
    before = 0
    for request in trace.requests:
        reply = trace.messages[request.messages] if request.messages < len(trace.messages) else None
        if reply is not None and reply["role"] == "assistant":
            newest = "\n".join(texts_of(trace.messages[before : request.messages]))
            ordered = [reset.kept_from for reset in trace.resets if reset.by_user and reset.turn <= request.turn]
            there = range(max(ordered, default=0), request.messages)
            for text, kind in _list_needed(reply, newest):
                # What nothing before the newest input holds is no demand.
                if sources := held.find(text, kind, there)[:MOST_SOURCES]:
                    ids = tuple(item.id for item in sources)
                    found.append(Demand(turn=request.turn, text=text, kind=kind, sources=ids))
        before = request.messages + 1
    return tuple(found)


def _list_needed(reply: Mapping[str, Any], newest: str) -> Iterator[tuple[str, str]]:
    """The texts of a reply, with their kinds, that the newest input does not contain."""
    shown = plain(newest)
    for old in dict.fromkeys(map(plain, _exact_texts(reply))):
        if old not in shown:
            yield old, EXACT
    present = {each.text for each in specifics(newest)}
    taken = {each.text: each.kind.value for each in specifics("\n".join(texts_of([reply])))}
    for text in sorted(taken.keys() - present):
        if text not in newest:
            yield text, taken[text]


class _Held:
    """Which object holds what, the latest first."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = sorted((item for item in items if item.places), key=lambda item: item.places[-1], reverse=True)
        self._plain = {item.id: plain(item.text) for item in self._items}
        self._by_specific: dict[str, list[Item]] = {}
        for item in self._items:
            for text in {each.text for each in specifics(item.text)}:
                self._by_specific.setdefault(text, []).append(item)

    def find(self, text: str, kind: str, messages: range) -> list[Item]:
        """The objects that begin in these messages and hold an exact text, or a specific of another kind."""
        if kind == EXACT:
            there = [item for item in self._items if item.places[0].message in messages]
            return [item for item in there if text in self._plain[item.id]]
        return [item for item in self._by_specific.get(text, ()) if item.places[0].message in messages]


def outcome(demand: Demand, shown: Callable[[str], ShownObject], window: Callable[[], Iterable[str]]) -> Outcome:
    """Judge a demand by the renderings of its sources and by the other texts of the ``window`` (in ``plain`` form),
    which are read only if needed.
    """
    renderings = [shown(source) for source in demand.sources]
    if any(rendering.full for rendering in renderings) or any(demand.text in text for text in window()):
        return Outcome.RESIDENT
    return Outcome.DECLARED if any(_declares(rendering, demand) for rendering in renderings) else Outcome.SILENT


def _declares(rendering: ShownObject, demand: Demand) -> bool:
    """Whether it names the very call that would bring it back, or says that such specifics are missing."""
    if demand.kind in rendering.lost:
        return True
    holding = (part for part in rendering.parts if demand.text in plain(part.text))
    return any(name in rendering.text for part in holding for name in part.names)


# Reading messages


def _exact_texts(reply: Mapping[str, Any]) -> Iterator[str]:
    for block in content_blocks(reply["content"]):
        if is_call(block) and isinstance(block.get("input"), dict):
            yield from _old_texts(block["input"])


def _old_texts(arguments: Mapping[str, Any]) -> Iterator[str]:
    for key, value in arguments.items():
        if key in REPLACED and isinstance(value, str) and len("".join(value.split())) >= SHORTEST_EXACT:
            yield value
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from _old_texts(each)


def texts_of(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """All texts in messages except thinking, which cannot be checked."""
    for message in messages:
        for block in content_blocks(message["content"]):
            match block:
                case {"type": "tool_result", "content": content}:
                    yield from _strings(content)
                case {"type": "text", "text": str(text)}:
                    yield text
                case {"type": "tool_use", "input": arguments}:
                    yield from _strings(arguments)


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
