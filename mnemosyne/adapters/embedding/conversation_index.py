"""A conversation in memory, searched by words and by meaning: what ``mnemosyne search --file`` asks.

Every message is scored by every measure, so the scores themselves are added: how much of what the question's words
could give it has, and how near in meaning it is. Who speaks is a word like another, and no part of the meaning: "Ada"
in a question means what she says, while the nearest vectors are those of messages in which somebody calls her. And a
message is read with its neighbours: an answer often holds none of the question's words, but stands beside it.

This form and the constants were chosen on 50 questions of our own making and on some of a public set, and checked on
more of it: docs/searching.md says how, and what came of it.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import attrs
import numpy as np
from numpy.typing import NDArray

from mnemosyne.domain.recall.retrieval import Embedder, Hit, WordIndex
from mnemosyne.domain.text.passages import passages
from mnemosyne.domain.text.words import query_words
from mnemosyne.services.conversation_files import ConversationLine

Scores = NDArray[np.float32]

_NEIGHBOUR = 0.1
"""What a message's neighbours add to its score, each with this part of its own."""

_WORDS = 2.0
"""What words weigh against meaning."""

_K1, _B = 0.9, 0.4
"""Of BM25, as Anserini has them by default: the length of a message says less than that of a document."""

_APART = timedelta(hours=6)
"""Messages further apart in time are no neighbours."""

_NAME = re.compile(r"(\w+)(?:['\u2019]s\b)?")

_BATCH = 256
"""Texts that are embedded, or queries that are answered, at a time."""

Progress = Callable[[int, int], None]


class ConversationIndex:
    """All messages, with the vectors of their passages if they have any; made by ``index_conversation``."""

    def __init__(self, lines: Sequence[ConversationLine], meaning: "_Meaning | None") -> None:
        self._lines = lines
        self._meaning = meaning
        self._beside = np.array(list(_neighbours(lines)), dtype=np.float32)
        self._same_id = max(Counter(line.id for line in lines).values(), default=1)
        self._scored: dict[str, tuple[NDArray[np.int32], Scores]] = {}
        self._words: WordIndex[int] = WordIndex(k1=_K1, b=_B)
        for number, line in enumerate(lines):
            self._words.add(number, " ".join((line.role, _date_words(line.time), line.text)))

    async def search(self, queries: Sequence[str], limit: int, progress: Progress) -> list[list[Hit[Hashable]]]:
        """For each query the best messages, the best first; scores are 0 to 1, and comparable within one query."""
        found: list[list[Hit[Hashable]]] = []
        for start in range(0, len(queries), _BATCH):
            batch = queries[start : start + _BATCH]
            scores: Iterable[Scores] = map(self._by_words, batch)
            if self._meaning is not None:
                near = await self._meaning.nearness(batch)
                scores = ((_WORDS * one + other) / (_WORDS + 1) for one, other in zip(scores, near, strict=True))
            found += [self._best(one, limit) for one in scores]
            progress(len(found), len(queries))
        return found

    def _best(self, scores: Scores, limit: int) -> list[Hit[Hashable]]:
        if not self._lines:
            return []
        total = self._with_neighbours(scores) / (1 + 2 * _NEIGHBOUR)
        enough = min(limit * self._same_id, len(total))
        first = np.sort(np.argpartition(-total, enough - 1)[:enough])
        best: dict[Hashable, float] = {}
        for number in first[np.argsort(-total[first], kind="stable")]:
            best.setdefault(self._lines[number].id, max(0.0, float(total[number])))
        return [Hit(key, score) for key, score in list(best.items())[:limit]]

    def _by_words(self, query: str) -> Scores:
        """How much of what the words of a query could give each message has: 0 to 1."""
        found, most = np.zeros(len(self._lines), dtype=np.float32), 0.0
        for word in query_words(query):
            most += self._words.most(word)
            if word not in self._scored:
                scores = self._words.scores_of(word)
                self._scored[word] = np.array(list(scores), np.int32), np.array(list(scores.values()), np.float32)
            numbers, scores_of_word = self._scored[word]
            found[numbers] += scores_of_word
        return found / np.float32(most or 1)

    def _with_neighbours(self, scores: Scores) -> Scores:
        spread = scores.copy()
        spread[1:] += _NEIGHBOUR * self._beside * scores[:-1]
        spread[:-1] += _NEIGHBOUR * self._beside * scores[1:]
        return spread


async def index_conversation(
    lines: Sequence[ConversationLine], embedder: Embedder | None, progress: Progress
) -> ConversationIndex:
    """Embed the conversation; without an embedder, it is searched by words alone. ``progress`` takes how many texts
    are done, and of how many.
    """
    return ConversationIndex(lines, await _meaning(lines, embedder, progress) if embedder and lines else None)


@attrs.frozen(eq=False)
class _Meaning:
    """The vectors of all passages. ``first`` is each message's first one; ``speakers``, the words of their names."""

    embedder: Embedder
    vectors: Scores
    first: Sequence[int]
    speakers: frozenset[str]

    async def nearness(self, queries: Sequence[str]) -> Scores:
        """A row for each query: how near the nearest passage of each message is."""
        vectors = await _embedded(self.embedder, [self._without_speakers(query) for query in queries])
        nearness: Scores = np.maximum.reduceat(vectors @ self.vectors.T, self.first, axis=1)
        return nearness

    def _without_speakers(self, query: str) -> str:
        said = _NAME.sub(lambda match: "" if match[1].casefold() in self.speakers else match[0], query)
        return " ".join(said.split()) or query


async def _meaning(lines: Sequence[ConversationLine], embedder: Embedder, progress: Progress) -> _Meaning:
    texts: list[str] = []
    first: list[int] = []
    for line in lines:
        first.append(len(texts))
        texts += [line.text[part.start : part.end] for part in passages(line.text)] or [""]
    speakers = frozenset(
        match[1].casefold() for role in {line.role for line in lines} for match in _NAME.finditer(role)
    )
    return _Meaning(embedder, await _embedded(embedder, texts, progress), first, speakers)


async def _embedded(embedder: Embedder, texts: Sequence[str], progress: Progress = lambda done, total: None) -> Scores:
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        vectors[start : start + len(batch)] = np.array(await embedder.embed(batch), dtype=np.float32)
        progress(start + len(batch), len(texts))
    return vectors


def _neighbours(lines: Sequence[ConversationLine]) -> Iterator[bool]:
    """For each message but the last, whether the next one belongs to the same exchange."""
    times = [_parsed(line.time) for line in lines]
    for number in range(len(lines) - 1):
        earlier, later = times[number], times[number + 1]
        if earlier is not None and later is not None:
            yield abs(later - earlier) < _APART
        else:
            yield lines[number].time == lines[number + 1].time


def _parsed(time: str) -> datetime | None:
    try:
        # Differences only matter: what has no zone is compared as if it were of the same one.
        return datetime.fromisoformat(time).replace(tzinfo=None)
    except ValueError:
        return None


def _date_words(time: str) -> str:
    """A time as questions put it: ``8 May 2023``."""
    parsed = _parsed(time)
    return f"{parsed.day} {parsed:%B %Y}" if parsed else time
