"""Search entries by text: for a question, and for the first prompt of a session."""

from collections.abc import Collection, Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Protocol

import attrs

from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.state import Entry, Knowledge
from mnemosyne.domain.recall.retrieval import RELEVANT, WORDS_ALONE, Calibration, WordIndex, blend
from mnemosyne.domain.text.words import query_words

_BY_WORDS, _NEWEST = 100, 200
"""Sizes of a shortlist: the best matches by words, and the newest entries."""

_LONGEST_QUESTION = 2_000
"""Characters of a question or prompt that are read."""

NEAR = 0.3
"""Minimum semantic similarity for an entry without a word of the question. Lower than for objects, because a person
asks for a list of few short lines, and an irrelevant one costs a glance.
"""

_WORDS_ENOUGH = 3
"""Minimum number of common words; with fewer a match may be chance."""


@attrs.frozen
class PlacedEntry:
    """An entry and its place."""

    place: Place
    entry: Entry


@attrs.frozen
class RecalledEntry(PlacedEntry):
    """A search result. ``score`` ranks it; ``relevance``, 0 to 1, is the larger of the probability that it concerns the
    question and its semantic similarity to it.
    """

    score: float
    relevance: float


@attrs.frozen
class Nearness:
    """The semantic similarity of texts to a question, in their order, and its calibration to relevance."""

    values: Sequence[float]
    calibration: Calibration


class Meaning(Protocol):
    """Compares texts by meaning."""

    async def nearness(self, question: str, texts: Sequence[str]) -> Nearness | None:
        """The nearness of texts to a question; None if no model is available."""


class EntryIndex:
    """A word index over the entries of places, ended entries included, but none in the trash."""

    def __init__(self, known: Iterable[tuple[Place, Knowledge]]) -> None:
        self._words: WordIndex[str] = WordIndex()
        self._entries: dict[str, PlacedEntry] = {}
        for place, knowledge in known:
            for each in knowledge.entries.values():
                if not each.is_hidden and each.id not in self._entries:
                    self._entries[each.id] = PlacedEntry(place, each)
                    self._words.add(each.id, f"{each.kind.value} {each.content} {each.detail}")

    def shortlist(
        self,
        question: str,
        at: int,
        kinds: Collection[EntryKind] = (),
        *,
        ended: bool = False,
    ) -> list[PlacedEntry]:
        """The candidates for a question: the best matches by words, and the newest. Entries must be valid at ``at``, or
        with ``ended`` may have ended.
        """

        def is_wanted(each: Entry) -> bool:
            return (ended or each.is_valid(at)) and (not kinds or each.kind in kinds)

        hits = self._words.search(question[:_LONGEST_QUESTION], len(self._entries))
        wanted = (hit.key for hit in hits if is_wanted(self._entries[hit.key].entry))
        best = [*islice(wanted, _BY_WORDS)]
        held = (key for key, each in self._entries.items() if is_wanted(each.entry))
        newest = nlargest(_NEWEST, held, key=lambda key: self._entries[key].entry.recorded_at)
        return [self._entries[key] for key in dict.fromkeys((*best, *newest))]

    def recall(
        self,
        question: str,
        at: int,
        limit: int,
        among: Sequence[PlacedEntry] | None = None,
        near: Nearness | None = None,
    ) -> list[RecalledEntry]:
        """The best entries for a question, best first, entries valid at ``at`` before the others.

        ``among`` is a shortlist, by default the question's; ``near`` is its semantic similarity. Without it, words
        alone decide.
        """
        question = question[:_LONGEST_QUESTION]
        among = self.shortlist(question, at) if among is None else among
        scores = self._words.scores(question)
        most = sum(map(self._words.most, query_words(question))) or 1.0
        asked = frozenset(query_words(question))
        found = []
        for number, each in enumerate(among):
            share = scores.get(each.entry.id, 0.0) / most
            nearness, calibration = (0.0, WORDS_ALONE) if near is None else (near.values[number], near.calibration)
            relevance = max(
                calibration.relevance(nearness, self._words.coverage(question, each.entry.id)),
                _find_share(asked, each.entry.content),
            )
            if share or relevance >= RELEVANT or nearness >= NEAR:
                score = share if near is None else blend(share, max(0.0, nearness))
                found.append(RecalledEntry(each.place, each.entry, score, max(relevance, nearness)))
        found.sort(key=lambda each: (not each.entry.is_valid(at), -each.score, each.entry.id))
        return found[:limit]


def _find_share(asked: frozenset[str], content: str) -> float:
    """The share of an entry's words that are in the question."""
    own = frozenset(query_words(content))
    common = own & asked
    return len(common) / len(own) if len(common) >= _WORDS_ENOUGH else 0.0
