"""The size of the database's files, and the removal of erased bytes from them."""

import time
from collections.abc import Callable, Mapping

from mnemosyne.adapters.postgres.database import Connection, Database, without_transaction
from mnemosyne.errors import LogUnavailable

SECONDS = 24 * 3600.0
"""The time limit of a rewrite, which copies all sessions."""

_TIME: Mapping[str, str] = {"statement_timeout": "0", "lock_timeout": "30s"}
"""Time limits of the statements of a rewrite."""

OLDER_SECONDS, OLDER_LOOK_SECONDS = 60.0, 0.05
"""The time limit to wait for older transactions, and the interval between looks."""


async def disk_bytes(database: Database) -> int:
    """The size of the database on disk: tables, indexes and free space, without WAL."""
    return await database.run(_disk_bytes)


Report = Callable[[int, int], None]
"""Receives the number of rewritten bytes, and the total."""


async def rewrite_content(database: Database, *, ours_alone: bool, report: Report) -> None:
    """Rewrite the tables of events, content and the index, which removes deleted rows from the files.

    Each table is locked meanwhile. ``ours_alone`` means that the whole server is Mnemosyne's: then the WAL is renewed
    too. Raises the errors of ``Database.run``.
    """
    await database.run(_rewrite_content, report, deadline=SECONDS)
    if ours_alone:
        await database.run(_renew_wal, deadline=SECONDS)


_TABLES = (
    "mnemosyne.content",
    "mnemosyne.stored_events",
    "mnemosyne.object_texts",
    "mnemosyne.object_words",
    "mnemosyne.object_vectors",
    "mnemosyne.cold_requests",
    # Samples of columns, which earlier versions allowed.
    "pg_catalog.pg_statistic",
)
"""The tables whose files hold content."""


def _disk_bytes(connection: Connection) -> int:
    row = connection.execute("select pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _rewrite_content(connection: Connection, report: Report) -> None:
    rows = connection.execute(
        "select name, pg_total_relation_size(name::regclass) from unnest(%s::text[]) as name", (list(_TABLES),)
    )
    sizes: dict[str, int] = dict(rows.fetchall())
    done, total = 0, sum(sizes.values())
    with without_transaction(connection, **_TIME):
        _wait_for_older(connection)
        for table in _TABLES:
            report(done, total)
            connection.execute(f"vacuum (full, analyze) {table}".encode())
            done += sizes[table]
    report(done, total)


def _wait_for_older(connection: Connection) -> None:
    """Wait for older transactions, for which a rewrite would keep deleted rows. Raises LogUnavailable if one does not
    end in time.
    """
    (mark,) = connection.execute("select pg_current_xact_id()::xid::text").fetchone() or ("",)
    end = time.monotonic() + OLDER_SECONDS
    while older := connection.execute(_OLDER, {"mark": mark}).fetchall():
        if time.monotonic() > end:
            raise LogUnavailable(f"older transactions have not ended: {', '.join(who for (who,) in older)}")
        time.sleep(OLDER_LOOK_SECONDS)  # PostgreSQL does not announce the end of a transaction


_OLDER = """
select distinct coalesce(nullif(application_name, ''), 'process ' || pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
and greatest(age(backend_xmin), age(backend_xid)) >= age(%(mark)s::xid)
"""


def _drop_slots(connection: Connection) -> None:
    """Drop replication slots, which keep old WAL files. Raises LogUnavailable if one is in use."""
    for slot, user in connection.execute("select slot_name, active_pid from pg_replication_slots").fetchall():
        if user is not None:
            raise LogUnavailable(f"the replication slot {slot} retains the WAL and is in use by process {user}")
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))


def _renew_wal(connection: Connection) -> None:
    """Overwrite every WAL file.

    A checkpoint recycles old files with their content under new names. The first round retires files with content, and
    the second overwrites the recycled ones: the rest of a file after a switch is zeros.
    """
    with without_transaction(connection, **_TIME):
        _drop_slots(connection)
        for _ in range(2):
            row = connection.execute("select count(*) from pg_ls_waldir()").fetchone()
            for _ in range(row[0] if row else 0):
                # A switch needs a record before it.
                connection.execute("select pg_logical_emit_message(false, 'mnemosyne', '')")
                connection.execute("select pg_switch_wal()")
            connection.execute("checkpoint")
