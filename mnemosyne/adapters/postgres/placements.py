"""The directory of shards: which database holds a session, where several databases share the sessions (ADR 104).

Every database has the rows of all sessions, by the hash of the client's name for each. No row is ever changed.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence

from mnemosyne.adapters.postgres.database import Connection, Database, Timeouts
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.errors import DatabaseUnfit, LogFailed
from mnemosyne.projections.directory import DIRECTORY
from mnemosyne.projections.projector import Projector

log = logging.getLogger(__name__)

PATIENCE = Timeouts(connect=2, run=10)
"""For another database, whose rows are copied."""

_OWN = ""
"""The name in the row of the database itself."""

_ADOPT = b"""
insert into mnemosyne.placements (name, shard)
select sha256(convert_to(name, 'UTF8')), %s from (
    select external_id as name from mnemosyne.directory_sessions
    union select agent_id from mnemosyne.directory_agents
    union select external_id from mnemosyne.directory_speakers
    union select '') as known
on conflict do nothing
"""


async def find_place(database: Database, name: str, new: Mapping[str, int]) -> int | None:
    """Add rows for ``new`` sessions that have none; return the number of the shard that holds the session of this name,
    None if there is no row.
    """
    return await database.run(_find_place, name, new)


async def count_places(database: Database) -> int:
    """The number of names that have a row for this database."""
    return await database.run(_count)


async def join_shards(database: Database, events: PostgresEventLog, number: int, others: Iterable[str]) -> None:
    """Add rows for the sessions in this database, and exchange rows with the databases ``others`` that answer.

    Raises DatabaseUnfit if this database has another number than ``number``.
    """
    await Projector(DIRECTORY, events, PostgresProjections(database)).catch_up()
    own = await database.run(_adopt, number)
    if own != number:
        raise DatabaseUnfit(
            f"the database is number {own} of `dsn` and `shards`, but the settings list it as number {number}; "
            "restore their order"
        )
    for dsn in others:
        other = Database(dsn, connections=1, timeouts=PATIENCE)
        try:
            await database.run(_add, await other.run(_read))
            await other.run(_add, await database.run(_read))
        except LogFailed as error:
            log.info("the directory of shards is not copied to or from another database: %s", error)
        finally:
            other.close()


Rows = Sequence[tuple[bytes, int]]


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


def _find_place(connection: Connection, name: str, new: Mapping[str, int]) -> int | None:
    _add(connection, [(_digest(each), shard) for each, shard in new.items()])
    return _shard_of(connection, name)


def _shard_of(connection: Connection, name: str) -> int | None:
    row = connection.execute("select shard from mnemosyne.placements where name = %s", (_digest(name),)).fetchone()
    return row[0] if row else None


def _count(connection: Connection) -> int:
    own = _shard_of(connection, _OWN)
    row = connection.execute("select count(*) from mnemosyne.placements where shard = %s", (own,)).fetchone()
    return int(row[0]) if row else 0


def _adopt(connection: Connection, number: int) -> int | None:
    connection.execute(_ADOPT, (number,))
    return _shard_of(connection, _OWN)


def _read(connection: Connection) -> Rows:
    rows = connection.execute("select name, shard from mnemosyne.placements where name <> %s", (_digest(_OWN),))
    return rows.fetchall()


def _add(connection: Connection, rows: Rows) -> None:
    if rows:
        connection.execute(
            "insert into mnemosyne.placements (name, shard) select * from unnest(%s::bytea[], %s::integer[])"
            " on conflict do nothing",
            ([name for name, _ in rows], [shard for _, shard in rows]),
        )
