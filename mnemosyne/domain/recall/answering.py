"""Answers from sources: quotes of the parts that a question is about, with what belongs to them.

A source is cut only where its structure allows it: at blank lines, but not behind a colon, in a fenced block, or before
lines that are indented further. The parts with the question's words and the search's passages come first; the lines
around them follow while there is room. A helper model gets more of more sources, and its answer is quoted the same way.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import attrs

from mnemosyne.domain.helper.answer import HelperPassage, HelperQuestion
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall.memory_results import Quote, record_name
from mnemosyne.domain.recall.retrieval import rarity
from mnemosyne.domain.recall.sources import Source, Span
from mnemosyne.domain.session.input_events import GroundedSentence
from mnemosyne.domain.text.words import compounds, query_words, words

Tokens = Callable[[str], int]

MOST_QUOTED = 4
"""Maximum number of sources that an answer quotes: in three of four answers the right one is among the first three."""

HELPER_TOKENS = 8_000
"""Maximum tokens of sources for a helper model."""

MOST_READ = 400_000
"""Maximum characters of one source that are compared with a question."""

MOST_PARTS = 3
"""Maximum number of parts of one source that are chosen for themselves."""

_FOUND = 0.25
"""Added to the share of the question in a line if a search found it."""

_FLOOR = 0.2
"""The minimum score of a line that is chosen for itself, as a share of the best one's."""

_LINE = re.compile(
    r"[^\n]{0,199}(?=\n|\Z)|[^\n]{60,196}(?:[.!?;][\"')\]*_]{0,3}|[}\]],)(?=\s)|[^\n]{100,199}(?=\s)|[^\n]{1,199}"
)
"""A line, or the part of a long one up to a sentence, a record of JSON, or a word."""

_FENCE = re.compile(r"\s*(?:\d+[\t\u2192:]\s*)?(?:```|~~~)")


