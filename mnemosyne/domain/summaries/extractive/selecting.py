"""Select units by greedy maximum coverage under a budget (Khuller, Moss and Naor 1999).

The next unit is the one that adds most new information per character. Information is a set of specifics and words,
each worth more the fewer units have it. Gains only fall as units are kept, so a heap with lazy re-evaluation (Minoux
1978) finds the same units in about n log n.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from mnemosyne.domain.summaries.extractive.units import TextUnit
from mnemosyne.domain.text import entities
from mnemosyne.domain.text.entities import SpecificKind

_WORD = re.compile(r"[^\W\d_]{3,}")
_PLAIN, _CAPITALS, _NUMBER, _SPECIFIC = 0.3, 1.2, 0.42, 1.0
_WORTH = {
    SpecificKind.ERROR: 4.0,
    SpecificKind.URL: 2.0,
    SpecificKind.PATH: 1.4,
    SpecificKind.LOCATION: 1.4,
    SpecificKind.NUMBER: _NUMBER,
}
_LEAST = 0.8
"""Information below which a unit is kept only if space remains."""

CUT = 2
"""Characters of a mark and its line break."""

_SHORTEST_SHARED = 6


def find_shared(before: str, text: str) -> tuple[int, int]:
    """Return the range of a row that repeats the path in the row ``before``, without its last folder."""
    size = next(
        (n for n, (a, b) in enumerate(zip(before[:400], text, strict=False)) if a != b), min(len(before), len(text))
    )
    end = max(text.rfind(blank, 0, size) for blank in "/ \t") + 1
    if end and text[end - 1] == "/":
        end = text.rfind("/", 0, end - 1) + 1 or end
    word = re.match(r"\s{0,40}\S{1,200}\s{1,40}", text)
    start = word.end() if word and word.end() < end else 0
    return (start, end) if end - start >= _SHORTEST_SHARED and "/" in text[start:end] else (0, 0)


def folder(before: str, name: str) -> int:
    """Count the characters of a row's name that repeat the folders of the previous name."""
    size = next((n for n, (a, b) in enumerate(zip(before, name, strict=False)) if a != b), min(len(before), len(name)))
    end = name.rfind("/", 0, size)
    return name.rfind("/", 0, end) + 1 if end > 0 else 0


class Selection:
    """The units kept so far and their length in characters."""

    def __init__(self, units: Sequence[TextUnit]) -> None:
        self.units = units
        self.kept = [False] * len(units) + [True]  # a sentinel: no cut before the first and after the last unit
        self.order: list[int] = []
        self._cost = 0
        self._covered: set[str] = set()
        self._items, self._values = _items_of(units)
        self._weights = _weights(units)
        self._leads: Counter[tuple[int, str | None]] = Counter()
        self._runs: Counter[int] = Counter()
        self._run, self._saved, self._short = _rows_of(units)

    def fill(self, budget: int) -> None:
        """Keep units within the budget. Calls have equal shares, the smallest first; the rest of a share passes on."""
        sizes: Counter[int] = Counter()
        within: dict[int, list[int]] = {}
        for index, unit in enumerate(self.units):
            sizes[unit.call] += len(unit.text) + 1
            if unit.weight:
                within.setdefault(unit.call, []).append(index)
        calls = sorted(within, key=lambda call: (sizes[call], call))
        for number, call in enumerate(calls):
            room = self._cost + (budget - self._cost) // (len(calls) - number)
            for least in (_LEAST, 0.0):
                self._fill_call(within[call], room, least)

    def _fill_call(self, within: Sequence[int], budget: int, least: float) -> None:
        heap = [(-self._gain(index, least), index) for index in within]
        heapify(heap)
        while heap and self._cost < budget:
            _, index = heappop(heap)
            rank = -self._gain(index, least)
            if self.kept[index] or rank == 0:
                continue
            if heap and rank > heap[0][0]:
                heappush(heap, (rank, index))
                continue
            price = self._price(index)
            if self._cost + price > budget:
                continue
            self._cost += price
            self._keep(index)
            for near in (index - 1, index + 1):  # they have become cheaper
                if 0 <= near < len(self.units) and self.units[near].call == self.units[index].call:
                    heappush(heap, (-self._gain(near, least), near))

    def _keep(self, index: int) -> None:
        if self._continues_row(index):
            self._keep(index - 1)
        unit = self.units[index]
        self.kept[index] = True
        self.order.append(index)
        self._leads[unit.call, unit.lead] += 1
        self._runs[self._run[index]] += 1
        self._covered.update(self._items[index])
        if unit.label >= 0:
            self.kept[unit.label] = True

    def _continues_row(self, index: int) -> bool:
        """Return whether a unit needs the beginning of its row, which is not kept yet."""
        before = self.units[index - 1] if index else None
        return (
            before is not None
            and before.lead is not None
            and before.line == self.units[index].line
            and not self.kept[index - 1]
        )

    def _gain(self, index: int, least: float) -> float:
        unit = self.units[index]
        if not unit.weight or self.kept[index]:
            return 0.0
        new = self._items[index] - self._covered
        gain = unit.bonus + sum(map(self._values.__getitem__, new))
        return self._weights[index] * gain / max(self._price(index), 1) if gain > least else 0.0

    def _price(self, index: int) -> int:
        unit = self.units[index]
        saved = self._saved[index] if self._runs[self._run[index]] else 0
        if unit.lead is not None:
            return self._short[index] if self._leads[unit.call, unit.lead] else len(unit.text) - saved + 3
        if self._continues_row(index):
            return len(unit.text) + CUT + self._price(index - 1)
        price = len(unit.text) - saved + 1 + (1 - self.kept[index - 1] - self.kept[index + 1]) * CUT
        if unit.label >= 0 and not self.kept[unit.label]:
            price += len(self.units[unit.label].text) + 1
        return price


