"""Answers made of quotes: the passages of a branch's objects that say most about a question, word for word.

An object's text never changes, so the index of its passages is made once, when somebody first asks.
"""

from collections.abc import Callable, Collection, Sequence

import attrs

from mnemosyne.domain.memory_results import Quote
from mnemosyne.domain.passages import passages
from mnemosyne.domain.retrieval import WordIndex
from mnemosyne.domain.words import query_words, words

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


class Quotable:
    """The texts of a session's objects, to be searched."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._index: WordIndex[Where] = WordIndex()

    def missing(self, objects: Collection[str]) -> list[str]:
        """Those whose text is not known yet."""
        return [each for each in objects if each not in self._texts]

    def add(self, object_id: str, text: str) -> None:
        """Take in an object's text."""
        self._texts[object_id] = text
        for passage in passages(text):
            place = Where(object_id, passage.start, passage.end)
            self._index.add(place, text[passage.start : passage.end])

    def forget(self) -> None:
        """Nothing is known any more."""
        self._texts.clear()
        self._index = WordIndex()

    def best(self, query: str, among: Collection[str], limit: int) -> list[str]:
        """The objects whose best passage says most about a query, best first."""
        found = dict.fromkeys(where.object_id for where in self._search(query, among))
        return list(found)[:limit]

    def quotes(
        self, question: str, among: Collection[str], most: int, tokens_of: Callable[[str], int]
    ) -> list[tuple[Quote, int]]:
        """Passages that answer a question, best first, each with its tokens; together at most ``most``."""
        return self.quotes_at(question, self._search(question, among), most, tokens_of)

    def quotes_at(
        self, question: str, places: Sequence[Where], most: int, tokens_of: Callable[[str], int]
    ) -> list[tuple[Quote, int]]:
        """The same out of passages that were found already, best first; the texts of their objects are known."""
        asked = set(query_words(question))
        found: list[tuple[Quote, int]] = []
        taken: dict[str, list[tuple[int, int]]] = {}
        left = most
        for where in places:
            start, end = self._lines(where, asked, left, tokens_of)
            spans = taken.setdefault(where.object_id, [])
            if start == end or any(one < end and start < other for one, other in spans):
                continue
            text = self._texts[where.object_id]
            quoted = quote(where.object_id, text, start, end)
            spans.append((start, end))
            found.append((quoted, tokens_of(quoted.text)))
            left -= found[-1][1]
            if len(found) == MOST_QUOTES:
                break
        return found

    def _search(self, query: str, among: Collection[str]) -> list[Where]:
        hits = self._index.search(query, MOST_LOOKED_AT, lambda where: where.object_id in among)
        return [hit.key for hit in hits if self._index.coverage(query, hit.key) >= LEAST_COVERAGE]

    def _lines(self, where: Where, asked: set[str], most: int, tokens_of: Callable[[str], int]) -> tuple[int, int]:
        """As much of a passage as fits: from the line that holds most of what is asked, growing to both sides."""
        text = self._texts[where.object_id]
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
            fitting = [(low, high) for low, high in wider if tokens_of(text[lines[low][0] : lines[high][1]]) <= most]
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
