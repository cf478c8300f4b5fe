"""A conversation in memory, searched by words and by meaning, for ``mnemosyne search --file``.

A message's score adds the share of the query's words in its best passage and the similarity of its nearest passage. The
speaker is indexed as a word, but not embedded: the nearest vectors of "Ada" are messages that address her. Neighbours
add to the score, because an answer often has none of the question's words.

The constants are in ``domain/recall/retrieval.py``.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import attrs
import numpy as np
from numpy.typing import NDArray

from mnemosyne.domain.recall.retrieval import (
    ANSWER,
    FOLLOWING,
    PREVIOUS,
    QUESTION,
    SPEAKER,
    Embedder,
    Hit,
    WordIndex,
    blend,
)
from mnemosyne.domain.text.passages import passages
from mnemosyne.domain.text.words import query_words, share_of_questions
from mnemosyne.services.conversation_files import ConversationLine

Scores = NDArray[np.float32]

_APART = timedelta(hours=6)
"""Messages further apart in time are not neighbours."""

_NAME = re.compile(r"(\w+)(?:['\u2019]s\b)?")

_ROLES = frozenset(["user", "assistant", "system", "tool", "human", "ai", "agent", "model"])
"""Roles, which are not names."""

_BATCH = 256
"""Texts or queries of one batch."""

Progress = Callable[[int, int], None]


class ConversationIndex:
    """All messages, with the vectors of their passages; created by ``index_conversation``."""

    def __init__(self, lines: Sequence[ConversationLine], cut: "_Cut", meaning: "_Meaning | None") -> None:
        self._lines = lines
        self._first = cut.first
        self._meaning = meaning
        self._adjacent = np.array(list(_neighbours(lines)), dtype=np.float32)
        asked = np.array([share_of_questions(line.text) for line in lines], dtype=np.float32)
        self._answers = self._adjacent * (asked[:-1] > 0)
        self._says = 1 - QUESTION * asked
        self._speakers = _speakers(lines)
        self._same_id = max(Counter(line.id for line in lines).values(), default=1)
        self._scored: dict[str, tuple[NDArray[np.int32], Scores]] = {}
        self._words: WordIndex[int] = WordIndex()
        self._passages = len(cut.texts)
        for number, (owner, text) in enumerate(zip(cut.owners, cut.texts, strict=True)):
            speaker = lines[owner].role if self._speakers[owner] else ""
            self._words.add(number, " ".join((speaker, _date_words(lines[owner].time), text)))

    async def search(self, queries: Sequence[str], limit: int, progress: Progress) -> list[list[Hit[Hashable]]]:
        """The best messages of each query, best first; scores are from 0 to 1, comparable within a query."""
        found: list[list[Hit[Hashable]]] = []
        if not self._lines:
            return [[] for _ in queries]
        for start in range(0, len(queries), _BATCH):
            batch = queries[start : start + _BATCH]
            scores: Iterable[Scores] = map(self._by_words, batch)
            if self._meaning is not None:
                near = await self._meaning.nearness([_without(self._speakers, query) for query in batch])
                scores = map(blend, scores, near)
            found += [self._best(self._in_context(one, query), limit) for query, one in zip(batch, scores, strict=True)]
            progress(len(found), len(queries))
        return found

    def _best(self, total: Scores, limit: int) -> list[Hit[Hashable]]:
        enough = min(limit * self._same_id, len(total))
        first = np.sort(np.argpartition(-total, enough - 1)[:enough])
        best: dict[Hashable, float] = {}
        for number in first[np.argsort(-total[first], kind="stable")]:
            best.setdefault(self._lines[number].id, max(0.0, float(total[number])))
        return [Hit(key, score) for key, score in list(best.items())[:limit]]

    def _by_words(self, query: str) -> Scores:
        """For each message, the share of the query's word weights in its best passage, from 0 to 1."""
        found, most = np.zeros(self._passages, dtype=np.float32), 0.0
        for word in query_words(query):
            most += self._words.most(word)
            if word not in self._scored:
                scores = self._words.scores_of(word)
                self._scored[word] = np.array(list(scores), np.int32), np.array(list(scores.values()), np.float32)
            numbers, scores_of_word = self._scored[word]
            found[numbers] += scores_of_word
        best: Scores = np.maximum.reduceat(found, self._first)
        return best / np.float32(most or 1)

    def _in_context(self, scores: Scores, query: str) -> Scores:
        """The scores with shares of the neighbours', lowered for questions and raised for a named speaker."""
        total = scores.copy()
        total[1:] += (PREVIOUS * self._adjacent + ANSWER * self._answers) * scores[:-1]
        total[:-1] += FOLLOWING * self._adjacent * scores[1:]
        asked = _names(query)
        named = np.array([not asked.isdisjoint(names) for names in self._speakers], dtype=np.float32)
        total *= self._says * (1 + SPEAKER * named)
        most = (1 + PREVIOUS + FOLLOWING + ANSWER * self._answers.any()) * (1 + SPEAKER * named.any())
        return total / np.float32(most)


