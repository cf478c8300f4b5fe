"""Answers made of quotes: the lines of remembered texts that answer a question, word for word.

A line is judged by three things: how much of what is asked it holds, how much of what is asked names the object that it
stands in, and whether it has the shape of what is asked for (``wants.py``). What stands around it by structure comes
with it as far as there is room. Where nothing holds enough of what is asked, there is no answer.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest

import attrs

from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.quoting import quote
from mnemosyne.domain.recall.wants import wanted
from mnemosyne.domain.text.words import query_words, words

LEAST_HELD = 0.34
"""How much of what is asked an answer and the name of its object must hold together; rare words count more."""

MOST_QUOTES = 6
"""Quotes in one answer."""

MOST_READ = 400_000
"""Characters of one object that are looked at; of a longer one its ends, and what a search found in it."""

MOST_TOGETHER = 1_500_000
"""Characters that are looked at for one answer: what is less likely to answer is left out. They take a second."""

MOST_RANKED = 60
"""Lines that are considered for one answer."""

LONGEST_UNIT = 320
"""Characters of a line that is quoted whole; a longer one is cut into sentences, and these where they are long."""

FLOOR = 0.75
"""What is quoted beside the best is worth this part of it at least."""

_NAME, _OWN, _SHAPE, _RANK, _SETTLED, _OLD = 1.0, 1.0, 0.8, 0.25, 0.3, 0.15
"""What counts: the share of the question that names the object, the share of the rest in the line, its shape, the
object's rank, and that somebody settled something with it; against it, that it is out of date."""

_ASKS = 0.15
"""Against a line that is a question itself: it holds the words, and answers nothing."""

_LATER = 0.02
"""Of equals the later: a run says at its end how it went, and people conclude at theirs."""

_IN_NAME = 0.25
"""What a word counts in a line, of what it counts where it does not already name the object."""

Tokens = Callable[[str], int]
Span = tuple[int, int]


@attrs.frozen(kw_only=True)
class SearchedText:
    """An object's text. ``name`` is what it is called; ``settled`` says that somebody settled something with it,
    ``old`` that it is out of date, ``seen`` that it stands before the model. ``found`` are the characters that a search
    found in it.
    """

    id: str
    text: str
    name: str
    settled: bool = False
    old: bool = False
    seen: bool = False
    found: Sequence[Span] = ()


@attrs.frozen
class _Line:
    """A line, or a part of a long one."""

    said: SearchedText
    span: Span
    held: frozenset[str]


def answers(
    question: str, texts: Sequence[SearchedText], most: int, tokens_of: Tokens, least: float = LEAST_HELD
) -> list[tuple[Quote, int]]:
    """Quotes that answer a question, each with its tokens, together at most ``most``; the best first, what the model
    sees already last. ``texts`` come in the order of how likely they are to answer. There is no quote where no line
    holds, with its object's name, at least this share of what is asked.
    """
    ranked = _ranked(question, texts, least)
    if not ranked:
        return []
    chosen = _Chosen(most, tokens_of)
    worth = [line for score, line in ranked if score >= FLOOR * ranked[0][0]]
    for line in sorted(worth, key=lambda each: each.said.seen):
        if len(chosen.spans) < MOST_QUOTES:
            chosen.take(line)
    return chosen.quotes()


def _ranked(question: str, texts: Sequence[SearchedText], least: float) -> list[tuple[float, _Line]]:
    """The best lines with their scores, best first."""
    asked = query_words(question)
    after = wanted(question)
    texts = list(_looked_into(texts))
    lines = [line for said in texts for line in _lines(said, asked)]
    weight = _weights(asked, lines)
    total = sum(weight.values()) or 1.0
    names = {said.id: frozenset(asked).intersection(words(said.name)) for said in texts}
    priors = {
        said.id: _NAME * _sum(weight, names[said.id]) / total
        + _RANK / (1 + rank)
        + _SETTLED * said.settled
        - _OLD * said.old
        for rank, said in enumerate(texts)
    }
    scored: list[tuple[float, int, _Line]] = []
    for number, line in enumerate(lines):
        said, name = line.said, names[line.said.id]
        if _sum(weight, name | line.held) < least * total:
            continue
        own = frozenset(asked) - name
        held = _sum(weight, line.held - name) + _IN_NAME * _sum(weight, line.held & name)
        shape = after.fits(said.text[line.span[0] : line.span[1]], own)
        in_line = _OWN * min(1.0, held / (_sum(weight, own) or 1.0)) + _SHAPE * shape
        later = _LATER * line.span[0] / len(said.text)
        asks = _ASKS * said.text[line.span[0] : line.span[1]].rstrip().endswith("?")
        scored.append((priors[said.id] + in_line + later - asks, -number, line))
    return [(score, line) for score, _, line in nlargest(MOST_RANKED, scored)]


