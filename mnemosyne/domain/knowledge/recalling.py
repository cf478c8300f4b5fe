"""Finding entries by what they say: by a question, and by what a session begins with."""

from collections.abc import Collection, Iterable, Sequence
from heapq import nlargest
from itertools import islice
from operator import mul

import attrs

from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.state import Entry, Knowledge
from mnemosyne.domain.recall.ranking import blend
from mnemosyne.domain.recall.retrieval import HASHED, RELEVANT, Calibration, WordIndex
from mnemosyne.domain.text.lexical_vector import lexical_vector
from mnemosyne.domain.text.words import query_words

_BY_WORDS, _NEWEST = 100, 200
"""So many of the best by words, and of the newest, are looked at more closely."""

RELATED = 20
"""So many of the best by words are looked at for a prompt."""

_LONGEST_QUESTION = 2_000
"""Characters of a question or prompt that are read."""

_WORDS_ENOUGH = 3
"""With fewer words in common than these, and than the entry has, chance would do it."""


@attrs.frozen
class PlacedEntry:
    """An entry and where it holds."""

    place: Place
    entry: Entry


@attrs.frozen
class RecalledEntry:
    """An entry that was found. ``score`` ranks it; ``relevance``, 0 to 1, says how surely it has to do with what was
    asked.
    """

    place: Place
    entry: Entry
    score: float
    relevance: float


@attrs.frozen
class Nearness:
    """How near some texts are in meaning to a question, in their order, and how sure that makes it that they have to do
    with it.
    """

    values: Sequence[float]
    calibration: Calibration


class EntryIndex:
    """The entries of some places by their words; those that held once are in it, too."""

    def __init__(self, known: Iterable[tuple[Place, Knowledge]]) -> None:
        self._words: WordIndex[str] = WordIndex()
        self._entries: dict[str, PlacedEntry] = {}
        for place, knowledge in known:
            for each in knowledge.entries.values():
                if not each.erased and each.id not in self._entries:
                    self._entries[each.id] = PlacedEntry(place, each)
                    self._words.add(each.id, _text_of(each))

    def shortlist(
        self,
        question: str,
        at: int,
        kinds: Collection[EntryKind] = (),
        *,
        ended: bool = False,
        by_words: int | None = None,
    ) -> list[PlacedEntry]:
        """The entries that may answer a question: the best by words, and the newest, or so many ``by_words`` alone;
        those that hold at a time, with ``ended`` also those that held once.
        """

        def is_wanted(each: Entry) -> bool:
            return (ended or each.is_valid(at)) and (not kinds or each.kind in kinds)

        hits = self._words.search(question[:_LONGEST_QUESTION], len(self._entries))
        wanted = (hit.key for hit in hits if is_wanted(self._entries[hit.key].entry))
        best = [*islice(wanted, _BY_WORDS if by_words is None else by_words)]
        newest: list[str] = []
        if by_words is None:
            held = (key for key, each in self._entries.items() if is_wanted(each.entry))
            newest = nlargest(_NEWEST, held, key=lambda key: self._entries[key].entry.recorded_at)
        return [self._entries[key] for key in dict.fromkeys((*best, *newest))]

    def relate(self, prompt: str, at: int, limit: int) -> list[RecalledEntry]:
        """The entries that a prompt is about, the best by words first. The first request of a session waits for it."""
        return self.recall(prompt, at, limit, self.shortlist(prompt, at, by_words=RELATED))

    def recall(
        self,
        question: str,
        at: int,
        limit: int,
        among: Sequence[PlacedEntry] | None = None,
        near: Nearness | None = None,
    ) -> list[RecalledEntry]:
        """The entries that answer a question best, the best first, those that hold at a time before the others.

        ``among`` is a shortlist, by default that of the question; ``near`` says how near each of it is in meaning.
        Without that, letters must do.
        """
        question = question[:_LONGEST_QUESTION]
        among = self.shortlist(question, at) if among is None else among
        scores = self._words.scores(question)
        most = sum(map(self._words.most, query_words(question))) or 1.0
        asked, vector = frozenset(query_words(question)), lexical_vector(question)
        found = []
        for number, each in enumerate(among):
            share = scores.get(each.entry.id, 0.0) / most
            if near is None:
                nearness, calibration = _dot(vector, lexical_vector(_text_of(each.entry))) if share else 0.0, HASHED
            else:
                nearness, calibration = near.values[number], near.calibration
            relevance = max(
                calibration.relevance(nearness, self._words.coverage(question, each.entry.id)),
                _find_share(asked, each.entry.content),
            )
            if share or relevance >= RELEVANT:
                score = share if near is None else blend(share, max(0.0, nearness))
                found.append(RecalledEntry(each.place, each.entry, score, relevance))
        found.sort(key=lambda each: (not each.entry.is_valid(at), -each.score, each.entry.id))
        return found[:limit]


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum(map(mul, one, other)))


def _find_share(asked: frozenset[str], content: str) -> float:
    """How much of what an entry says is in the question."""
    own = frozenset(query_words(content))
    common = own & asked
    return len(common) / len(own) if len(common) >= _WORDS_ENOUGH else 0.0


def _text_of(entry: Entry) -> str:
    return f"{entry.kind.value} {entry.content} {entry.detail}"
