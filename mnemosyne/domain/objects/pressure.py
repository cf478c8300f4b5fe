"""How full a context window is.

Pressure is counted against the *usable* window, never against the model's: the client compacts before the model's end
is reached, a smaller context may be the cheaper one, and part of every window belongs to the system prompt, the tools
and the reply. What is done about it, and when, is the planner's to say (``window/planning.py``).
"""

from collections.abc import Mapping
from enum import IntEnum

import attrs


@attrs.frozen(kw_only=True)
class Window:
    """What limits a branch's history, in tokens.

    ``model_tokens`` is the model's window, ``compaction_tokens`` the size of a prompt at which the client compacts on
    its own, ``budget_tokens`` the size above which a smaller prompt would pay; None where there is no such limit.
    ``fixed_tokens`` are the system prompt and the tools. ``output_reserve`` is room for the reply: it is part of the
    next prompt, so it counts against the first two; what is over the budget is taken out before the next prompt leaves.
    Raises ValueError for a negative number.
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
        """How many tokens of history fit; 0 where the fixed part alone fills the window."""
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
"""Where each zone above NORMAL begins, in percent of the usable window."""


def zone(tokens: int, window: Window) -> Zone:
    """The zone of a history of ``tokens``, without the fixed part. An empty history is NORMAL in whatever window."""
    entered = (each for each, percent in PERCENT.items() if tokens and 100 * tokens >= percent * window.usable)
    return max(entered, default=Zone.NORMAL)
