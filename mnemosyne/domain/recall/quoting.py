"""Answers made of quotes: the verbatim passages of objects that best match a question."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.retrieval import WordIndex
from mnemosyne.domain.text.passages import passages
from mnemosyne.domain.text.words import query_words, words

LEAST_COVERAGE = 0.2
"""Minimum share of the question that a passage must contain to be an answer; rare words count more, and words that
occur everywhere count nothing.
"""

MOST_QUOTES = 5
"""Maximum number of passages in one answer."""

MOST_LOOKED_AT = 50
"""Maximum number of passages considered for one answer."""


@attrs.frozen
class Where:
    """A span of an object's text, in characters."""

    object_id: str
    start: int
    end: int


@attrs.frozen
class Quotable:
    """Texts of objects by id."""

    texts: Mapping[str, str]

    def places(self, query: str) -> list[Where]:
        """The passages that best match a query, best first. Reading three megabytes takes a second."""
        index: WordIndex[Where] = WordIndex()
        for object_id, text in self.texts.items():
            for passage in passages(text):
                index.add(Where(object_id, passage.start, passage.end), text[passage.start : passage.end])
        hits = index.search(query, MOST_LOOKED_AT)
        return [hit.key for hit in hits if index.coverage(query, hit.key) >= LEAST_COVERAGE]

    def quotes_at(
        self, question: str, places: Sequence[Where], most: int, tokens_of: Callable[[str], int]
    ) -> list[tuple[Quote, int]]:
        """Quotes from passages, best first, each with its tokens; together at most ``most``.

        Passages of other objects are skipped.
        """
        asked = set(query_words(question))
        quotes: list[tuple[Quote, int]] = []
        taken: dict[str, list[tuple[int, int]]] = {}
        remaining = most
        for where in (each for each in places if each.object_id in self.texts):
            start, end = self._lines(where, asked, remaining, tokens_of)
            spans = taken.setdefault(where.object_id, [])
            if start == end or any(one < end and start < other for one, other in spans):
                continue
            text = self.texts[where.object_id]
            quoted = quote(where.object_id, text, start, end)
            spans.append((start, end))
            quotes.append((quoted, tokens_of(quoted.text)))
            remaining -= quotes[-1][1]
            if len(quotes) == MOST_QUOTES:
                break
        return quotes

    def _lines(self, where: Where, asked: set[str], most: int, tokens_of: Callable[[str], int]) -> tuple[int, int]:
        """The span of a passage to quote: the line with most words of the question, extended to both sides up to half
        of ``most``, so that one long passage does not crowd out the others.
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
    """The non-blank lines of a passage."""
    found: list[tuple[int, int]] = []
    at = start
    for line in text[start:end].splitlines(keepends=True):
        stripped = line.rstrip()
        if stripped:
            found.append((at, at + len(stripped)))
        at += len(line)
    return found


def quote(object_id: str, text: str, start: int, end: int) -> Quote:
    """The quote of these characters; its span counts UTF-8 bytes."""
    before = len(text[:start].encode())
    quoted = text[start:end]
    return Quote(object_id, before, before + len(quoted.encode()), quoted)
