"""What only the database itself can say or do about its files: how large they are, and that erased bytes leave them."""

import time
from collections.abc import Callable, Mapping

from mnemosyne.adapters.postgres.database import Connection, Database, outside_transactions
from mnemosyne.errors import LogUnavailable

SECONDS = 24 * 3600.0
"""How long rewriting may take; it copies what is left of all sessions once."""

_TIME: Mapping[str, str] = {"statement_timeout": "0", "lock_timeout": "30s"}
"""More for a statement and a lock than a request has."""


OLDER_SECONDS, OLDER_LOOK_SECONDS = 60.0, 0.05
"""How long others' transactions that began before are waited for, and how often it is looked."""


async def disk_bytes(database: Database) -> int:
    """The size of the database on disk: tables, indexes and free space, without the server's own journal."""
    return await database.run(_disk_bytes)


Report = Callable[[int, int], None]
"""Hears how many bytes of how many are written anew."""


async def rewrite_content(database: Database, *, ours_alone: bool, report: Report) -> None:
    """Write the tables of events, of content and of what is made from it anew, without the rows that are gone: their
    bytes leave the files.

    Others wait for each table while that runs. ``ours_alone`` says that the whole server is Mnemosyne's own: then the
    old bytes leave its journal, too. Raises what ``Database.run`` raises.
    """
    await database.run(_rewrite_content, report, deadline=SECONDS)
    if ours_alone:
        await database.run(_renew_journal, deadline=SECONDS)


_HOLDING = (
    "mnemosyne.content",
    "mnemosyne.stored_events",
    "mnemosyne.object_texts",
    "mnemosyne.object_words",
    "mnemosyne.object_vectors",
    # Where the server keeps samples of columns: those that an earlier version let it take are still in its file.
    "pg_catalog.pg_statistic",
)
"""The tables in whose files there is something of what was said."""


def _disk_bytes(connection: Connection) -> int:
    row = connection.execute("select pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _rewrite_content(connection: Connection, report: Report) -> None:
    rows = connection.execute(
        "select name, pg_total_relation_size(name::regclass) from unnest(%s::text[]) as name", (list(_HOLDING),)
    )
    sizes: dict[str, int] = dict(rows.fetchall())
    done, total = 0, sum(sizes.values())
    with outside_transactions(connection, **_TIME):
        _wait_for_older(connection)
        for table in _HOLDING:
            report(done, total)
            connection.execute(f"vacuum (full, analyze) {table}".encode())
            done += sizes[table]
    report(done, total)


def _wait_for_older(connection: Connection) -> None:
    """Wait for the transactions that may still see what is gone: the server keeps rows for them, and would write them
    anew. Raises LogUnavailable where one of them goes on for too long.
    """
    (mark,) = connection.execute("select pg_current_xact_id()::xid::text").fetchone() or ("",)
    end = time.monotonic() + OLDER_SECONDS
    while older := connection.execute(_OLDER, {"mark": mark}).fetchall():
        if time.monotonic() > end:
            raise LogUnavailable(f"transactions go on that began before, of {', '.join(who for (who,) in older)}")
        time.sleep(OLDER_LOOK_SECONDS)  # the database tells nobody that a transaction ends; this thread is ours alone


_OLDER = """
select distinct coalesce(nullif(application_name, ''), 'process ' || pid) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
and greatest(age(backend_xmin), age(backend_xid)) >= age(%(mark)s::xid)
"""


def _drop_slots(connection: Connection) -> None:
    """Drop replication slots, which keep the journal's old files; nothing replicates a server of Mnemosyne's own.
    Raises LogUnavailable where one is in use.
    """
    for slot, user in connection.execute("select slot_name, active_pid from pg_replication_slots").fetchall():
        if user is not None:
            raise LogUnavailable(f"the replication slot {slot} keeps the journal, and process {user} uses it")
        connection.execute("select pg_drop_replication_slot(%s)", (slot,))


def _renew_journal(connection: Connection) -> None:
    """Write over every file of the journal.

    A checkpoint keeps old files under new names, with what was in them, to write them again later. So the first round
    ends the use of those that hold something, and the second goes through all that were set aside: what follows a
    switch in a file is filled with zeros.
    """
    with outside_transactions(connection, **_TIME):
        _drop_slots(connection)
        for _ in range(2):
            row = connection.execute("select count(*) from pg_ls_waldir()").fetchone()
            for _ in range(row[0] if row else 0):
                # Without a record of its own in between, a switch does nothing.
                connection.execute("select pg_logical_emit_message(false, 'mnemosyne', '')")
                connection.execute("select pg_switch_wal()")
            connection.execute("checkpoint")
