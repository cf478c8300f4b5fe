"""Retrieval by words and by meaning: a word index, the embedder interface, and a relevance test."""

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import attrs

from mnemosyne.domain.text.words import query_words, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Score = TypeVar("Score", float, NDArray[np.float32], NDArray[np.float64])

Key = TypeVar("Key", bound=Hashable)
Object = TypeVar("Object", bound=Hashable)


# The constants of every search, for objects and conversations, were chosen on one public conversation and checked on
# separate questions (``python -m benchmarks retrieval.conversations``). Neighboring values perform equally, so none of
# them is more precise than that.
K1, B = 1.2, 0.75
"""BM25 parameters: the effect of repeated words, and the penalty for long passages."""

WORDS = 0.55
"""Weight of words, of 1; nearness in meaning has the rest."""

WHOLE = 0.3
"""Weight of an object's score over all its text, of 1; its best passage has the rest."""

PREVIOUS, FOLLOWING = 0.1, 0.2
"""Share of their own scores that the previous and the following message add to a message."""

ANSWER = 0.3
"""Amount that a question adds to the following message, which answers it."""

QUESTION = 0.3
"""Penalty for a message that only asks; half of it if half of its text asks."""

SPEAKER = 0.3
"""Bonus for a message whose speaker the query names. With more, a query that names the wrong speaker finds too
little.
"""


def blend(words: "Score", nearness: "Score") -> "Score":
    """Combine the share of a query's words and the nearness in meaning into one score, 0 to 1."""
    return WORDS * words + (1 - WORDS) * nearness


@attrs.frozen
class Hit(Generic[Key]):
    """A result and its score in its ranking; higher is better."""

    key: Key
    score: float


@attrs.frozen
class Calibration:
    """Probability that the best passage is relevant to the query: a logistic regression.

    Fitted on recorded agent sessions: sentences that name something of their own session (relevant) against sentences
    of sessions about other projects (not relevant), with equal weight; checked on sessions outside the fit.
    """

    nearness: float
    coverage: float
    base: float
    near: float = 1.1
    """The nearness from which on a passage is relevant whatever words it shares with the query."""

    def relevance(self, nearness: float, coverage: float) -> float:
        """Return 0 to 1, from the dot product of the nearest passage's vector with the query's, and the coverage of the
        query by the best passage by words. Below ``RELEVANT`` the result of a search is empty.
        """
        return 1 / (1 + math.exp(-(self.nearness * nearness + self.coverage * coverage + self.base)))


WORDS_ALONE = Calibration(nearness=0.0, coverage=10.0, base=-3.38)
"""For words without vectors: a fifth of a query is ``RELEVANT``, nearly half of it is ``ANSWERS``."""

RELEVANT = 0.2
"""Low, because a relevant result that is rejected is lost, while an irrelevant one costs only reading: 97 % of the
relevant were kept and 87 % of the others rejected on the sessions outside each fit;
the threshold itself was chosen on all of them.
"""

ANSWERS = 0.85
"""The relevance from which on memory answers a question with quotes, chosen so that none of 288 questions about other
projects is answered (``benchmarks/data/questions.json``, development half; held out: none of 50).
"""


class Embedder(Protocol):
    """Maps texts to vectors of length 1, whose dot product measures how near in meaning two texts are.

    ``name`` changes whenever the same text may get another vector: vectors of different names are never compared.
    """

    name: str
    dimension: int
    calibration: Calibration
    texts_at_once: int
    """Number of passages embedded at once in a thread while a caller waits: about a seventh of a second."""

    async def embed(self, texts: Sequence[str]) -> "list[array[float]]":
        """A float32 vector of ``dimension`` numbers for each text; equal texts have equal vectors."""
        ...


def rarity(holding: int, of: int) -> float:
    """The weight of a word that ``holding`` of so many texts contain: its inverse document frequency, never
    negative.
    """
    return math.log(1 + (of - holding + 0.5) / (holding + 0.5))


class WordIndex(Generic[Key]):
    """BM25 (Robertson, Zaragoza 2009) over texts in memory, which are added one by one and never removed.

    The index of objects in PostgreSQL uses the same formula.
    """

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        self._lengths = array("I")
        self._total = 0
        self._postings: dict[str, _Postings] = {}

    def add(self, key: Key, text: str) -> None:
        """Add a text under a new key."""
        counts = Counter(words(text))
        number = len(self._keys)
        self._keys.append(key)
        self._numbers[key] = number
        self._lengths.append(counts.total())
        self._total += counts.total()
        for word, count in counts.items():
            postings = self._postings.get(word)
            if postings is None:
                postings = self._postings[word] = _Postings()
            postings.texts.append(number)
            postings.counts.append(min(count, 255))

    def search(self, query: str, limit: int) -> list[Hit[Key]]:
        """The best texts that contain a word of the query; newer ones first among equals."""
        scores = self._scores(query)
        best = nlargest(limit, scores.items(), key=lambda item: (item[1], item[0]))
        return [Hit(self._keys[number], score) for number, score in best]

    def scores(self, query: str) -> dict[Key, float]:
        """The score of each text that contains a word of the query."""
        return {self._keys[number]: score for number, score in self._scores(query).items()}

    def scores_of(self, word: str) -> dict[Key, float]:
        """The amount that a word, in the form of ``query_words``, adds to the score of each text that contains it."""
        return {self._keys[number]: score for number, score in self._score(word)}

    def most(self, word: str) -> float:
        """The maximum that a word can add to a score."""
        return self._weight(word) * (K1 + 1)

    def coverage(self, query: str, key: Key) -> float:
        """The share of the query in a text: 0 to 1, rare words counting more."""
        number = self._numbers[key]
        held = total = 0.0
        for word in query_words(query):
            weight = self._weight(word)
            total += weight
            held += weight * (word in self._postings and self._postings[word].holds(number))
        return held / total if total else 0.0

    def _scores(self, query: str) -> dict[int, float]:
        scores: dict[int, float] = {}
        for word in query_words(query):
            for number, score in self._score(word):
                scores[number] = scores.get(number, 0.0) + score
        return scores

    def _score(self, word: str) -> Iterator[tuple[int, float]]:
        postings = self._postings.get(word)
        if postings is None:
            return
        lengths, base = self._lengths, K1 * (1 - B)
        slope = K1 * B * len(self._keys) / self._total
        most = self.most(word)
        for number, count in zip(postings.texts, postings.counts, strict=True):
            yield number, most * count / (count + base + slope * lengths[number])

    def _weight(self, word: str) -> float:
        holding = len(self._postings[word].texts) if word in self._postings else 0
        return rarity(holding, len(self._keys))


class _Postings:
    """The texts that contain a word, ascending, and its count in each (255 means that or more)."""

    __slots__ = ("counts", "texts")

    def __init__(self) -> None:
        self.texts = array("I")
        self.counts = bytearray()

    def holds(self, number: int) -> bool:
        place = bisect_left(self.texts, number)
        return place < len(self.texts) and self.texts[place] == number