def _looked_into(texts: Sequence[SearchedText]) -> Iterator[SearchedText]:
    """As many of the texts as may be looked at, the likelier first."""
    left = MOST_TOGETHER
    for said in texts:
        size = min(len(said.text), MOST_READ)
        if size <= left:
            left -= size
            yield said


def _sum(weight: Mapping[str, float], some: Iterable[str]) -> float:
    return sum(weight[word] for word in some)


def _weights(asked: Sequence[str], lines: Sequence[_Line]) -> Mapping[str, float]:
    """The inverse document frequency of each word among the lines."""
    holding = dict.fromkeys(asked, 0)
    for line in lines:
        for word in line.held:
            holding[word] += 1
    return {word: math.log(1 + (len(lines) - held + 0.5) / (held + 0.5)) for word, held in holding.items()}


def _lines(said: SearchedText, asked: Sequence[str]) -> Iterator[_Line]:
    wanted_words = frozenset(asked)
    starts = tuple({word[: max(1, min(4, len(word) - 1))] for word in asked})
    for span in units(said.text, said.found):
        text = said.text[span[0] : span[1]]
        lowered = text.lower()
        may_hold = not text.isascii() or any(start in lowered for start in starts)
        held = wanted_words.intersection(words(text)) if may_hold else frozenset()
        yield _Line(said, span, frozenset(held))


_SENTENCE = re.compile(r"(?<=[.!?;])[\"')\]*_]*\s+|(?<=[。！？])|(?<=, )")  # noqa: RUF001 - full stops of other scripts
_SPACE = re.compile(r"\s+")
_RECORD = re.compile(r"(?<=[}\]]),\s*(?=[{\[\"])")


def units(text: str, found: Sequence[Span] = ()) -> Iterator[Span]:
    """The lines of a text that hold anything, long ones cut; of a very long text its ends and what was ``found``."""
    for start, end in _looked_at(len(text), found):
        at = start
        for line in text[start:end].splitlines(keepends=True):
            stripped = line.strip()
            if stripped:
                first = at + line.index(stripped[0])
                yield from _parts(text, at if first - at < _INDENT else first, first + len(stripped))
            at += len(line)


_INDENT = 40


def _looked_at(length: int, found: Sequence[Span]) -> Iterator[Span]:
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


class _Chosen:
    """What is quoted so far: spans of texts that do not touch."""

    def __init__(self, most: int, tokens_of: Tokens) -> None:
        self.spans: list[tuple[SearchedText, Span]] = []
        self._left = most
        self._tokens_of = tokens_of
        self._units: dict[str, list[Span]] = {}

    def take(self, line: _Line) -> None:
        """Quote a line, or as much of it as there is room for."""
        if any(said is line.said and _meet(span, line.span) for said, span in self.spans) or self._is_repeated(line):
            return
        span = self._within(line.said, line.span)
        if span is None:
            return
        for number, (said, other) in enumerate(self.spans):
            if said is line.said and _next(said, other, span) and self._widen(number, _both(other, span), self._left):
                return
        self.spans.append((line.said, span))
        self._left -= self._size(line.said, span)

    def quotes(self) -> list[tuple[Quote, int]]:
        """What is quoted, with what stands around it in the room that is left."""
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

    def _is_repeated(self, line: _Line) -> bool:
        """Whether the same is quoted of another object: a newer version comes before an older one."""
        text = line.said.text[line.span[0] : line.span[1]].strip()
        return any(said is not line.said and text in said.text[span[0] : span[1]] for said, span in self.spans)

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
        lines = self._lines_of(said)
        first = next(n for n, each in enumerate(lines) if each[1] > span[0])
        last = next(n for n in range(len(lines) - 1, -1, -1) if lines[n][0] < span[1])
        if span[1] < lines[last][1]:  # not even that line fits
            return
        keep = self._left - room
        for turn in range(_MOST_AROUND):
            for next_one in (last + 1, first - 1) if turn % 2 == 0 else (first - 1, last + 1):
                if not 0 <= next_one < len(lines):
                    continue
                if self._widen(number, _both(self.spans[number][1], lines[next_one]), self._left - keep):
                    first, last = min(first, next_one), max(last, next_one)
                    break
            else:
                return

    def _lines_of(self, said: SearchedText) -> list[Span]:
        if said.id not in self._units:
            self._units[said.id] = list(units(said.text, said.found))
        return self._units[said.id]


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
