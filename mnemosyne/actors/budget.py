"""The budget of the helper models: it reserves money before a call and reads past spending from the log."""

from collections.abc import Callable

import attrs
import trio

from mnemosyne.domain.session.budget import DAY, Budget, DaySpending, Spending


@attrs.define
class HelperBudget:
    """Money for requests to a model, in nanodollars. ``now`` gives µs of UTC.

    Recorded spending counts regardless of the process. In addition, it counts the amount ``reserved`` in this process
    and the amount spent today that will never be recorded.
    """

    spending: Spending
    limits: Budget
    now: Callable[[], int]
    reserved: int = attrs.field(default=0, init=False)
    _charged: DaySpending = attrs.field(default=DaySpending(0), init=False)
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def reserve(self, nanodollars: int) -> bool:
        """Reserve an amount if the budget has room for it. Raises LogUnavailable."""
        if nanodollars == 0:
            return True
        async with self._reading:
            # The answer may lack an amount that was recorded and released meanwhile, so count what was reserved before.
            reserved = self.reserved
            day = self.now() // DAY
            spent = await self.spending.on_day(day)
            charged = self._charged.helpers if self._charged.day == day else 0
            if self.limits.room(spent) < reserved + charged + nanodollars:
                return False
            self.reserved += nanodollars
            return True

    def release(self, nanodollars: int) -> None:
        """Release a reservation: the amount was not spent, or it is recorded."""
        self.reserved -= nanodollars

    def charge(self, nanodollars: int) -> None:
        """Turn a reservation into spending that will never be recorded."""
        self.reserved -= nanodollars
        day = self.now() // DAY
        charged = self._charged.helpers if self._charged.day == day else 0
        self._charged = DaySpending(day, helpers=charged + nanodollars)
