"""Events of removed features. Nothing makes them any more; older logs contain them, and they fold to nothing.

Goals and prefetch: until November 2026 the proxy guessed when a message began a new goal, and appended objects that the
message referred to.
"""

from collections.abc import Mapping

import attrs

from mnemosyne.domain.session.address import TurnEvent


@attrs.frozen(kw_only=True)
class GoalChanged(TurnEvent):
    """The client's message number ``message`` began a new goal in this turn."""

    message: int


@attrs.frozen(kw_only=True)
class Brought:
    """An object of which ``tokens`` were prefetched. It counted as used once the agent's text contained ``enough`` of
    the ``words``.
    """

    object: str
    tokens: int
    words: tuple[str, ...]
    enough: int


@attrs.frozen(kw_only=True)
class MemoryBrought(TurnEvent):
    """Text of objects was inserted after the client's message number ``message``, in a prompt of about ``prompt``
    tokens. ``tokens`` is the total size of the insertion, and ``why`` its reason (`docs/events.md`).
    """

    message: int
    epoch: int
    why: str
    objects: tuple[Brought, ...]
    tokens: int
    prompt: int


@attrs.frozen(kw_only=True)
class BroughtJudged(TurnEvent):
    """The exchange for which objects were prefetched in ``turn`` is over; those in ``used`` were used."""

    used: tuple[str, ...]


RetiredEvent = GoalChanged | MemoryBrought | BroughtJudged

RETIRED_EVENT_NAMES: Mapping[str, type[RetiredEvent]] = {
    "session.goal_changed.v1": GoalChanged,
    "session.memory_brought.v1": MemoryBrought,
    "session.brought_judged.v1": BroughtJudged,
}
