"""What an answer quotes: lines as far as there is room, and what stands around them by structure."""

import re
from collections.abc import Callable, Sequence

import attrs

from mnemosyne.domain.recall.lines import Span, is_heading, units
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.quoting import quote
from mnemosyne.domain.text.parts import TextPart, join

Tokens = Callable[[str], int]


@attrs.frozen(kw_only=True)
class SearchedText:
    """An object's text in its ``parts``. ``name`` is that of the object; ``old`` says that it is out of date, ``seen``
    that the model sees it already. ``found`` are the characters that a search found in it.
    """

    id: str
    parts: tuple[TextPart, ...] = attrs.field(repr=False)
    name: str
    old: bool = False
    seen: bool = False
    found: Sequence[Span] = ()
    text: str = attrs.field(init=False, eq=False, repr=False)

    @text.default
    def _join(self) -> str:
        return join(self.parts)


class ChosenLines:
    """What is quoted so far: spans of texts that do not touch."""

    def __init__(self, most: int, tokens_of: Tokens) -> None:
        self.spans: list[tuple[SearchedText, Span]] = []
        self._left = most
        self._tokens_of = tokens_of
        self._units: dict[str, list[Span]] = {}

    def take(self, said: SearchedText, line: Span) -> None:
        """Quote a line, or as much of it as there is room for."""
        if any(each is said and _meet(span, line) for each, span in self.spans) or self._is_repeated(said, line):
            return
        span = self._within(said, line)
        if span is None:
            return
        if span == line and is_heading(said.text[span[0] : span[1]]):
            span = self._with_next(said, span)
        for number, (each, other) in enumerate(self.spans):
            if each is said and _next(said, other, span) and self._widen(number, _both(other, span), self._left):
                return
        self.spans.append((said, span))
        self._left -= self._size(said, span)

    def quotes(self) -> list[tuple[Quote, int]]:
        """What is quoted, with the lines around it as far as there is room."""
        for number in range(len(self.spans)):
            self._grow(number, self._left // (len(self.spans) - number))
        self.spans.sort(key=lambda each: each[0].seen)
        return [(quote(said.id, said.text, *span), self._size(said, span)) for said, span in self.spans]

    def _size(self, said: SearchedText, span: Span) -> int:
        return self._tokens_of(said.text[span[0] : span[1]])

    def _widen(self, number: int, wider: Span, room: int) -> bool:
        """Quote more of a text, if there is room for it and nothing else is quoted there."""
        said, span = self.spans[number]
        more = self._size(said, wider) - self._size(said, span)
        others = [other for each, other in self.spans if each is said and other != span]
        if more > room or any(_meet(wider, other) for other in others):
            return False
        self.spans[number] = said, wider
        self._left -= more
        return True

    def _is_repeated(self, said: SearchedText, line: Span) -> bool:
        """Whether the same is quoted of another object: a newer version comes before an older one."""
        text = said.text[line[0] : line[1]].strip()
        return any(each is not said and text in each.text[span[0] : span[1]] for each, span in self.spans)

    def _within(self, said: SearchedText, span: Span) -> Span | None:
        """The line, or as much of its beginning as there is room for; None where that says nothing."""
        start, end = span
        while self._size(said, (start, end)) > self._left:
            end = start + (end - start) * 3 // 4
            if end - start < _LEAST_CUT:
                return None
        return start, end

    def _grow(self, number: int, room: int) -> None:
        """Quote lines around what is quoted, the next below and above in turn, in at most so many tokens."""
        said, span = self.spans[number]
        below = is_heading(said.text[span[0] : span[1]])
        lines = self._lines_of(said)
        first = next(n for n, each in enumerate(lines) if each[1] > span[0])
        last = next(n for n in range(len(lines) - 1, -1, -1) if lines[n][0] < span[1])
        if span[1] < lines[last][1]:  # not even that line fits
            return
        keep = self._left - room
        for turn in range(_MOST_AROUND):
            for next_one in (last + 1, first - 1) if below or turn % 2 == 0 else (first - 1, last + 1):
                if not 0 <= next_one < len(lines):
                    continue
                if self._widen(number, _both(self.spans[number][1], lines[next_one]), self._left - keep):
                    first, last = min(first, next_one), max(last, next_one)
                    break
            else:
                return

    def _with_next(self, said: SearchedText, heading: Span) -> Span:
        """A heading with the first line below it that says something, if there is room: alone it tells nothing."""
        lines = self._lines_of(said)
        first = next(n for n, each in enumerate(lines) if each[1] > heading[0])
        for below in lines[first + 1 : first + 1 + _MOST_BLANK]:
            wider = _both(heading, below)
            if self._size(said, wider) > self._left or any(
                each is said and _meet(span, wider) for each, span in self.spans
            ):
                break
            if _SAYS.search(said.text[below[0] : below[1]]):
                return wider
        return heading

    def _lines_of(self, said: SearchedText) -> list[Span]:
        if said.id not in self._units:
            self._units[said.id] = list(units(said.text, said.found))
        return self._units[said.id]


_MOST_BLANK = 3
"""Lines below a heading of which one says something."""

_SAYS = re.compile(r"[^\W\d_]")
"""More than the number of a line."""

_LEAST_CUT = 24
"""Characters of a line that are worth being quoted without the rest of it."""

_MOST_AROUND = 12
"""Lines that are quoted around one that answers."""


def _both(one: Span, other: Span) -> Span:
    return min(one[0], other[0]), max(one[1], other[1])


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _next(said: SearchedText, one: Span, other: Span) -> bool:
    """Whether nothing but blanks stands between two spans of a text."""
    low, high = sorted((one, other))
    return not said.text[low[1] : high[0]].strip()
