"""The budget of the helper models: reserves money before it is spent, and knows from the log what was."""

from collections.abc import Callable

import attrs
import trio

from mnemosyne.domain.session.budget import DAY, Budget, DaySpending, Spending


@attrs.define
class HelperBudget:
    """Money for requests to a model, in nanodollars. ``now`` gives µs of UTC.

    What is on record counts whichever process spent it. Beside that it holds what is ``reserved`` in this process, and
    what was spent today and will never be on record.
    """

    spending: Spending
    limits: Budget
    now: Callable[[], int]
    reserved: int = attrs.field(default=0, init=False)
    _charged: DaySpending = attrs.field(default=DaySpending(0), init=False)
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def reserve(self, nanodollars: int) -> bool:
        """Hold an amount back if there is room for it. Raises LogUnavailable."""
        if nanodollars == 0:
            return True
        async with self._reading:
            # What is put on record and released meanwhile may be missing in the answer: it is still counted here.
            reserved = self.reserved
            day = self.now() // DAY
            spent = await self.spending.on_day(day)
            charged = self._charged.helpers if self._charged.day == day else 0
            if self.limits.room(spent) < reserved + charged + nanodollars:
                return False
            self.reserved += nanodollars
            return True

    def release(self, nanodollars: int) -> None:
        """Hold it back no longer: it was not spent, or it is on record."""
        self.reserved -= nanodollars

    def charge(self, nanodollars: int) -> None:
        """It was spent, and will never be on record."""
        self.reserved -= nanodollars
        day = self.now() // DAY
        charged = self._charged.helpers if self._charged.day == day else 0
        self._charged = DaySpending(day, helpers=charged + nanodollars)
