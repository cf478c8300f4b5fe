"""Pressure: how full a context window is.

It is measured against the *usable* window and not the model's: the client compacts before the model's limit, a smaller
context may be cheaper, and every window also holds the system prompt, the tools and the reply. The planner decides how
to respond (``window/planning.py``).
"""

from collections.abc import Mapping
from enum import IntEnum


def usable_tokens(*, ends: int, budget: int | None, fixed: int, reserve: int) -> int:
    """The tokens available to a branch's history; 0 if the fixed part alone fills the window.

    ``ends`` is the prompt size at which the model's window ends or the client compacts on its own, ``budget`` the size
    above which a smaller prompt is cheaper (None: no such size), ``fixed`` the system prompt and the tools. ``reserve``
    is room for the reply: it becomes part of the next prompt, so it counts against ``ends``; tokens over the budget are
    removed before the next prompt is sent.
    """
    prompt = ends - reserve
    return max(0, (prompt if budget is None else min(prompt, budget)) - fixed)


class Zone(IntEnum):
    """How full the usable window is. A larger number is fuller."""

    NORMAL = 0
    CAUTION = 1
    WARNING = 2
    CRITICAL = 3
    EMERGENCY = 4


ZONES = tuple(each.name.lower() for each in Zone)
"""The recorded names of the zones."""

PERCENT: Mapping[Zone, int] = {Zone.CAUTION: 50, Zone.WARNING: 70, Zone.CRITICAL: 85, Zone.EMERGENCY: 95}
"""Lower bound of each zone above NORMAL, in percent of the usable window."""


def zone(tokens: int, usable: int) -> Zone:
    """The zone of a history of ``tokens`` in a window with so many ``usable`` ones. An empty history is NORMAL."""
    entered = (level for level, percent in PERCENT.items() if tokens and 100 * tokens >= percent * usable)
    return max(entered, default=Zone.NORMAL)