async def index_conversation(
    lines: Sequence[ConversationLine], embedder: Embedder | None, progress: Progress
) -> ConversationIndex:
    """Index the conversation; without an embedder, by words alone. ``progress`` receives the numbers of embedded and of
    all texts.
    """
    cut = _cut(lines)
    if embedder is None or not lines:
        return ConversationIndex(lines, cut, None)
    return ConversationIndex(lines, cut, _Meaning(embedder, await _embed(embedder, cut.texts, progress), cut.first))


@attrs.frozen
class _Cut:
    """The passages of all messages, the message of each, and the first passage of each message. An empty message is one
    passage.
    """

    texts: Sequence[str]
    owners: Sequence[int]
    first: Sequence[int]


def _cut(lines: Sequence[ConversationLine]) -> _Cut:
    texts: list[str] = []
    owners: list[int] = []
    first: list[int] = []
    for number, line in enumerate(lines):
        first.append(len(texts))
        texts += [line.text[part.start : part.end] for part in passages(line.text)] or [""]
        owners += [number] * (len(texts) - len(owners))
    return _Cut(texts, owners, first)


@attrs.frozen(eq=False)
class _Meaning:
    """The vectors of all passages. ``first`` has the first passage of each message."""

    embedder: Embedder
    vectors: Scores
    first: Sequence[int]

    async def nearness(self, queries: Sequence[str]) -> Scores:
        """A row for each query: the similarity of each message's nearest passage."""
        vectors = await _embed(self.embedder, queries)
        nearness: Scores = np.maximum.reduceat(vectors @ self.vectors.T, self.first, axis=1)
        return nearness


async def _embed(embedder: Embedder, texts: Sequence[str], progress: Progress = lambda done, total: None) -> Scores:
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        vectors[start : start + len(batch)] = np.array(await embedder.embed(batch), dtype=np.float32)
        progress(start + len(batch), len(texts))
    return vectors


def _names(text: str) -> frozenset[str]:
    """All words, as possible names."""
    return frozenset(match[1].casefold() for match in _NAME.finditer(text))


def _speakers(lines: Sequence[ConversationLine]) -> Sequence[frozenset[str]]:
    """The names of each message's speaker; empty for a role."""
    named = {role: _names(role) - _ROLES for role in {line.role for line in lines}}
    return [named[line.role] for line in lines]


def _without(speakers: Sequence[frozenset[str]], query: str) -> str:
    """A query without the names of speakers, unless nothing else remains."""
    names = frozenset[str]().union(*speakers)
    rest = _NAME.sub(lambda match: "" if match[1].casefold() in names else match[0], query)
    return " ".join(rest.split()) or query


def _neighbours(lines: Sequence[ConversationLine]) -> Iterator[bool]:
    """For each message but the last, whether the next one is in the same exchange."""
    times = [_parse(line.time) for line in lines]
    for number in range(len(lines) - 1):
        earlier, later = times[number], times[number + 1]
        if earlier is not None and later is not None:
            yield abs(later - earlier) < _APART
        else:
            yield lines[number].time == lines[number + 1].time


def _parse(time: str) -> datetime | None:
    try:
        # Only differences matter, so zones are ignored.
        return datetime.fromisoformat(time).replace(tzinfo=None)
    except ValueError:
        return None


def _date_words(time: str) -> str:
    parsed = _parse(time)
    return f"{parsed.day} {parsed:%B %Y}" if parsed else time
