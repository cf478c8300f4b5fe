"""The user's limits on cost; and the budget for helper models: an amount per day, and a share of the day's bill for
turns.

Days are UTC days. Amounts are whole nanodollars. Turns cost list prices; a turn of an unknown model counts as 0.
"""

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID

import attrs

DAY = 24 * 60 * 60 * 1_000_000
"""In µs."""

NEAR = 0.8
"""The part of a limit from which its use is shown as a warning."""


@attrs.frozen(kw_only=True)
class SpendingLimits:
    """The user's limits, None for none. Once a session cost ``session``, or a tenant's sessions cost ``day`` on a day,
    no prompt is sent; once a session cost ``hard``, no request of a conversation. ``sources`` has the place of each
    setting.
    """

    session: int | None = None
    day: int | None = None
    hard: int | None = None
    sources: Mapping[str, str] = attrs.field(factory=dict, eq=False)

    @property
    def are_set(self) -> bool:
        return self != SpendingLimits()


@attrs.frozen(kw_only=True)
class SpendingBill:
    """What the provider and the helper models have billed for a ``session``, and for its tenant's sessions on a day."""

    session: int = 0
    day: int = 0


@attrs.frozen(kw_only=True)
class UsedLimit:
    """A limit, by the name of its setting, and what was ``spent`` of it."""

    setting: str
    limit: int
    spent: int

    @property
    def is_reached(self) -> bool:
        return self.spent >= self.limit

    @property
    def is_hard(self) -> bool:
        """Whether it also stops an agent between two calls of tools."""
        return self.setting == HARD


SESSION, DAYS, HARD = "session_budget_dollars", "day_budget_dollars", "session_hard_limit_dollars"


def list_used(bill: SpendingBill, limits: SpendingLimits) -> list[UsedLimit]:
    """The limits that are reached or nearly reached, the hardest first."""
    known = ((HARD, limits.hard, bill.session), (SESSION, limits.session, bill.session), (DAYS, limits.day, bill.day))
    used = [UsedLimit(setting=name, limit=limit, spent=spent) for name, limit, spent in known if limit is not None]
    return [each for each in used if each.spent >= NEAR * each.limit]


class Bills(Protocol):
    """The bills according to the log."""

    async def bill_of(self, tenant: str, stream: UUID, day: int) -> SpendingBill:
        """All that was billed so far, by any process, for a session and for its tenant since the start of a day, which
        is its number. Raises LogFailed.
        """


@attrs.frozen
class DaySpending:
    """Spending on day number ``day`` (since 1970): ``turns`` by the client, ``helpers`` by the proxy."""

    day: int
    turns: int = 0
    helpers: int = 0


@attrs.frozen
class Budget:
    """Limits on helper cost: nanodollars ``a_day``, and a ``share`` (0 to 1) of the cost of the day's turns."""

    a_day: int
    share: float

    def room(self, spent: DaySpending) -> int:
        """The nanodollars that helpers may still spend on that day; never below 0."""
        return max(0, min(self.a_day, int(self.share * spent.turns)) - spent.helpers)


class Spending(Protocol):
    """Spending according to the log."""

    async def on_day(self, day: int) -> DaySpending:
        """All spending recorded for a day so far, by any process. Raises LogUnavailable."""
