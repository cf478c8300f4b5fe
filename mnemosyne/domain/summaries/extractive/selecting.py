"""Which units to keep: the most that a reader could not guess, for the fewest characters.

Greedy maximum coverage under a budget (Khuller, Moss and Naor 1999): the next unit is the one with most not yet kept
specifics, and weight of its structure, per character; a cut costs the characters of its mark, so that neighbours are
cheaper than islands. Gains only fall as others are kept, so a heap with late re-evaluation finds the same units
(Minoux 1978) in about n log n.
"""

import re
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from mnemosyne.domain.summaries.extractive.units import TextUnit
from mnemosyne.domain.summaries.extractive.way import Way
from mnemosyne.domain.text import entities

_LETTERS = re.compile(r"[^\W\d_]{3}")
_DIGITS = re.compile(r"\d+")
REPEATED = 0.1
"""What is left of a line's weight when a line of the same shape, but for its numbers, came before."""


def items_of(units: Sequence[TextUnit]) -> list[set[str]]:
    """What of each unit counts: the tokens that hold specifics, and what stands between quotes."""
    tokens = [entities.tokens(unit.text) if unit.text else [] for unit in units]
    telling = {token for token in set().union(*tokens) if entities.of_token(token)}
    items = [telling.intersection(each) for each in tokens]
    for unit, found in zip(units, items, strict=True):
        if unit.text and ('"' in unit.text or "'" in unit.text or "`" in unit.text):
            found.update(entities.quoted(unit.text))
    return items


def weights_of(units: Sequence[TextUnit], way: Way) -> list[float]:
    """The weight of each unit's structure; of units of one shape only the first has all of it."""
    shapes: set[str] = set()
    weights = []
    for unit in units:
        weight = way.weight(unit.text) if unit.text else 0.0
        if weight:
            shape = _DIGITS.sub("", unit.text or "")
            if shape in shapes:
                weight *= REPEATED
            shapes.add(shape)
        weights.append(weight)
    return weights


class Selection:
    """The units kept so far, and the most characters that they can come to."""

    def __init__(
        self, units: Sequence[TextUnit], items: Sequence[set[str]], weights: Sequence[float], gap: int
    ) -> None:
        """``gap`` is the most characters that the mark of a cut takes."""
        self._units = units
        self._items = items
        self._weights = weights
        self._gap = gap
        self._kept_items: set[str] = set()
        # One more at the end: behind the last unit, and by index -1 before the first, nothing is cut.
        self.kept = [False] * len(units) + [True]
        self.cost = gap

    def keep_first(self, wanted: Iterable[int], budget: int) -> None:
        """Keep these units, in this order, as far as the budget allows."""
        for index in wanted:
            if not self.kept[index] and self._units[index].text and self.cost + self._price(index) <= budget:
                self._keep(index)

    def fill(self, budget: int) -> None:
        """Keep the best of the others, and with what is left the neighbours of what is kept."""
        units, kept = self._units, self.kept
        heap = [
            (-(len(items) + weight) / (len(unit.text) + self._gap + 1), index)
            for index, (unit, items, weight) in enumerate(zip(units, self._items, self._weights, strict=True))
            if unit.text and (items or weight) and not kept[index]
        ]
        heapify(heap)
        while heap and self.cost < budget:
            _, index = heappop(heap)
            if kept[index]:
                continue
            worth = len(self._items[index] - self._kept_items) + self._weights[index]
            price = self._price(index)
            rank = -worth / max(price, 1)
            if heap and rank > heap[0][0]:
                if worth:
                    heappush(heap, (rank, index))
            elif self.cost + price <= budget:
                self._keep(index)
                for near in (index - 1, index + 1):  # they have become cheaper
                    if 0 <= near < len(units) and not kept[near] and (self._items[near] or self._weights[near]):
                        heappush(heap, (rank, near))
        self._fill_gaps(budget)

    def _fill_gaps(self, budget: int) -> None:
        """Go on from the kept units in both directions, as far as the budget reaches."""
        for order in (range(len(self._units)), range(len(self._units) - 1, -1, -1)):
            for index in order:
                near = index - 1 if order.step > 0 else index + 1
                text = self._units[index].text
                if text is None or self.kept[index] or not self.kept[near]:
                    continue
                price = self._price(index)
                # A bracket or a blank line is worth keeping only where its mark would be as long.
                if self.cost + price <= budget and (price <= 0 or _LETTERS.search(text)):
                    self._keep(index)

    def _keep(self, index: int) -> None:
        self.cost += self._price(index)
        self.kept[index] = True
        self._kept_items |= self._items[index]

    def _price(self, index: int) -> int:
        cuts = 1 - self.kept[index - 1] - self.kept[index + 1]
        return len(self._units[index].text or "") + len(self._units[index].number) + 2 + cuts * self._gap
