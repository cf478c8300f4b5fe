"""Pressure: how full a context window is.

It is measured against the *usable* window and not the model's: the client compacts before the model's limit, a smaller
context may be cheaper, and every window also holds the system prompt, the tools and the reply. The planner decides how
to respond (``window/planning.py``).
"""

from collections.abc import Mapping
from enum import IntEnum

import attrs


@attrs.frozen(kw_only=True)
class Window:
    """Limits of a branch's history, in tokens.

    ``model_tokens`` is the model's window, ``compaction_tokens`` the prompt size at which the client compacts on its
    own, ``budget_tokens`` the size above which a smaller prompt is cheaper; None means no such limit. ``fixed_tokens``
    are the system prompt and the tools. ``output_reserve`` is room for the reply: it becomes part of the next prompt,
    so it counts against the first two limits; tokens over the budget are removed before the next prompt is sent. Raises
    ValueError for a negative number.
    """

    model_tokens: int = attrs.field(validator=attrs.validators.ge(0))
    compaction_tokens: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(0))
    )
    budget_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(0)))
    fixed_tokens: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    output_reserve: int = attrs.field(default=0, validator=attrs.validators.ge(0))

    @property
    def usable(self) -> int:
        """Tokens available to the history; 0 if the fixed part alone fills the window."""
        ends = min(limit for limit in (self.model_tokens, self.compaction_tokens) if limit is not None)
        prompt = ends - self.output_reserve
        if self.budget_tokens is not None:
            prompt = min(prompt, self.budget_tokens)
        return max(0, prompt - self.fixed_tokens)


class Zone(IntEnum):
    """How full the usable window is. A larger number is fuller."""

    NORMAL = 0
    CAUTION = 1
    WARNING = 2
    CRITICAL = 3
    EMERGENCY = 4


PERCENT: Mapping[Zone, int] = {Zone.CAUTION: 50, Zone.WARNING: 70, Zone.CRITICAL: 85, Zone.EMERGENCY: 95}
"""Lower bound of each zone above NORMAL, in percent of the usable window."""


def zone(tokens: int, window: Window) -> Zone:
    """The zone of a history of ``tokens``, excluding the fixed part. An empty history is always NORMAL."""
    entered = (level for level, percent in PERCENT.items() if tokens and 100 * tokens >= percent * window.usable)
    return max(entered, default=Zone.NORMAL)
