"""Which units to keep: what a reader of such a text looks for first, then the most that nobody could guess.

First the facets (``facets.py``) in the order of their ranks, entry by entry. What room is left goes, where the role
has use for it, to greedy maximum coverage under a budget (Khuller, Moss and Naor 1999): the next unit is the one with
most not yet kept specifics per character. Gains only fall as others are kept, so a heap with late re-evaluation finds
the same units (Minoux 1978) in about n log n. A cut costs the characters of its mark: neighbours are cheaper than
islands.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from mnemosyne.domain.summaries.extractive.code import is_import
from mnemosyne.domain.summaries.extractive.facets import Facet
from mnemosyne.domain.summaries.extractive.units import TextUnit
from mnemosyne.domain.text import entities

_LETTERS = re.compile(r"[^\W\d_]{3}")
ANYTHING = re.compile(r"\w")
"""What a text says that has no words: numbers, for example."""


def items_of(units: Sequence[TextUnit], within: Collection[int]) -> list[set[str]]:
    """What of each unit counts: the tokens that hold specifics, and what stands between quotes; nothing outside of
    ``within``, and of what is only used of elsewhere.
    """
    texts = [unit.text or "" if number in within else "" for number, unit in enumerate(units)]
    tokens = [entities.tokens(text) if text and not is_import(text) else [] for text in texts]
    telling = {token for token in set().union(*tokens) if entities.of_token(token)}
    items = [telling.intersection(each) for each in tokens]
    for text, found in zip(texts, items, strict=True):
        if found and ('"' in text or "'" in text or "`" in text):
            found.update(entities.find_quoted(text))
    return items


WANTED = 4
"""The last rank of what takes all the room that is left."""

_MOST_MISSED = 200
"""Entries of a facet in a row that do not fit, before the rest of it is left."""


class Selection:
    """The units kept so far, and the most characters that they can come to."""

    def __init__(self, units: Sequence[TextUnit], gap: int) -> None:
        """``gap`` is the most characters that the mark of a cut takes."""
        self._units = units
        self._gap = gap
        # One more at the end: behind the last unit, and by index -1 before the first, nothing is cut.
        self.kept = [False] * len(units) + [True]
        self.cost = gap

    def keep(self, entry: Iterable[int], budget: int) -> bool:
        """Keep units that belong together, if all of them fit; whether they are kept now."""
        cost, kept = self.cost, []
        for index in entry:
            if not self.kept[index] and self._units[index].text:
                self._keep(index)
                kept.append(index)
        if self.cost <= budget:
            return True
        self.cost = cost
        for index in kept:
            self.kept[index] = False
        return False

    def share_out(self, sizes: Mapping[int, int], budget: int) -> Iterator[tuple[int, int]]:
        """Each call, by its number, with the cost up to which it may be kept, one after the other, the smallest first:
        all have the same share, and what one leaves goes to those behind it.
        """
        for left, call in zip(
            range(len(sizes), 0, -1), sorted(sizes, key=lambda call: (sizes[call], call)), strict=True
        ):
            yield call, self.cost + (budget - self.cost) // left

    def keep_facets(self, facets: Sequence[Facet], budget: int) -> None:
        """Keep what the facets name, rank by rank: of one rank each facet has its share first, an entry at a time."""
        for rank in sorted({facet.rank for facet in facets}):
            room = budget - self.cost
            for facet in facets:
                if facet.rank == rank:
                    self._keep_each(facet, min(budget, self.cost + int(facet.share * room)))
        self.keep_wanted(facets, budget)

    def keep_wanted(self, facets: Sequence[Facet], budget: int) -> None:
        """Keep what else the facets name, rank by rank, as far as it takes all the room that is left."""
        for facet in sorted(facets, key=lambda facet: facet.rank):
            if facet.rank <= WANTED:
                self._keep_each(facet, budget)

    def _keep_each(self, facet: Facet, budget: int) -> None:
        missed = 0
        for number, entry in enumerate(facet.entries):
            less = [facet.less[number]] if facet.less else []
            less += [entry[:end] for end in range(len(entry) - 1, 0, -1)] if facet.shrinks else []
            if any(self.keep(units, budget) for units in (entry, *less)):
                missed = 0
            else:
                missed += 1
                if missed > _MOST_MISSED:
                    return

    def fill(self, items: Sequence[set[str]], within: Sequence[int], budget: int) -> None:
        """Keep those of the others ``within`` that have most ``items`` which nothing that is kept has."""
        units, kept, inside = self._units, self.kept, frozenset(within)
        known: set[str] = set().union(*(items[index] for index in within if kept[index]))
        heap = [
            (-len(items[index]) / (len(units[index].text or "") + self._gap + 1), index)
            for index in within
            if units[index].text and items[index] and not kept[index]
        ]
        heapify(heap)
        while heap and self.cost < budget:
            _, index = heappop(heap)
            if kept[index]:
                continue
            worth = len(items[index] - known)
            price = self._price(index)
            rank = -worth / max(price, 1)
            if heap and rank > heap[0][0]:
                if worth:
                    heappush(heap, (rank, index))
            elif worth and self.cost + price <= budget:
                self._keep(index)
                known |= items[index]
                for near in (index - 1, index + 1):  # they have become cheaper
                    if near in inside and not kept[near] and items[near]:
                        heappush(heap, (rank, near))

    def fill_gaps(self, budget: int) -> None:
        """Keep what takes no more room than the mark that stands for it."""
        for index, unit in enumerate(self._units):
            near = self.kept[index - 1] and self.kept[index + 1]
            if unit.text is not None and not self.kept[index] and near and self._price(index) <= 0:
                self._keep(index)

    def go_on(self, within: Sequence[int], budget: int, says: re.Pattern[str] = _LETTERS) -> None:
        """Go on ``within`` some units from the kept ones in both directions, as far as the budget reaches, over what
        ``says`` something.
        """
        for order, step in ((within, 1), (within[::-1], -1)):
            for index in order:
                text = self._units[index].text
                if text is None or self.kept[index] or not self.kept[index - step]:
                    continue
                price = self._price(index)
                # A bracket or a blank line is worth keeping only where its mark would be as long.
                if self.cost + price <= budget and (price <= 0 or says.search(text)):
                    self._keep(index)

    def _keep(self, index: int) -> None:
        self.cost += self._price(index)
        self.kept[index] = True

    def _price(self, index: int) -> int:
        cuts = 1 - self.kept[index - 1] - self.kept[index + 1]
        return len(self._units[index].text or "") + len(self._units[index].number) + 2 + cuts * self._gap
