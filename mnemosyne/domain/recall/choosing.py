"""Selection of quotes: lines as far as there is room, and the structure around them."""

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
    """An object's text in its ``parts``. ``name`` is the name of the object; ``old``: it is out of date; ``seen``: the
    model already sees it. ``found`` are the spans of search hits in it, in characters.
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
    """The current quotes: disjoint spans of texts."""

    def __init__(self, most: int, tokens_of: Tokens) -> None:
        self.spans: list[tuple[SearchedText, Span]] = []
        self._left = most
        self._tokens_of = tokens_of
        self._units: dict[str, list[Span]] = {}

    def take(self, searched: SearchedText, line: Span) -> None:
        """Quote a line, or as much of it as there is room for."""
        if any(each is searched and _meet(span, line) for each, span in self.spans) or self._is_repeated(
            searched, line
        ):
            return
        span = self._within(searched, line)
        if span is None:
            return
        if span == line and is_heading(searched.text[span[0] : span[1]]):
            span = self._with_next(searched, span)
        for number, (each, other) in enumerate(self.spans):
            if (
                each is searched
                and _next(searched, other, span)
                and self._widen(number, _both(other, span), self._left)
            ):
                return
        self.spans.append((searched, span))
        self._left -= self._size(searched, span)

    def quotes(self) -> list[tuple[Quote, int]]:
        """The quotes, each extended by the surrounding lines as far as there is room."""
        for number in range(len(self.spans)):
            self._grow(number, self._left // (len(self.spans) - number))
        self.spans.sort(key=lambda each: each[0].seen)
        return [(quote(searched.id, searched.text, *span), self._size(searched, span)) for searched, span in self.spans]

    def _size(self, searched: SearchedText, span: Span) -> int:
        return self._tokens_of(searched.text[span[0] : span[1]])

    def _widen(self, number: int, wider: Span, room: int) -> bool:
        """Extend a quote, if there is room for it and it overlaps no other quote."""
        searched, span = self.spans[number]
        more = self._size(searched, wider) - self._size(searched, span)
        others = [other for each, other in self.spans if each is searched and other != span]
        if more > room or any(_meet(wider, other) for other in others):
            return False
        self.spans[number] = searched, wider
        self._left -= more
        return True

    def _is_repeated(self, searched: SearchedText, line: Span) -> bool:
        """Whether another object's quote contains the same text; a newer version comes before an older one."""
        text = searched.text[line[0] : line[1]].strip()
        return any(each is not searched and text in each.text[span[0] : span[1]] for each, span in self.spans)

    def _within(self, searched: SearchedText, span: Span) -> Span | None:
        """The line, or as much of its beginning as there is room for; None if that would be too short to be useful."""
        start, end = span
        while self._size(searched, (start, end)) > self._left:
            end = start + (end - start) * 3 // 4
            if end - start < _LEAST_CUT:
                return None
        return start, end

    def _grow(self, number: int, room: int) -> None:
        """Extend a quote by lines below and above in turn, by at most so many tokens."""
        searched, span = self.spans[number]
        below = is_heading(searched.text[span[0] : span[1]])
        lines = self._lines_of(searched)
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

    def _with_next(self, searched: SearchedText, heading: Span) -> Span:
        """A heading together with the first line with text below it, if there is room: a heading alone is useless."""
        lines = self._lines_of(searched)
        first = next(n for n, each in enumerate(lines) if each[1] > heading[0])
        for below in lines[first + 1 : first + 1 + _MOST_BLANK]:
            wider = _both(heading, below)
            if self._size(searched, wider) > self._left or any(
                each is searched and _meet(span, wider) for each, span in self.spans
            ):
                break
            if _SAYS.search(searched.text[below[0] : below[1]]):
                return wider
        return heading

    def _lines_of(self, searched: SearchedText) -> list[Span]:
        if searched.id not in self._units:
            self._units[searched.id] = list(units(searched.text, searched.found))
        return self._units[searched.id]


_MOST_BLANK = 3
"""Lines below a heading that are searched for text."""

_SAYS = re.compile(r"[^\W\d_]")
"""A letter: more than a line number."""

_LEAST_CUT = 24
"""Minimum characters of a line cut short."""

_MOST_AROUND = 12
"""Lines quoted around a matching one."""


def _both(one: Span, other: Span) -> Span:
    return min(one[0], other[0]), max(one[1], other[1])


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _next(searched: SearchedText, one: Span, other: Span) -> bool:
    """Whether only whitespace separates two spans of a text."""
    low, high = sorted((one, other))
    return not searched.text[low[1] : high[0]].strip()
