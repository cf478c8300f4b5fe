"""How often a branch fetches again what it had: a sign that its window is too small for its task."""

from collections import Counter
from collections.abc import Iterable

import attrs


@attrs.frozen
class Refault:
    """A fault in a branch: in which turn, and for what (a file's path, a command, else the object's id)."""

    turn: int
    topic: str


THRASH_TURNS = 5


def thrash_index(refaults: Iterable[Refault], turn: int) -> float:
    """Faults of the last ``THRASH_TURNS`` turns that were not the first for their topic, for each of these turns.

    From 0.5 on the window is too small for its task: every other turn fetches again what had been fetched already.
    """
    topics = Counter(each.topic for each in refaults if turn - THRASH_TURNS < each.turn <= turn)
    return sum(count - 1 for count in topics.values()) / THRASH_TURNS


def refault_distance(left: int, turn: int) -> int:
    """For how many turns an object that left the window in the turn ``left`` was not missed. Short ones say that it
    left too early."""
    return max(0, turn - left)
