"""The purse of the helper models: gives out money within the budget, and knows from the log what was spent."""

from collections.abc import Callable

import attrs
import trio

from mnemosyne.domain.ports import EventLog
from mnemosyne.domain.session import spending
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.spending import DAY, Budget, Spent

PAGE = 1_000
"""Events that are read at a time."""


@attrs.define
class Purse:
    """Money for requests to a model. ``now`` gives µs of UTC.

    It follows the whole log, from its beginning once in a process: other processes spend from the same budget.
    """

    log: EventLog[Event]
    budget: Budget
    now: Callable[[], int]
    _position: int = attrs.field(default=0, init=False)
    _spent: Spent = attrs.field(default=Spent(0), init=False)
    _held: int = attrs.field(default=0, init=False)
    _reading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def take(self, nanodollars: int) -> bool:
        """Hold an amount back if there is room for it. Raises LogUnavailable."""
        if nanodollars == 0:
            return True
        spent = await self._today()
        if self.budget.room(spent) < self._held + nanodollars:
            return False
        self._held += nanodollars
        return True

    def put_back(self, nanodollars: int) -> None:
        """Hold it back no longer: it was not spent, or it is on record."""
        self._held -= nanodollars

    def write_off(self, nanodollars: int) -> None:
        """It was spent, and will never be on record."""
        self._held -= nanodollars
        self._spent = attrs.evolve(self._spent, helpers=self._spent.helpers + nanodollars)

    async def _today(self) -> Spent:
        async with self._reading:
            self._spent = spending.on(self.now() // DAY, self._spent)
            while page := await self.log.tail(after=self._position, limit=PAGE):
                for each in page:
                    self._spent = spending.after(self._spent, each.envelope.event)
                self._position = page[-1].position
            return self._spent
