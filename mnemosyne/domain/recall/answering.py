"""Answers made of quotes: the lines of recorded texts that contain most of a question, verbatim.

A line is scored by the share of the question in it, the share in the name of its call, and the rank of its object.
Surrounding lines are quoted with it as far as there is room. If no line contains enough of the question, there is no
answer.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest

import attrs

from mnemosyne.domain.recall.choosing import ChosenLines, SearchedText, Tokens
from mnemosyne.domain.recall.lines import MOST_READ, Span, Stretch, is_heading, stretches, units
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.text.words import compounds, query_words, words

LEAST_HELD = 0.34
"""The share of a question that a line and its object's name must contain together; rare words count more."""

MOST_QUOTES = 6
"""Maximum number of quotes in one answer."""

MOST_TOGETHER = 1_500_000
"""Maximum characters compared with one question, about a second's work; less likely texts are skipped."""

MOST_RANKED = 60
"""Maximum number of lines considered for one answer."""

FLOOR = 0.75
"""The minimum score of a further quote, as a share of the best score."""

_OWN, _NAME, _RANK, _OLD = 1.0, 1.0, 0.25, 0.15
"""Weights of a score: the share of the question in the line, the share in the name of its call, the rank of its object;
subtracted if the object is out of date."""

_CONTEXT = 0.5
"""Weight of a word in the heading above a line, or in the line before it."""

_IN_NAME = 0.25
"""Weight of a word in a line if it also occurs in the name of the call: it says less about the line."""

_AGAIN = 0.12
"""Subtracted from each further line of one object: another version or run may be meant."""


@attrs.frozen
class _Line:
    """A line, or a part of a long one: the words of the question in it, in its heading or the previous line
    (``context``), and in the name of its call.
    """

    text: SearchedText
    span: Span
    held: frozenset[str]
    context: frozenset[str]
    name: frozenset[str]
    rank: int


def answers(
    question: str, texts: Sequence[SearchedText], most: int, tokens_of: Tokens, least: float = LEAST_HELD
) -> list[tuple[Quote, int]]:
    """Return the quotes that answer a question, each with its tokens, together at most ``most``; the best first,
    content that the model already sees last. ``texts`` are ordered by how likely they are to answer. A line is quoted
    only if it contains, with the name of its call, at least the share ``least`` of the question.
    """
    asked = query_words(question)
    lines = [line for rank, text in enumerate(_limit(texts)) for line in _lines(text, asked, rank)]
    if least and _names_unknown(question, lines):
        return []
    chosen = ChosenLines(most, tokens_of)
    for line in _in_turn(_rank(question, asked, lines, least)):
        if len(chosen.spans) == MOST_QUOTES:
            break
        chosen.take(line.text, line.span)
    return chosen.quotes()


def _limit(texts: Sequence[SearchedText]) -> Iterator[SearchedText]:
    """The likeliest texts, up to the limit on compared characters."""
    remaining_chars = MOST_TOGETHER
    for text in texts:
        size = min(len(text.text), MOST_READ)
        if size <= remaining_chars:
            remaining_chars -= size
            yield text


def _lines(text: SearchedText, asked: Sequence[str], rank: int) -> Iterator[_Line]:
    wanted = frozenset(asked)
    starts = tuple({word[: max(1, min(4, len(word) - 1))] for word in asked})
    remaining = iter(stretches(text.parts, text.name))
    stretch, following = next(remaining, Stretch(0, "")), next(remaining, None)
    name = wanted.intersection(words(stretch.name))
    before = heading = frozenset[str]()
    for span in units(text.text, text.found):
        while following is not None and span[0] >= following.start:
            stretch, following = following, next(remaining, None)
            name = wanted.intersection(words(stretch.name))
            before = heading = frozenset()
        line = text.text[span[0] : span[1]]
        lowered = line.lower()
        may_hold = not line.isascii() or any(start in lowered for start in starts)
        held = wanted.intersection(words(line)) if may_hold else frozenset[str]()
        if is_heading(line):
            heading = held
        yield _Line(text, span, held, before | heading, name, rank)
        before = held


def _names_unknown(question: str, lines: Sequence[_Line]) -> bool:
    """Whether a question contains a compound name (``parse_header``, ``src/pool.py``) of which neither the whole nor
    all parts occur together in any line or name.
    """
    held = {*(line.held for line in lines), *(line.name for line in lines)}
    return any(
        not any(whole in each or each.issuperset(parts) for each in held)
        for whole, parts in compounds(question).items()
    )


def _rank(question: str, asked: Sequence[str], lines: Sequence[_Line], least: float) -> list[tuple[float, _Line]]:
    """The best lines with their scores, best first."""
    weight = _weigh_words(question, asked, lines)
    total = sum(weight.values()) or 1.0
    normalized = " ".join(question.split())
    scored: list[tuple[float, int, _Line]] = []
    for number, line in enumerate(lines):
        if _sum(weight, line.name | line.held) < least * total:
            continue
        if line.held and _repeats(normalized, " ".join(line.text.text[slice(*line.span)].split())):
            continue
        own = _sum(weight, line.held - line.name) + _IN_NAME * _sum(weight, line.held & line.name)
        own += _CONTEXT * _sum(weight, line.context - line.held - line.name)
        score = _OWN * min(1.0, own / total) + _NAME * _sum(weight, line.name) / total
        scored.append((score + _RANK / (1 + line.rank) - _OLD * line.text.old, -number, line))
    return [(score, line) for score, _, line in nlargest(MOST_RANKED, scored)]


def _repeats(question: str, line: str) -> bool:
    """Whether a question contains the whole line, or the value of a call's input on it (``command: make test``)."""
    return line in question or ((value := line.partition(": ")[2]) != "" and value in question)


def _in_turn(ranked: Sequence[tuple[float, _Line]]) -> Iterator[_Line]:
    """The lines above the floor, best first, content that the model already sees last; each further line of an object
    scores less.
    """
    floor = FLOOR * ranked[0][0] if ranked else 0.0
    candidates = [scored_line for scored_line in ranked if scored_line[0] >= floor]
    taken: Counter[str] = Counter()

    def worth(scored: tuple[float, _Line]) -> tuple[bool, float]:
        score, line = scored
        return not line.text.seen, score - _AGAIN * taken[line.text.id]

    while candidates:
        best = max(candidates, key=worth)
        candidates.remove(best)
        taken[best[1].text.id] += 1
        yield best[1]


def _weigh_words(question: str, asked: Sequence[str], lines: Sequence[_Line]) -> Mapping[str, float]:
    """The inverse document frequency of each word among the lines. The parts of a compound name count nothing if the
    name itself occurs.
    """
    holding = Counter(word for line in lines for word in line.held)
    parts = {part for whole, parts in compounds(question).items() if holding[whole] for part in parts}
    return {
        word: 0.0 if word in parts else math.log(1 + (len(lines) - holding[word] + 0.5) / (holding[word] + 0.5))
        for word in asked
    }


def _sum(weight: Mapping[str, float], some: Iterable[str]) -> float:
    return sum(weight[word] for word in some)
