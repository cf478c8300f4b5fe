"""What helper models may cost, against what turns cost: a sum a day, and a share of the day's bill.

A day is one of UTC. Amounts are whole nanodollars. Turns are counted at list prices, one of an unknown model as
nothing.
"""

from typing import Protocol

import attrs

DAY = 24 * 60 * 60 * 1_000_000
"""In µs."""


@attrs.frozen
class DaySpending:
    """What was spent on day number ``day`` (since 1970): ``turns`` by the client, ``helpers`` by us."""

    day: int
    turns: int = 0
    helpers: int = 0


@attrs.frozen
class Budget:
    """The most that helpers may cost: nanodollars ``a_day``, and a ``share`` (0 to 1) of what the day's turns cost."""

    a_day: int
    share: float

    def room(self, spent: DaySpending) -> int:
        """What may still be spent that day, in nanodollars; never below 0."""
        return max(0, min(self.a_day, int(self.share * spent.turns)) - spent.helpers)


class Spending(Protocol):
    """What the log says was spent."""

    async def on_day(self, day: int) -> DaySpending:
        """All that is on record of a day by now, whichever process recorded it. Raises LogUnavailable."""
        ...
