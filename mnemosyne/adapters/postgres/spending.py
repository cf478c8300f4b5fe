"""What was spent, from the projection of it in PostgreSQL."""

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.domain.session.budget import DaySpending
from mnemosyne.projections.budget import BUDGET, ON_DAY
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.store import Tail


class PostgresSpending:
    """See domain.session.budget.Spending: the projection in a prepared ``Database``, brought up to date before each
    answer, so that no other process's helpers are missed.
    """

    def __init__(self, database: Database, event_log: Tail) -> None:
        self._store = PostgresProjections(database)
        self._projector = Projector(BUDGET, event_log, self._store)

    async def on_day(self, day: int) -> DaySpending:
        """See Spending. Of what cannot be told, no turn's cost is told, so that there is no room for a helper's."""
        standing = await self._projector.catch_up()
        if standing.error is not None:
            return DaySpending(day)
        (rows,) = await self._store.select((BUDGET,), [(ON_DAY, {"day": day})])
        return DaySpending(day, **rows[0]) if rows else DaySpending(day)
