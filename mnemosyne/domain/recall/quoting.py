"""Answers made of quotes: the passages of objects that say most about a question, word for word."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.text.passages import passages
from mnemosyne.domain.text.words import query_words, words

LEAST_COVERAGE = 0.2
"""How much of what is asked a passage must hold to be an answer; rare words count more. A word that is everywhere is no
answer."""

MOST_QUOTES = 5
"""Passages in one answer."""

MOST_LOOKED_AT = 50
"""Passages that are considered for one answer."""


@attrs.frozen
class Where:
    """Characters of an object's text."""

    object_id: str
    start: int
    end: int


@attrs.frozen
class Quotable:
    """What some objects say: the text of each by its id."""

    texts: Mapping[str, str]

    def places(self, query: str) -> list[Where]:
        """The passages that say most about a query, best first. Reading three megabytes takes a second."""
        index: WordIndex[Where] = WordIndex()
        for object_id, text in self.texts.items():
            for passage in passages(text):
                index.add(Where(object_id, passage.start, passage.end), text[passage.start : passage.end])
        hits = index.search(query, MOST_LOOKED_AT)
        return [hit.key for hit in hits if index.coverage(query, hit.key) >= LEAST_COVERAGE]

    def quotes_at(
        self, question: str, places: Sequence[Where], most: int, tokens_of: Callable[[str], int]
    ) -> list[tuple[Quote, int]]:
        """Quotes from passages, best first, that answer a question, each with its tokens; together at most ``most``.
        Passages of other objects are passed over.
        """
        asked = set(query_words(question))
        found: list[tuple[Quote, int]] = []
        taken: dict[str, list[tuple[int, int]]] = {}
        left = most
        for where in (each for each in places if each.object_id in self.texts):
            start, end = self._lines(where, asked, left, tokens_of)
            spans = taken.setdefault(where.object_id, [])
            if start == end or any(one < end and start < other for one, other in spans):
                continue
            text = self.texts[where.object_id]
            quoted = quote(where.object_id, text, start, end)
            spans.append((start, end))
            found.append((quoted, tokens_of(quoted.text)))
            left -= found[-1][1]
            if len(found) == MOST_QUOTES:
                break
        return found

    def _lines(self, where: Where, asked: set[str], most: int, tokens_of: Callable[[str], int]) -> tuple[int, int]:
        """As much of a passage as fits: the line that holds most of what is asked, growing to both sides up to half of
        ``most``, so that one long passage does not crowd out the others.
        """
        text = self.texts[where.object_id]
        lines = _lines_between(text, where.start, where.end)
        if not lines:
            return where.start, where.start
        holds = [len(asked & set(words(text[start:end]))) for start, end in lines]
        first = last = max(range(len(lines)), key=lambda number: (holds[number], -number))
        start, end = lines[first]
        if tokens_of(text[start:end]) > most:
            return start, start
        while True:
            wider = [(first - 1, last)] if first > 0 else []
            wider += [(first, last + 1)] if last + 1 < len(lines) else []
            fitting = [
                (low, high) for low, high in wider if tokens_of(text[lines[low][0] : lines[high][1]]) <= most // 2
            ]
            if not fitting:
                return lines[first][0], lines[last][1]
            first, last = max(fitting, key=lambda span: sum(holds[span[0] : span[1] + 1]))


def _lines_between(text: str, start: int, end: int) -> Sequence[tuple[int, int]]:
    """The lines of a passage that hold anything."""
    found: list[tuple[int, int]] = []
    at = start
    for line in text[start:end].splitlines(keepends=True):
        stripped = line.rstrip()
        if stripped:
            found.append((at, at + len(stripped)))
        at += len(line)
    return found


def quote(object_id: str, text: str, start: int, end: int) -> Quote:
    """The quote of these characters; its place counts bytes of UTF-8."""
    before = len(text[:start].encode())
    quoted = text[start:end]
    return Quote(object_id, before, before + len(quoted.encode()), quoted)
