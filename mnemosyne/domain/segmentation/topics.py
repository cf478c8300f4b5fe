"""Topics: where a conversation changes its topic, and which stretches share one.

An *episode* is a stretch of objects about one thing. A new one begins at a user prompt if the objects after it share
few significant names with those before it (windows as in TextTiling, Hearst 1997). A *theme* consists of episodes about
the same thing at different times.

Invariants. Whether a prompt begins an episode depends only on the objects up to the ``AFTER``-th after it: an episode
that has ended does not change, and a history that is read in pieces has the same episodes as one read at once.
"""

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice

import attrs

from mnemosyne.domain.objects.events import BlockPlace

BEFORE, AFTER = 30, 12
"""How many objects before and after a prompt are compared; a prompt with fewer after it is undecided."""

SHORTEST = 16
"""The minimum number of objects of an episode."""

SAME_TOPIC = 0.12
"""From this similarity of the names before and after a prompt on, the topic is the same."""

SAME_THEME = 0.16
"""From this similarity of their names on, two episodes are about the same thing."""

Weights = Mapping[str, float]
"""The significance of each name for the topic."""

START = BlockPlace(0, 0)


@attrs.frozen
class Shift:
    """Another topic begins at ``place``; this is known once the first ``made`` objects exist."""

    place: BlockPlace
    made: int


def shifts(
    places: Sequence[BlockPlace],
    prompts: Sequence[int],
    names: Callable[[int], Collection[str]],
    since: BlockPlace = START,
    seen: int = 0,
) -> Iterator[Shift]:
    """Yield the shifts of topic, in order.

    ``places`` are the beginnings of the objects, in the order in which these were made; ``prompts`` are the numbers of
    those that the user typed, and ``names`` returns an object's names. ``since`` is where the last known episode ended.
    Shifts that the first ``seen`` objects already showed are left out, at hardly any cost.
    """
    messages = [place.message for place in places]
    first = next((number for number, message in enumerate(messages) if message >= since.message), 0)
    open_ = sorted((places[number], number) for number in _open(places, prompts, seen) if places[number] > since)
    for (place, number), after in zip(open_, _behind(places, messages, [place for place, _ in open_]), strict=True):
        if len(after) < AFTER:
            return
        made = max(after[-1], number) + 1
        if made <= seen:
            continue
        newest_first = range(made - 1, first - 1, -1)
        inside = islice((made_at for made_at in newest_first if since <= places[made_at] < place), SHORTEST)
        if sum(1 for _ in inside) < SHORTEST:
            continue
        before = [*islice((made_at for made_at in reversed(range(made)) if places[made_at] < place), BEFORE)]
        if _differ(Names.of(map(names, before)), Names.of(map(names, after))):
            yield Shift(place, made)
            since, first = place, after[0]


def _open(places: Sequence[BlockPlace], prompts: Sequence[int], seen: int) -> list[int]:
    """Return the prompts for which the first ``seen`` objects may not decide yet whether they begin a topic: all except
    those followed by ``AFTER`` of the newest of these objects.
    """
    newest = nlargest(AFTER, places[max(0, seen - NEWEST) : seen])
    if len(newest) < AFTER:
        return [*prompts]
    return [number for number in prompts if number >= seen or places[number] > newest[-1]]


NEWEST = 4 * AFTER
"""How many of the known objects determine which prompts are undecided."""


def _behind(places: Sequence[BlockPlace], messages: Sequence[int], begins: Sequence[BlockPlace]) -> list[list[int]]:
    """Return the first ``AFTER`` objects, or all there are, at or after each of some ordered places."""
    if not begins:
        return []
    later = [number for number, message in enumerate(messages) if message >= begins[0].message]
    later.sort(key=places.__getitem__)
    result: list[list[int]] = []
    first: list[int] = []
    for place in reversed(begins):
        while later and places[later[-1]] >= place:
            insort(first, later.pop())
            del first[AFTER:]
        result.append([*first])
    return result[::-1]


def _differ(before: "Names", after: "Names") -> bool:
    """Return whether two groups of objects differ in topic; a group without names shows none."""
    one, other = before.weights(before + after), after.weights(before + after)
    return bool(one and other) and likeness(one, other) < SAME_TOPIC


# Names


@attrs.frozen
class Names:
    """The number of objects that contain each name, among ``count`` objects."""

    counts: Mapping[str, int]
    count: int

    @staticmethod
    def of(named: Iterable[Collection[str]]) -> "Names":
        """Count the names of objects."""
        unique = [dict.fromkeys(names) for names in named]  # in order: the order of a set differs between processes
        return Names(Counter(name for names in unique for name in names), len(unique))

    def __add__(self, other: "Names") -> "Names":
        """Add the counts of other objects."""
        return Names(Counter(self.counts) + Counter(other.counts), self.count + other.count)

    def weights(self, background: "Names") -> Weights:
        """Return the significance of the names in an episode's objects: higher the more of them contain it, and the
        fewer of the ``background`` (tf-idf, counted in objects).
        """
        return {
            name: count / self.count * math.log((1 + background.count) / max(1, background.counts.get(name, 0)))
            for name, count in self.counts.items()
        }


def likeness(one: Weights, other: Weights) -> float:
    """Return the similarity of two groups of objects by the weights of their names, 0 to 1 (their cosine)."""
    lengths = math.sqrt(sum(value**2 for value in one.values()) * sum(value**2 for value in other.values()))
    return sum(value * other.get(name, 0.0) for name, value in one.items()) / lengths if lengths else 0.0
