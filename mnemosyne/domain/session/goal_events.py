"""What is recorded of the user's goals, and of what was brought for them before the model asked."""

from collections.abc import Mapping
from enum import Enum

import attrs


class Why(Enum):
    """Why something was brought."""

    RECALL = "recall"
    """The user's message refers to what was said or done earlier."""
    NAMED = "named"
    """The user's message names a path or an identifier of what it does not show."""
    REQUESTED = "requested"
    """A person wanted it back."""
    GOAL = "goal"
    """The user's message begins something else. Nothing is brought for that any more; older logs hold it."""


@attrs.frozen(kw_only=True)
class GoalChanged:
    """The message that the user typed last, number ``message`` of the client's, begins another goal in this turn."""

    at: int
    branch: str
    turn: int
    message: int


@attrs.frozen(kw_only=True)
class Brought:
    """An object of which something was brought: ``tokens``, and the words by which it is told whether it was used.

    Words are specifics of what was brought which the branch did not show; ``enough`` of them in what the agent says or
    does are a use.
    """

    object: str
    tokens: int
    words: tuple[str, ...]
    enough: int


@attrs.frozen(kw_only=True)
class MemoryBrought:
    """Words of objects were put behind the user's message, number ``message`` of the client's, in a prompt of about
    ``prompt`` tokens. ``tokens`` is what that added, the words around them included.
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
    """The exchange for which something was brought in ``turn`` is over: these objects of it were ``used``."""

    at: int
    branch: str
    turn: int
    used: tuple[str, ...]


GoalEvent = GoalChanged | MemoryBrought | BroughtJudged

GOAL_EVENT_NAMES: Mapping[str, type[GoalEvent]] = {
    "session.goal_changed.v1": GoalChanged,
    "session.memory_brought.v1": MemoryBrought,
    "session.brought_judged.v1": BroughtJudged,
}
