"""A conversation in memory, searched by words and by meaning: what ``mnemosyne search --file`` asks.

Every message is scored by every measure, so the scores themselves are added: how much of what the query's words could
give its best passage has, and how near in meaning its nearest is. Who speaks is a word like another, and no part of the
meaning: "Ada" in a query means what she says, while the nearest vectors are those of messages in which somebody calls
her. And a message is read with its neighbours: an answer often holds none of the question's words, but follows it.

The constants are those of ``domain/recall/ranking.py``; docs/searching.md says what each brings.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import attrs
import numpy as np
from numpy.typing import NDArray

from mnemosyne.domain.recall.ranking import ANSWER, FOLLOWING, PREVIOUS, QUESTION, SPEAKER, blend
from mnemosyne.domain.recall.retrieval import Embedder, Hit, WordIndex
from mnemosyne.domain.text.asking import share_of_questions
from mnemosyne.domain.text.passages import passages
from mnemosyne.domain.text.words import query_words
from mnemosyne.services.conversation_files import ConversationLine

Scores = NDArray[np.float32]

_APART = timedelta(hours=6)
"""Messages further apart in time are no neighbours."""

_NAME = re.compile(r"(\w+)(?:['\u2019]s\b)?")

_ROLES = frozenset(["user", "assistant", "system", "tool", "human", "ai", "agent", "model"])
"""What speakers are called who have no name: the word in a query means something else."""

_BATCH = 256
"""Texts that are embedded, or queries that are answered, at a time."""

Progress = Callable[[int, int], None]


class ConversationIndex:
    """All messages, with the vectors of their passages if they have any; made by ``index_conversation``."""

    def __init__(self, lines: Sequence[ConversationLine], cut: "_Cut", meaning: "_Meaning | None") -> None:
        self._lines = lines
        self._first = cut.first
        self._meaning = meaning
        self._beside = np.array(list(_neighbours(lines)), dtype=np.float32)
        asked = np.array([share_of_questions(line.text) for line in lines], dtype=np.float32)
        self._answers = self._beside * (asked[:-1] > 0)
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
        """For each query the best messages, the best first; scores are 0 to 1, and comparable within one query."""
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
        """How much of what the words of a query could give the best passage of each message has: 0 to 1."""
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
        """The scores of messages, each with a share of its neighbours', and with what it is: a question, or words of
        somebody whom the query names.
        """
        total = scores.copy()
        total[1:] += (PREVIOUS * self._beside + ANSWER * self._answers) * scores[:-1]
        total[:-1] += FOLLOWING * self._beside * scores[1:]
        said = _names(query)
        named = np.array([not said.isdisjoint(names) for names in self._speakers], dtype=np.float32)
        total *= self._says * (1 + SPEAKER * named)
        most = (1 + PREVIOUS + FOLLOWING + ANSWER * self._answers.any()) * (1 + SPEAKER * named.any())
        return total / np.float32(most)


async def index_conversation(
    lines: Sequence[ConversationLine], embedder: Embedder | None, progress: Progress
) -> ConversationIndex:
    """Embed the conversation; without an embedder, it is searched by words alone. ``progress`` takes how many texts
    are done, and of how many.
    """
    cut = _cut(lines)
    if embedder is None or not lines:
        return ConversationIndex(lines, cut, None)
    return ConversationIndex(lines, cut, _Meaning(embedder, await _embed(embedder, cut.texts, progress), cut.first))


@attrs.frozen
class _Cut:
    """The passages of all messages: each text with the number of its message, and each message's first passage. A
    message without a word is one passage.
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
    """The vectors of all passages. ``first`` is each message's first one."""

    embedder: Embedder
    vectors: Scores
    first: Sequence[int]

    async def nearness(self, queries: Sequence[str]) -> Scores:
        """A row for each query: how near the nearest passage of each message is."""
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
    """Every word that may be a name."""
    return frozenset(match[1].casefold() for match in _NAME.finditer(text))


def _speakers(lines: Sequence[ConversationLine]) -> Sequence[frozenset[str]]:
    """The words by which the speaker of each message is named; none of a role, which is everybody's."""
    named = {role: _names(role) - _ROLES for role in {line.role for line in lines}}
    return [named[line.role] for line in lines]


def _without(speakers: Sequence[frozenset[str]], query: str) -> str:
    """A query without the names of those who speak; all of it where there is nothing else."""
    names = frozenset[str]().union(*speakers)
    said = _NAME.sub(lambda match: "" if match[1].casefold() in names else match[0], query)
    return " ".join(said.split()) or query


def _neighbours(lines: Sequence[ConversationLine]) -> Iterator[bool]:
    """For each message but the last, whether the next one belongs to the same exchange."""
    times = [_parse(line.time) for line in lines]
    for number in range(len(lines) - 1):
        earlier, later = times[number], times[number + 1]
        if earlier is not None and later is not None:
            yield abs(later - earlier) < _APART
        else:
            yield lines[number].time == lines[number + 1].time


def _parse(time: str) -> datetime | None:
    try:
        # Differences only matter: what has no zone is compared as if it were of the same one.
        return datetime.fromisoformat(time).replace(tzinfo=None)
    except ValueError:
        return None


def _date_words(time: str) -> str:
    """A time as questions put it: ``8 May 2023``."""
    parsed = _parse(time)
    return f"{parsed.day} {parsed:%B %Y}" if parsed else time
