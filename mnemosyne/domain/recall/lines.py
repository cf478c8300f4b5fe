"""The lines of a remembered text as answers quote them: short enough, and with what they stand under."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

import attrs

from mnemosyne.domain.text.parts import TextPart, Voice

MOST_READ = 400_000
"""Characters of one object that are looked at; of a longer one its ends, and what a search found in it."""

LONGEST_UNIT = 320
"""Characters of a line that is quoted whole; a longer one is cut into sentences, and these where they are long."""

_NAMED_BY = 400
"""Characters of a call, or of a message, that name it."""

Span = tuple[int, int]


@attrs.frozen
class Stretch:
    """Characters of a text from ``start`` up to the next stretch: a call with its results, or a message. ``name`` is
    what a question may call it by.
    """

    start: int
    name: str


def stretches(parts: Sequence[TextPart], name: str) -> tuple[Stretch, ...]:
    """The stretches of an object's text that is made of these parts; ``name`` is that of the object."""
    starts = accumulate((len(part.text) + 1 for part in parts), initial=0)
    several = sum(part.voice is not Voice.RESULT for part in parts) > 1
    found: list[Stretch] = []
    for start, part in zip(starts, parts, strict=False):
        if part.voice is not Voice.RESULT or not found:
            own = f"{part.tool or ''}\n{part.text[:_NAMED_BY]}" if part.voice is not Voice.RESULT else ""
            found.append(Stretch(start, own if several else f"{name}\n{own}"))
    return tuple(found)


_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\]*_]*\s+|(?<=[。！？])|(?<=, )")  # noqa: RUF001 - full stops of other scripts
_SPACE = re.compile(r"\s+")
_RECORD = re.compile(r"(?<=[}\]]),\s*(?=[{\[\"])")
"""Between records of JSON."""


def units(text: str, found: Sequence[Span] = ()) -> Iterator[Span]:
    """The lines of a text that hold anything, long ones cut; of a very long text its ends and what was ``found``."""
    for start, end in _choose_spans(len(text), found):
        at = start
        for line in text[start:end].splitlines(keepends=True):
            stripped = line.strip()
            if stripped:
                first = at + line.index(stripped[0])
                yield from _parts(text, at if first - at < _INDENT else first, first + len(stripped))
            at += len(line)


_INDENT = 40


def _choose_spans(length: int, found: Sequence[Span]) -> Iterator[Span]:
    if length <= MOST_READ:
        yield 0, length
        return
    ends = [(0, MOST_READ // 2), *sorted(found), (length - MOST_READ // 2, length)]
    done = 0
    for start, end in ends:
        if end > done:
            yield max(start, done), end
            done = end


def _parts(text: str, start: int, end: int) -> Iterator[Span]:
    """A line, whole or in parts that are short enough: the records of JSON, sentences, or as many words."""
    if end - start > LONGEST_UNIT:
        for match in _RECORD.finditer(text, start, end):
            yield from _cut(text, start, match.end())
            start = match.end()
    yield from _cut(text, start, end)


def _cut(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > LONGEST_UNIT:
        limit = start + LONGEST_UNIT
        cuts = [match.end() for match in _SENTENCE.finditer(text, start + LONGEST_UNIT // 4, limit)]
        cuts = cuts or [match.end() for match in _SPACE.finditer(text, start + LONGEST_UNIT // 2, limit)]
        cut = cuts[-1] if cuts else limit
        yield start, cut
        start = cut
    if start < end:
        yield start, end


_HEADING = re.compile(
    r"\s{0,8}(?:\d{1,7}(?:→|\t))?#{1,6}\s{1,4}\S|\s{0,8}\*\*[^*]{1,120}\*\*:?\s{0,4}\Z|[A-Z][^.!?]{8,60}:\Z|diff --git "
)


def is_heading(line: str) -> bool:
    """Whether a line says what those below it are about."""
    return _HEADING.match(line) is not None
