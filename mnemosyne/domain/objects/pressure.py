"""How full a context window is, and what that asks for.

Pressure is counted against the *usable* window, never against the model's: the client compacts before the model's end
is reached, a smaller context may be the cheaper one, and part of every window belongs to the system prompt, the tools
and the reply. What is asked for is a table; which objects pay for it is decided in ``eviction.py``, and when it is done
is a question of money.
"""

from collections.abc import Mapping
from enum import IntEnum

import attrs

from mnemosyne.domain.objects.fidelity import Fidelity


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


@attrs.frozen
class Thresholds:
    """Where CAUTION, WARNING, CRITICAL and EMERGENCY begin, in percent of the usable window.

    Raises ValueError unless they are positive and ascending.
    """

    percent: tuple[int, int, int, int] = (50, 70, 85, 95)

    def __attrs_post_init__(self) -> None:
        if not 0 < self.percent[0] < self.percent[1] < self.percent[2] < self.percent[3]:
            raise ValueError(f"the zones' thresholds must be positive and ascending percents, and are {self.percent}")

    def begin(self, zone: Zone, window: Window) -> int:
        """The fewest tokens of history, at least 1, that are in the zone or above it; 0 for NORMAL."""
        if zone is Zone.NORMAL:
            return 0
        return max(1, -(-self.percent[zone - 1] * window.usable // 100))


THRESHOLDS = Thresholds()


@attrs.frozen
class Ask:
    """Objects that nothing has used for ``idle`` turns should stand no higher than ``fidelity``.

    Superseded and released objects need no idle time: it is known that something else says how things are, or that
    they are not needed.
    """

    fidelity: Fidelity
    idle: int


ASKS: Mapping[Zone, tuple[Ask, ...]] = {
    Zone.NORMAL: (),
    Zone.CAUTION: (Ask(Fidelity.DETAILED, idle=20),),
    Zone.WARNING: (Ask(Fidelity.DETAILED, idle=10), Ask(Fidelity.COMPACT, idle=10), Ask(Fidelity.STUB, idle=20)),
    Zone.CRITICAL: (Ask(Fidelity.STUB, idle=3), Ask(Fidelity.EVICTED, idle=20)),
    Zone.EMERGENCY: (Ask(Fidelity.EVICTED, idle=0),),
}
"""What each zone asks for, one after the other, after what the zones below it ask: so a higher zone never asks for
less, and the mildest and the oldest go first. The idle turns are ours, chosen with what 268 recorded sessions say: an
edit quotes text that was last seen 2 turns ago (median), 14 (p90) or 21 (p95)."""


def zone(tokens: int, window: Window, thresholds: Thresholds = THRESHOLDS) -> Zone:
    """The zone of a history of ``tokens``, without the fixed part. A zone begins at its threshold."""
    return Zone(sum(tokens >= thresholds.begin(each, window) for each in Zone if each is not Zone.NORMAL))


def goal(entered: Zone, window: Window, thresholds: Thresholds = THRESHOLDS) -> int:
    """How many tokens of history may be left for what a zone asks to be done: where the zone below it begins.

    A zone that was left by a hair would be entered again by the next turn, and each rewrite costs the whole prefix.
    CAUTION asks until NORMAL is reached.
    """
    return thresholds.begin(Zone(max(entered - 1, Zone.CAUTION)), window) - 1
