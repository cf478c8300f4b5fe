"""Facets: what a reader looks for in a text of some role, where it stands, and what comes first."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from mnemosyne.domain.summaries.extractive.units import TextUnit

_HEAD, _TAIL = 800, 200
"""Characters of a longer unit that say what kind of line it is."""

_LONGEST_ENTRY = 400
"""Characters of a line that are kept together: of longer ones as many pieces."""

Entry = tuple[int, ...]
"""Units, by number, that are kept together or not at all."""


@attrs.frozen(kw_only=True)
class Facet:
    """Things of one sort in a text, ``noun`` in the singular. The ``entries`` are in the order in which they are worth
    keeping. A facet of a lower ``rank`` comes before one of a higher, and takes at most its ``share`` of the room as
    long as others wait. ``told`` says that a reader counts them: then it is declared how many are there, and how many
    are not. Where an entry does not fit, ``less`` has for each what of it may be kept then, or it ``shrinks``
    to its beginning. ``counts`` has how many things each entry is, where it may be more than one.
    """

    noun: str
    entries: tuple[Entry, ...]
    rank: int
    share: float = 1.0
    told: bool = True
    less: tuple[Entry, ...] = ()
    shrinks: bool = False
    counts: tuple[int, ...] = ()


@attrs.frozen
class LineSigns:
    """The look of the lines by which a role is known, and the least share of a text's lines that must have it."""

    pattern: re.Pattern[str]
    least: float

    def fit(self, lines: Sequence[str]) -> bool:
        """Whether lines are those of such a text."""
        found = sum(self.pattern.match(line[:_HEAD]) is not None for line in lines)
        return bool(lines) and found >= self.least * len(lines)


Extractor = Callable[[Sequence[TextUnit], range], list[Facet]]
"""The facets of the units in a range, whose text has the extractor's role. Pure, and linear in the text."""


def head_of(unit: TextUnit) -> str:
    """A unit's text as patterns read it: what is longer than any line is read at both ends."""
    text = unit.text or ""
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}{text[-_TAIL:]}"


def each(numbers: Iterable[int]) -> tuple[Entry, ...]:
    """Every unit an entry of its own."""
    return tuple((number,) for number in numbers)


def whole_lines(units: Sequence[TextUnit], numbers: Iterable[int], within: range) -> tuple[Entry, ...]:
    """For each unit the rest of its line, up to a piece of ``_LONGEST_ENTRY`` characters more."""
    found = []
    for number in numbers:
        end, size = number + 1, len(units[number].text or "")
        while end < within.stop and units[end].line == units[number].line and size < _LONGEST_ENTRY:
            size += len(units[end].text or "")
            end += 1
        found.append(tuple(range(number, end)))
    return tuple(found)


def lines(noun: str, units: Sequence[TextUnit], numbers: Iterable[int], within: range, **how: Any) -> Facet:
    """A facet of lines, each whole; where that is too long, as much of its beginning as there is room for."""
    return Facet(noun=noun, entries=whole_lines(units, numbers, within), shrinks=True, **how)


def begins_line(units: Sequence[TextUnit], number: int) -> bool:
    """Whether a unit is the first piece of its line."""
    return number == 0 or units[number - 1].line != units[number].line


def ends_line(units: Sequence[TextUnit], number: int) -> bool:
    """Whether a unit is the last piece of its line."""
    return number + 1 == len(units) or units[number + 1].line != units[number].line
