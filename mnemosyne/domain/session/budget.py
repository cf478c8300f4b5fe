"""The budget for helper models: an amount per day, and a share of the day's bill for turns.

Days are UTC days. Amounts are whole nanodollars. Turns cost list prices; a turn of an unknown model counts as 0.
"""

from typing import Protocol

import attrs

DAY = 24 * 60 * 60 * 1_000_000
"""In µs."""


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
