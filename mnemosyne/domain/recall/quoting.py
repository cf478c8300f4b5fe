"""Quotes: the verbatim passages of objects that best match a question."""

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

MOST_LOOKED_AT = 50
"""Maximum number of passages considered for one answer."""


@attrs.frozen
class Where:
    """A span of an object's text, in characters."""

    object_id: str
    start: int
    end: int


def find_places(query: str, texts: Mapping[str, str]) -> list[Where]:
    """The passages of texts by object id that best match a query, best first. Three megabytes take a second."""
    index: WordIndex[Where] = WordIndex()
    for object_id, text in texts.items():
        for passage in passages(text):
            index.add(Where(object_id, passage.start, passage.end), text[passage.start : passage.end])
    hits = index.search(query, MOST_LOOKED_AT)
    return [hit.key for hit in hits if index.coverage(query, hit.key) >= LEAST_COVERAGE]


def quote_passage(where: Where, text: str, question: str, most: int, tokens_of: Callable[[str], int]) -> Quote:
    """Quote the line of a passage that has most words of the question, and the lines around it while they fit into half
    of ``most`` tokens. Without a line that fits into ``most``, quote the whole passage.
    """
    asked = set(query_words(question))
    lines = _lines_between(text, where.start, where.end)
    holds = [len(asked & set(words(text[start:end]))) for start, end in lines]
    first = last = max(range(len(lines)), key=lambda number: (holds[number], -number), default=0)
    if not lines or tokens_of(text[slice(*lines[first])]) > most:
        return quote(where.object_id, text, where.start, where.end)
    while True:
        wider = [(first - 1, last)] if first > 0 else []
        wider += [(first, last + 1)] if last + 1 < len(lines) else []
        fitting = [(low, high) for low, high in wider if tokens_of(text[lines[low][0] : lines[high][1]]) <= most // 2]
        if not fitting:
            return quote(where.object_id, text, lines[first][0], lines[last][1])
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