@attrs.frozen
class Share:
    """How sources divide the room for quotes: the next one gets the remaining room divided by ``of``, but at least
    ``least`` tokens.
    """

    of: int
    least: int

    def take(self, left: int) -> int:
        """The room of the next source."""
        return min(left, max(left // self.of, self.least))


@attrs.frozen
class _Line:
    """A line of a source. ``begins``: the structure allows a cut before it; ``first``: it is the first of a span that
    may be quoted.
    """

    span: Span
    begins: bool
    first: bool


QUOTES, HELPER_SHARE = Share(2, 150), Share(6, 300)
"""The shares of sources in an answer, and in what a helper model gets."""


def quote(object_id: str, text: str, span: Span) -> Quote:
    """The quote of these characters; its span counts UTF-8 bytes."""
    before = len(text[: span[0]].encode())
    quoted = text[slice(*span)]
    return Quote(object_id, before, before + len(quoted.encode()), quoted)


def _names_unknown(question: str, sources: Sequence[Source]) -> bool:
    """Whether a question contains a compound name (``parse_header``, ``src/pool.py``) of which neither the whole nor
    all parts occur together in any line.
    """
    names = compounds(question)
    lines = (set(words(line)) for each in sources for line in each.text.splitlines()) if names else ()
    for line in lines:
        names = {whole: parts for whole, parts in names.items() if whole not in line and not line.issuperset(parts)}
        if not names:
            return False
    return bool(names)


def answer(question: str, sources: Sequence[Source], most: int, tokens_of: Tokens) -> list[tuple[Quote, int]]:
    """Quotes that answer a question, each with its tokens, together at most ``most``; empty if no source contains a
    name that the question asks about. ``sources`` are ordered by how likely they are to answer.
    """
    if _names_unknown(question, sources):
        return []
    return quote_sources(question, sources[:MOST_QUOTED], most, QUOTES, tokens_of)


def question_for(
    question: str, sources: Sequence[Source], objects: Mapping[str, MemoryObject], tokens_of: Tokens
) -> HelperQuestion | None:
    """The question for a helper model with these sources of ``objects``; None if there is no text."""
    quotes = quote_sources(question, sources, HELPER_TOKENS, HELPER_SHARE, tokens_of)
    passages = tuple(
        HelperPassage(
            object=each.object_id, start=each.start, name=record_name(objects[each.object_id]), text=each.text
        )
        for each, _ in quotes
    )
    return HelperQuestion(question=question, passages=passages) if passages else None


def quote_sentences(
    sentences: Iterable[GroundedSentence], texts: Mapping[str, str], most: int, tokens_of: Tokens
) -> list[tuple[GroundedSentence, Quote, int]]:
    """The sentences of a helper model that fit into ``most`` tokens, each with the quote of its bytes and their tokens
    together. ``texts`` are texts by object id; sentences without such a text or such bytes are dropped.
    """
    accepted: list[tuple[GroundedSentence, Quote, int]] = []
    for sentence in sentences:
        quoted = _read_span(texts.get(sentence.object, ""), sentence)
        tokens = tokens_of(f"{sentence.text}\n{quoted}")
        if quoted and tokens <= most:
            most -= tokens
            accepted.append((sentence, Quote(sentence.object, sentence.start, sentence.end, quoted), tokens))
    return accepted


def _read_span(text: str, sentence: GroundedSentence) -> str:
    """The bytes that support a sentence; empty if the text has no such span of whole characters."""
    try:
        return text.encode()[sentence.start : sentence.end].decode()
    except UnicodeError:
        return ""


def quote_sources(
    question: str, sources: Sequence[Source], most: int, share: Share, tokens_of: Tokens
) -> list[tuple[Quote, int]]:
    """Quotes of the parts of sources that a question is about, each with its tokens, together at most ``most``; a small
    source is quoted whole.
    """
    quotes: list[tuple[Quote, int]] = []
    cut = [list(_cut_lines(source)) for source in sources]
    held = _hold(question, sources, cut)
    for source, lines, words_of in zip(sources, cut, held, strict=True):
        room = share.take(most)
        for span in _Choice(source, lines, words_of, tokens_of).spans(room):
            tokens = tokens_of(source.text[slice(*span)])
            if tokens <= room:
                quotes.append((quote(source.id, source.text, span), tokens))
                most, room = most - tokens, room - tokens
    return quotes


def _cut_lines(source: Source) -> Iterator[_Line]:
    """The nonblank lines that may be quoted, long ones split."""
    left = MOST_READ
    for first, last in source.spans:
        begins, fenced, before = True, False, ""
        for number, match in enumerate(_LINE.finditer(source.text, first, min(last, first + left))):
            line = match[0].rstrip()
            if not line:
                begins = begins or (not fenced and not before.endswith(":"))
                continue
            deeper = _indent(line) > _indent(before) if before else False
            yield _Line((match.start(), match.start() + len(line)), begins and not deeper, number == 0 or not before)
            fenced ^= _FENCE.match(line) is not None
            begins, before = False, line
        left -= min(left, last - first)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _hold(question: str, sources: Sequence[Source], cut: Sequence[Sequence[_Line]]) -> list[list[Mapping[str, float]]]:
    """The words of the question in each line, each with its share of the question: rare words count more."""
    wanted = frozenset(query_words(question))
    held = [
        [wanted.intersection(words(source.text[slice(*line.span)])) for line in lines]
        for source, lines in zip(sources, cut, strict=True)
    ]
    count = sum(map(len, held))
    weight = {word: rarity(sum(word in of for each in held for of in each), count) for word in wanted}
    total = sum(weight.values()) or 1.0
    return [[{word: weight[word] / total for word in of} for of in each] for each in held]


def _is_found(source: Source, line: _Line) -> bool:
    return any(start < line.span[1] and line.span[0] < end for start, end in source.found)


class _Choice:
    """The lines of one source that are quoted."""

    def __init__(
        self, source: Source, lines: Sequence[_Line], held: Sequence[Mapping[str, float]], tokens_of: Tokens
    ) -> None:
        self._lines = lines
        self._held = held
        self._found = [_FOUND * _is_found(source, line) for line in lines]
        self._costs = [
            tokens_of(source.text[line.span[0] : after.span[0] if after else line.span[1]])
            for line, after in pairwise([*lines, None])
            if line is not None
        ]
        self._chosen: set[int] = set()

    def spans(self, room: int) -> Iterator[Span]:
        """The spans of the source that are quoted, in order; neighboring lines are one."""
        if sum(self._costs) <= room:
            self._chosen.update(range(len(self._lines)))
        else:
            self._widen(self._choose(room))
        start: int | None = None
        for number, after in pairwise([*sorted(self._chosen), -1]):
            start = number if start is None else start
            if after != number + 1 or self._lines[after].first:
                yield self._lines[start].span[0], self._lines[number].span[1]
                start = None

    def _choose(self, room: int) -> int:
        """Choose the best lines, each with the lines that belong to it; return the room that is left. Words that the
        chosen lines contain do not count for the next one, and neither does what a search found once some of it is
        chosen.
        """
        covered: set[str] = set()
        best, shows_found = 0.0, False
        for last in (False,) * (MOST_PARTS - 1) + (True,):
            scores = {
                number: found * (not shows_found) + sum(share for word, share in held.items() if word not in covered)
                for number, (found, held) in enumerate(zip(self._found, self._held, strict=True))
                if number not in self._chosen
            }
            number = max(scores, key=lambda each: (scores[each], -each), default=None)
            if number is None or scores[number] < _FLOOR * best:
                break
            best = max(best, scores[number])
            first, beyond = self._unit(number)
            numbers = [each for each in range(first, beyond) if each not in self._chosen]
            if sum(self._costs[each] for each in numbers) > room:
                fits = [] if last else self._around(number, numbers, room // 2)
                numbers = fits or self._around(number, numbers, room)
            room -= sum(self._costs[each] for each in numbers)
            self._chosen.update(numbers)
            covered.update(*(self._held[each] for each in (number, *numbers)))
            shows_found = shows_found or any(self._found[each] for each in numbers)
        return room

    def _unit(self, number: int) -> tuple[int, int]:
        first, last = number, number + 1
        while not (self._lines[first].begins or self._lines[first].first):
            first -= 1
        while last < len(self._lines) and not (self._lines[last].begins or self._lines[last].first):
            last += 1
        return first, last

    def _around(self, number: int, unit: Sequence[int], room: int) -> list[int]:
        """As many lines of a unit around one as there is room for, two below it for each above."""
        below, above = [each for each in unit if each > number], [each for each in reversed(unit) if each < number]
        ordered = [number]
        while below or above:
            ordered += [*below[:2], *above[:1]]
            below, above = below[2:], above[1:]
        numbers: list[int] = []
        for each in ordered:
            room -= self._costs[each]
            if room < 0:
                break
            numbers.append(each)
        return numbers

    def _widen(self, room: int) -> None:
        """Add the lines beside the chosen ones while there is room."""
        grows = True
        while grows:
            grows = False
            for number in sorted(self._chosen):
                for beside in (number + 1, number - 1):
                    fits = 0 <= beside < len(self._lines) and self._costs[beside] <= room
                    if fits and beside not in self._chosen:
                        self._chosen.add(beside)
                        room, grows = room - self._costs[beside], True
