"""Bills and missed tokens from the read models in PostgreSQL."""

from uuid import UUID

from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.domain.session.budget import SpendingBill
from mnemosyne.projections.catalog import find
from mnemosyne.projections.projector import Projector
from mnemosyne.services.budgets import ask_bill, bill_of


class PostgresBills:
    """See domain.session.budget.Bills: from read models that are brought up to date before each answer."""

    def __init__(self, database: Database, event_log: PostgresEventLog) -> None:
        self._database, self._store = database, PostgresProjections(database)
        self._projectors = {
            name: Projector(find(name), event_log, self._store) for name in ("timeline", "usage", "budget")
        }

    async def bill_of(self, tenant: str, stream: UUID, day: int) -> SpendingBill:
        for projector in self._projectors.values():
            await projector.look()
        projections = {name: projector.projection for name, projector in self._projectors.items()}
        answers = await self._store.select(
            tuple(projections.values()),
            [
                (projections[asked.projection].query(asked.query), {**asked.about, "tenant": tenant})
                for asked in ask_bill(stream, day)
            ],
        )
        return bill_of(*answers)

    async def count_missed(self) -> dict[tuple[str, str], int]:
        """The tokens that should have been read from a cache, by cause and culprit (``cold_requests.py``)."""
        return await self._database.run(_read_missed)


def _read_missed(connection: Connection) -> dict[tuple[str, str], int]:
    rows = connection.execute("select cause, culprit, tokens::bigint from mnemosyne.cold_totals")
    return {(cause, culprit): tokens for cause, culprit, tokens in rows}
