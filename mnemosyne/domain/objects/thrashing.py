"""How often a branch fetches evicted content again: a sign that its window is too small for its task."""

from collections import Counter
from collections.abc import Iterable

import attrs


@attrs.frozen
class Refault:
    """A fault in a branch: its turn and its topic (a file's path, a command, or else the object's id)."""

    turn: int
    topic: str


THRASH_TURNS = 5


def thrash_index(refaults: Iterable[Refault], turn: int) -> float:
    """Repeated faults per turn over the last ``THRASH_TURNS`` turns; the first fault of each topic does not count.

    At 0.5 and above the window is too small for its task: every other turn fetches the same content once more.
    """
    topics = Counter(refault.topic for refault in refaults if turn - THRASH_TURNS < refault.turn <= turn)
    return sum(count - 1 for count in topics.values()) / THRASH_TURNS


def refault_distance(left: int, turn: int) -> int:
    """The number of turns from an object's eviction in the turn ``left`` to its fault. A short distance means that it
    was evicted too early.
    """
    return max(0, turn - left)
