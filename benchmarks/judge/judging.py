"""The share of checked questions that short forms answer, their length, and the share answered by chance."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from benchmarks.judge.material import Material, Objects, Question
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne_lab.evaluation.trace import Item

RENDITIONS = (Fidelity.DETAILED, Fidelity.COMPACT)
LINES = (Fidelity.STUB, Fidelity.EVICTED)

STRANGERS = 4
"""Other objects of the session and kind that are asked the same question, the nearest first."""

_TOKEN = re.compile(r"[^\W_]+(?:(?<=[^\W_]{4})…)?")
_FACTS = re.compile(r"(?: lines? [\d-]+)?(?: in part)?(?: \([^()]*\))?$")

Render = Callable[[Item, Fidelity], str | None]
"""Makes the short form of an object at a level; None where it has none."""


@attrs.frozen(kw_only=True)
class Verdict:
    """A question put to one short form. ``by_chance`` of the ``strangers``' short forms hold the answer, too; for a
    stub or a line ``answered`` says that it is the one which the question names. ``chars`` of ``whole`` is its length.
    """

    question: Question
    level: Fidelity
    answered: bool
    strangers: int = 0
    by_chance: int = 0
    chars: int
    whole: int


def as_recorded(item: Item, level: Fidelity) -> str | None:
    """What today's code shows of an object."""
    return item.texts.get(level)


def judge(material: Material, render: Render = as_recorded) -> Iterator[Verdict]:
    """Put each question to the short forms of its object. An object without a rendition is asked by its line alone."""
    for name, objects in material.sessions.items():
        asked = [each for each in material.questions if each.session == name]
        for level in RENDITIONS:
            shown = {item.id: text for item, _ in objects if (text := render(item, level))}
            yield from (_answered(each, level, objects, shown) for each in asked if each.item.id in shown)
        for level in LINES:
            lines = {item.id: render(item, level) or "" for item, _ in objects}
            yield from _named(asked, level, objects, lines)


def _answered(question: Question, level: Fidelity, objects: Objects, shown: Mapping[str, str]) -> Verdict:
    text = shown[question.item.id]
    strangers = [shown[each] for each in _strangers(question, objects) if each in shown][:STRANGERS]
    return Verdict(
        question=question,
        level=level,
        answered=question.pair.answered_by(text),
        strangers=len(strangers),
        by_chance=sum(map(question.pair.answered_by, strangers)),
        chars=len(text),
        whole=len(question.item.text),
    )


def _strangers(question: Question, objects: Objects) -> list[str]:
    """Objects of the same kind that come from elsewhere: of another file, command or exchange."""
    numbers = {item.id: number for number, (item, _) in enumerate(objects)}
    there = numbers[question.item.id]
    found = [
        item.id
        for item, sources in objects
        if item.kind is question.item.kind and item.id != question.item.id and not _shares(question, sources)
    ]
    return sorted(found, key=lambda each: (abs(numbers[each] - there), each))


def _shares(question: Question, sources: Sequence[object]) -> bool:
    return any(getattr(source, "key", None) == question.source.key for source in sources)


def _named(asked: Sequence[Question], level: Fidelity, objects: Objects, lines: Mapping[str, str]) -> Iterator[Verdict]:
    """Rank all lines of the session by how many words they share with a question; the right one must be first, before
    any that names something else. Of equal ones the one with fewer other words is the better name.
    """
    words = {each: _words(line) for each, line in lines.items()}
    for question in asked:
        wanted = _words(question.pair.about)
        ranks = {each: (_shared(wanted, own), -len(own - wanted)) for each, own in words.items()}
        same = {item.id for item, sources in objects if _shares(question, sources)} | {question.item.id}
        right = max(ranks[each] for each in same)
        yield Verdict(
            question=question,
            level=level,
            answered=all(ranks[each] < right for each in ranks.keys() - same),
            chars=len(lines[question.item.id]),
            whole=len(question.item.text),
        )


def _words(line: str) -> frozenset[str]:
    """The words of a line without the facts at its end; one that was cut off ends with the mark of that."""
    return frozenset(_TOKEN.findall(_FACTS.sub("", line.casefold())))


def _shared(wanted: frozenset[str], own: frozenset[str]) -> int:
    """How many words both have. One that was cut off may be any that it begins."""
    cut = {word for word in own - wanted if word.endswith("…") and any(each.startswith(word[:-1]) for each in wanted)}
    return len(wanted & own) + len(cut)