def _weights(units: Sequence[TextUnit]) -> list[float]:
    """Return the weights of the units, lower for lines that begin like many others."""
    heads = Counter(unit.head for unit in units if unit.head)
    return [unit.weight * (_rarity(heads[unit.head], len(units)) ** 0.5 if unit.head else 1) for unit in units]


def _rarity(count: int, of: int) -> float:
    return math.log(1 + of / count) / math.log(1 + of)


def _items_of(units: Sequence[TextUnit]) -> tuple[list[frozenset[str]], dict[str, float]]:
    """Return the items of information in each unit, and the value of each item."""
    worth: dict[str, float] = {}
    items = [_tokens_of(unit.text, worth) if unit.weight else frozenset() for unit in units]
    counts = Counter(token for tokens in items for token in tokens)
    values = {token: (worth.get(token) or _PLAIN) * _rarity(count, len(units)) for token, count in counts.items()}
    return items, values


def _tokens_of(text: str, worth: dict[str, float]) -> frozenset[str]:
    """Return the specifics, capitals and words of a text; add the worth of those that are not words to ``worth``."""
    tokens = set(entities.tokens(text))
    for token in tokens:
        if token not in worth:
            worth[token] = _worth_of(token)
    words = {word.casefold() for word in _WORD.findall(text)}
    return frozenset({token for token in tokens if worth[token]} | {word for word in words if not worth.get(word)})


def _worth_of(token: str) -> float:
    kinds = {specific.kind for specific in entities.of_token(token)}
    if kinds:
        return max(_WORTH.get(kind, _SPECIFIC) for kind in kinds)
    if len(token) > 2 and token.isupper():
        return _CAPITALS
    return _NUMBER if any(map(str.isdigit, token)) else 0.0


def _rows_of(units: Sequence[TextUnit]) -> tuple[list[int], list[int], list[int]]:
    """Return for each unit its run of lines with the same path, the characters saved in it, its size after its lead."""
    run, saved, short = [0] * len(units), [0] * len(units), [0] * len(units)
    begins: dict[int, str] = {}
    names: dict[tuple[int, str], str] = {}
    for index, unit in enumerate(units):
        run[index] = run[index - 1] if index else 0
        if unit.lead is not None:
            before = names.get((unit.call, unit.lead), "")
            short[index] = len(unit.name) + 1 - max(0, folder(before, unit.name) - 1)
            names[unit.call, unit.lead] = unit.name
        if unit.line not in begins and unit.weight:
            begins[unit.line] = unit.text
            start, end = find_shared(begins.get(unit.line - 1, ""), unit.text)
            saved[index] = max(0, end - start - 1)
            run[index] += not saved[index]
    return run, saved, short
