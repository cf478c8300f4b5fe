"""Finding entries by what they say: by a question, and by what a session begins with."""

from collections.abc import Collection, Iterable, Sequence

import attrs

from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.state import Entry, Knowledge
from mnemosyne.domain.recall.retrieval import HASHED, WordIndex
from mnemosyne.domain.text.lexical_vector import lexical_vector
from mnemosyne.domain.text.words import query_words

_LOOKED_AT = 30
"""So many of the best by words are compared by their letters, too."""

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

    def recall(
        self, question: str, at: int, limit: int, kinds: Collection[EntryKind] = (), *, ended: bool = False
    ) -> list[RecalledEntry]:
        """The entries that answer a question best and hold at a time, the best first; with ``ended`` also those that
        held once, behind the others.
        """
        question = question[:_LONGEST_QUESTION]
        wanted = [
            hit
            for hit in self._words.search(question, len(self._entries))
            if (ended or self._entries[hit.key].entry.is_valid(at))
            and (not kinds or self._entries[hit.key].entry.kind in kinds)
        ]
        vector = lexical_vector(question)
        asked = frozenset(query_words(question))
        found = [
            RecalledEntry(
                self._entries[hit.key].place,
                self._entries[hit.key].entry,
                hit.score,
                self._relevance(question, vector, asked, hit.key),
            )
            for hit in wanted[: max(limit, _LOOKED_AT)]
        ]
        found.sort(key=lambda each: (not each.entry.is_valid(at), -each.score, each.entry.id))
        return found[:limit]

    def _relevance(self, question: str, vector: Sequence[float], asked: frozenset[str], key: str) -> float:
        """A short question is answered by what holds its words; a long prompt is about what it holds the words of."""
        entry = self._entries[key].entry
        near = sum(a * b for a, b in zip(vector, lexical_vector(_text_of(entry)), strict=True))
        return max(HASHED.relevance(near, self._words.coverage(question, key)), _find_share(asked, entry.content))


def _find_share(asked: frozenset[str], content: str) -> float:
    """How much of what an entry says is in the question."""
    own = frozenset(query_words(content))
    common = own & asked
    return len(common) / len(own) if len(common) >= _WORDS_ENOUGH else 0.0


def _text_of(entry: Entry) -> str:
    return f"{entry.kind.value} {entry.content} {entry.detail}"
