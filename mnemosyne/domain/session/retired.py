"""Events of removed features. Nothing makes them any more; older logs hold them, and they change nothing.

Goals and prefetch: up to November 2026 the proxy guessed when a message began another goal, and put objects that a
message referred to behind it.
"""

from collections.abc import Mapping
from enum import Enum

import attrs


class Why(Enum):
    """Why something was prefetched."""

    RECALL = "recall"
    """The user's message referred to something earlier."""
    NAMED = "named"
    """The user's message named a path or an identifier that it did not show."""
    REQUESTED = "requested"
    """A person asked for it."""
    GOAL = "goal"
    """The user's message began another goal."""


@attrs.frozen(kw_only=True)
class GoalChanged:
    """The client's message number ``message`` began another goal in this turn."""

    at: int
    branch: str
    turn: int
    message: int


@attrs.frozen(kw_only=True)
class Brought:
    """An object of which ``tokens`` were prefetched. ``enough`` of the ``words`` in what the agent said counted as a
    use of it.
    """

    object: str
    tokens: int
    words: tuple[str, ...]
    enough: int


@attrs.frozen(kw_only=True)
class MemoryBrought:
    """Text of objects was put behind the client's message number ``message``, in a prompt of about ``prompt`` tokens.
    ``tokens`` is what that added in all.
    """

    at: int
    branch: str
    turn: int
    message: int
    epoch: int
    why: Why
    objects: tuple[Brought, ...]
    tokens: int
    prompt: int


@attrs.frozen(kw_only=True)
class BroughtJudged:
    """The exchange for which objects were prefetched in ``turn`` is over; those in ``used`` were used."""

    at: int
    branch: str
    turn: int
    used: tuple[str, ...]


RetiredEvent = GoalChanged | MemoryBrought | BroughtJudged

RETIRED_EVENT_NAMES: Mapping[str, type[RetiredEvent]] = {
    "session.goal_changed.v1": GoalChanged,
    "session.memory_brought.v1": MemoryBrought,
    "session.brought_judged.v1": BroughtJudged,
}
