"""Topics: where a conversation turns to something else, and which of its stretches are about the same.

An *episode* is a stretch of objects about one thing. A new one begins where the user speaks and what comes then is less
like what came before than either is in itself: the mean similarity across the gap is held against the mean similarity
within both sides (windows as in TextTiling, Hearst 1997; cohesion within as in C99, Choi 2000). That is a ratio, so one
limit serves for vectors of any origin. A *theme* is made of episodes about the same thing at different times.

Laws. Whether a prompt begins an episode depends on the objects up to the ``AFTER``-th after it and on nothing later: an
episode that is over stays as it is, and a history that is read in pieces has the same episodes as one read at once.
"""

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from operator import mul

import attrs

from mnemosyne.domain.objects.events import BlockPlace

BEFORE, AFTER = 30, 12
"""So many objects before and after a prompt are compared; until there are so many after it, nothing is decided."""

SHORTEST = 16
"""Objects of an episode at least."""

ALIKE = 0.8
"""If the similarity across is a smaller part than this of the similarity within, the topic is another one."""

SAME_THEME = 0.16
"""From this likeness of their names on, two episodes are about the same."""

Vector = Sequence[float]
"""Of length 1."""

Weights = Mapping[str, float]
"""Names, each with how much it tells of what something is about."""

START = BlockPlace(0, 0)


@attrs.frozen
class Shift:
    """Another topic begins at ``place``; this shows once the first ``made`` objects are there."""

    place: BlockPlace
    made: int


def shifts(
    places: Sequence[BlockPlace],
    prompts: Sequence[int],
    vector: Callable[[int], Vector],
    since: BlockPlace = START,
    seen: int = 0,
) -> Iterator[Shift]:
    """Where topics shift, in order.

    ``places`` are those where objects begin, in the order in which these were made; ``prompts`` are the numbers of
    those that the user typed, and ``vector`` gives the vector of each. ``since`` is where the last known episode ended;
    what showed already with the first ``seen`` objects is left out, and costs hardly anything.
    """
    messages = [each.message for each in places]
    first = next((number for number, message in enumerate(messages) if message >= since.message), 0)
    open_ = sorted((places[number], number) for number in _open(places, prompts, seen) if places[number] > since)
    for (place, number), after in zip(open_, _behind(places, messages, [place for place, _ in open_]), strict=True):
        if len(after) < AFTER:
            return
        made = max(after[-1], number) + 1
        if made <= seen:
            continue
        newest_first = range(made - 1, first - 1, -1)
        inside = islice((each for each in newest_first if since <= places[each] < place), SHORTEST)
        if sum(1 for _ in inside) < SHORTEST:
            continue
        before = [*islice((each for each in reversed(range(made)) if places[each] < place), BEFORE)]
        if _differ([vector(each) for each in before], [vector(each) for each in after]):
            yield Shift(place, made)
            since, first = place, after[0]


def _open(places: Sequence[BlockPlace], prompts: Sequence[int], seen: int) -> list[int]:
    """The prompts of which the first ``seen`` objects may not tell yet whether they begin a topic: all but those that
    ``AFTER`` of the newest of these objects come after.
    """
    newest = nlargest(AFTER, places[max(0, seen - NEWEST) : seen])
    if len(newest) < AFTER:
        return [*prompts]
    return [number for number in prompts if number >= seen or places[number] > newest[-1]]


NEWEST = 4 * AFTER
"""So many of the objects that were there already tell which prompts are not decided yet."""


def _behind(places: Sequence[BlockPlace], messages: Sequence[int], begins: Sequence[BlockPlace]) -> list[list[int]]:
    """The first ``AFTER`` objects, or as many as there are, at or after each of some places, which are in order."""
    if not begins:
        return []
    later = [number for number, message in enumerate(messages) if message >= begins[0].message]
    later.sort(key=places.__getitem__)
    found: list[list[int]] = []
    first: list[int] = []
    for place in reversed(begins):
        while later and places[later[-1]] >= place:
            insort(first, later.pop())
            del first[AFTER:]
        found.append([*first])
    return found[::-1]


def _differ(before: Sequence[Vector], after: Sequence[Vector]) -> bool:
    one, other = _sum(before), _sum(after)
    across = _dot(one, other) / (len(before) * len(after))
    return across < ALIKE * (_cohesion(one, len(before)) + _cohesion(other, len(after))) / 2


def _cohesion(total: Vector, count: int) -> float:
    """The mean similarity of two of ``count`` vectors, by their sum."""
    return (_dot(total, total) - count) / (count * (count - 1))


def _sum(vectors: Sequence[Vector]) -> list[float]:
    return [*map(sum, zip(*vectors, strict=True))]


def _dot(one: Vector, other: Vector) -> float:
    products: Iterator[float] = map(mul, one, other)
    return sum(products)


# Names


@attrs.frozen
class Names:
    """In how many of ``count`` objects each name stands."""

    held: Mapping[str, int]
    count: int

    @staticmethod
    def of(named: Iterable[Collection[str]]) -> "Names":
        """Those of objects, each with its names."""
        each = [dict.fromkeys(names) for names in named]  # in order: a set's is another in each process
        return Names(Counter(name for names in each for name in names), len(each))

    def __add__(self, other: "Names") -> "Names":
        """Those of the objects of both."""
        return Names(Counter(self.held) + Counter(other.held), self.count + other.count)

    def weights(self, there: "Names") -> Weights:
        """What the names in an episode's objects tell of it: the more of them hold it, and the fewer of all that are
        ``there``, the more (tf-idf, counted in objects).
        """
        return {
            name: count / self.count * math.log((1 + there.count) / max(1, there.held.get(name, 0)))
            for name, count in self.held.items()
        }


def likeness(one: Weights, other: Weights) -> float:
    """How alike two episodes are by the weights of their names, 0 to 1 (their cosine)."""
    lengths = math.sqrt(sum(value**2 for value in one.values()) * sum(value**2 for value in other.values()))
    return sum(value * other.get(name, 0.0) for name, value in one.items()) / lengths if lengths else 0.0
