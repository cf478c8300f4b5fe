"""The directory of sessions in PostgreSQL: modes from the log, agents and forks from the projection."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.domain.session.directory import Alias, is_switched_on, modes_by_branch, off_since, operator_stream
from mnemosyne.domain.session.events import BranchOpened
from mnemosyne.domain.session.round_events import BranchModeSet, ManagingSwitched, Mode
from mnemosyne.errors import LogFailed, LogUnavailable
from mnemosyne.projections.directory import ALIASES, DIRECTORY, MANAGED_WITH, ROOT_OF, UNNAMED_WITH
from mnemosyne.projections.projection import Query
from mnemosyne.projections.projector import Projector


class PostgresDirectory:
    """See session.directory.Directory. A call brings the projection up to date first, and raises LogFailed if that is
    impossible.
    """

    def __init__(self, database: Database, event_log: PostgresEventLog) -> None:
        self._database = database
        self._log = event_log
        self._projector = Projector(DIRECTORY, event_log, PostgresProjections(database))

    async def modes_of(self, stream: UUID) -> Mapping[str, Mode]:
        return modes_by_branch(await self._select(stream, BranchOpened, BranchModeSet))

    async def is_switched_on(self, stream: UUID) -> bool | None:
        return is_switched_on(await self._select(stream, ManagingSwitched))

    async def root_of(self, tenant: str, agent_id: str) -> str | None:
        await self._projector.look()
        found = await self._database.run(_find_with, ROOT_OF, tenant, (), agent_id, alone=True)
        return found[0] if found else None

    async def off_since(self, tenant: str) -> int | None:
        return off_since(await self._select(operator_stream(tenant), ManagingSwitched))

    async def has_managed(self, tenant: str) -> bool:
        await self._projector.look()
        return bool(await self._database.run(_find_with, _ANY, tenant, (), alone=True))

    async def find_managed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        await self._projector.look()
        return await self._database.run(_find_with, MANAGED_WITH, tenant, chains, alone=True)

    async def count_shared(self, tenant: str, chains: Sequence[bytes]) -> int:
        """The number of first messages of a history that a managed session shares."""
        await self._projector.look()
        found = await self._database.run(_find_with, _SHARED, tenant, chains, alone=True)
        return max((number for number, chain in enumerate(chains, 1) if chain.hex() in found), default=0)

    async def find_unnamed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        await self._projector.look()
        return await self._database.run(_find_with, UNNAMED_WITH, tenant, chains, alone=True)

    async def aliases(self, name: str) -> Sequence[Alias]:
        try:
            await self._projector.look()
            return await self._database.run(_aliases, name)
        except LogUnavailable:
            raise
        except LogFailed:
            return ()  # the projection does not exist yet

    async def _select(self, stream: UUID, *classes: type) -> list[object]:
        return [recorded.envelope.event for recorded in await self._log.select(stream, classes)]


_ANY = Query(
    "any",
    """select s.external_id from mnemosyne.directory_rounds r join mnemosyne.directory_sessions s using (stream)
where s.tenant = %(tenant)s limit 1""",
)

_SHARED = Query(
    "shared",
    """select distinct h.chain from mnemosyne.directory_sessions s join mnemosyne.directory_histories h using (stream)
join mnemosyne.directory_rounds r using (stream, branch, turn)
where h.chain = any(%(chains)s) and s.tenant = %(tenant)s""",
)


def _aliases(connection: Connection, name: str) -> list[Alias]:
    return [Alias(*row) for row in connection.execute(ALIASES.sql.encode(), {"name": name})]


def _find_with(
    connection: Connection, query: Query, tenant: str, chains: Sequence[bytes], agent: str = ""
) -> list[str]:
    asked = {"tenant": tenant, "chains": [chain.hex() for chain in chains], "agent": agent}
    return [row[0] for row in connection.execute(query.sql.encode(), asked)]
