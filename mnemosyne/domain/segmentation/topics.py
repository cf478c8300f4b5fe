"""Topics: where a conversation changes its topic, and which stretches share one.

An *episode* is a stretch of objects about one thing. A new one begins at a user prompt if the objects after it share
few significant names with those before it (windows as in TextTiling, Hearst 1997). A *theme* consists of episodes about
the same thing at different times.

Invariants. Whether a prompt begins an episode depends only on the objects that are made before it and on ``AFTER``
objects from it on: an episode that has ended does not change, and a history that is read in pieces has the same
episodes as one read at once.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import attrs

from mnemosyne.domain.objects.events import BlockPlace

BEFORE, AFTER = 30, 12
"""How many objects before a prompt and from it on are compared; a prompt with fewer from it on is undecided."""

SHORTEST = 16
"""The minimum number of objects of an episode."""

SAME_TOPIC = 0.1
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
    prompts: Iterable[int],
    names: Callable[[int], Collection[str]],
    since: BlockPlace = START,
    seen: int = 0,
) -> Iterator[Shift]:
    """Yield the shifts of topic, in order.

    ``places`` are the beginnings of the objects, in the order in which these were made; ``prompts`` are the numbers of
    those that the user typed, and ``names`` returns an object's names. ``since`` is where the last known episode ended.
    Shifts that the first ``seen`` objects already showed are left out.
    """
    for prompt in prompts:
        made, place = prompt + AFTER, places[prompt]
        if not seen < made <= len(places) or place <= since:
            continue
        earlier = list(islice((number for number in range(made - 1, -1, -1) if places[number] < place), BEFORE))
        if sum(places[number] >= since for number in earlier) < SHORTEST:
            continue
        if _differ(Names.of(map(names, earlier)), Names.of(map(names, range(prompt, made)))):
            yield Shift(place, made)
            since = place


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
