"""The lines of a recorded text that answers quote: short enough, and each in its context."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

import attrs

from mnemosyne.domain.text.parts import PartRole, TextPart

MOST_READ = 400_000
"""Maximum characters examined in one object; of a longer text only both ends and the search hits."""

LONGEST_UNIT = 320
"""Characters of a line that is quoted whole; a longer one is split into sentences, and long sentences are split
again.
"""

_NAMED_BY = 400
"""Characters of a call, or of a message, that count as its name."""

Span = tuple[int, int]


@attrs.frozen
class Stretch:
    """Characters of a text from ``start`` up to the next stretch: a call with its results, or a message. A question may
    refer to it by ``name``.
    """

    start: int
    name: str


def stretches(parts: Sequence[TextPart], name: str) -> tuple[Stretch, ...]:
    """The stretches of an object's text with these parts; ``name`` is the object's name."""
    starts = accumulate((len(part.text) + 1 for part in parts), initial=0)
    several = sum(part.role is not PartRole.RESULT for part in parts) > 1
    found: list[Stretch] = []
    for start, part in zip(starts, parts, strict=False):
        if part.role is not PartRole.RESULT or not found:
            own = f"{part.tool or ''}\n{part.text[:_NAMED_BY]}" if part.role is not PartRole.RESULT else ""
            found.append(Stretch(start, own if several else f"{name}\n{own}"))
    return tuple(found)


_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\]*_]*\s+|(?<=[。！？])|(?<=, )")  # noqa: RUF001 - full stops of other scripts
_SPACE = re.compile(r"\s+")
_RECORD = re.compile(r"(?<=[}\]]),\s*(?=[{\[\"])")
"""Separator between records of JSON."""


def units(text: str, found: Sequence[Span] = ()) -> Iterator[Span]:
    """The non-blank lines of a text, long ones split; of a very long text only both ends and the spans ``found``."""
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
    """A line, whole or in parts that are short enough: the records of JSON, sentences, or as many words as fit."""
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
    """Whether a line is a heading for the lines below it."""
    return _HEADING.match(line) is not None
