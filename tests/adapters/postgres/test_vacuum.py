"""Erased bytes are removed from the files of the database."""

import random

import psycopg
import pytest
import trio

from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres import vacuum
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.migrations import list_migrations, migrate
from mnemosyne.adapters.postgres.vacuum import rewrite_content
from mnemosyne.errors import LogUnavailable
from mnemosyne.services.footprints import ignore_news
from tests.adapters.log_support import CODEC, content, hushed, make_append, open_database, open_on, query, stream

SECRET = b"the heron nests at noon"


WAITING = (
    "select count(*) from pg_stat_activity where pid <> pg_backend_pid() and query like '%greatest(age(backend_xmin)%'"
)
"""How many sessions wait for older transactions."""


async def test_a_rewrite_waits_for_older_transactions(dsn: str, nursery: trio.Nursery) -> None:
    async with open_database(dsn) as database:
        async with open_on(database) as world:
            await world.journal.append(make_append(stream(1), 0, "one", contents=[content(SECRET)]))
            with psycopg.connect(dsn) as reader:
                reader.execute("set transaction isolation level repeatable read")
                reader.execute("select 1")
                await world.log.forget(stream(1), hushed)
                done = trio.Event()

                async def rewrite() -> None:
                    await rewrite_content(database, ours_alone=False, report=ignore_news)
                    done.set()

                nursery.start_soon(rewrite)
                while not done.is_set() and await trio.to_thread.run_sync(query, dsn, WAITING) == [(0,)]:
                    pass
                assert not done.is_set()
            await done.wait()
        assert files_with(dsn, [SECRET]) == set()


async def test_an_older_transaction_that_does_not_end_is_named(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "OLDER_SECONDS", 0.0)
    async with open_database(dsn) as database:
        with psycopg.connect(dsn, application_name="a slow reader") as reader:
            reader.execute("set transaction isolation level repeatable read")
            reader.execute("select 1")
            with pytest.raises(LogUnavailable, match="have not ended: a slow reader"):
                await rewrite_content(database, ours_alone=False, report=ignore_news)


FRAMES = [random.Random(number).randbytes(400) for number in range(40)]
"""Stored contents that the server samples, because they are short, and cannot compress."""


def files_with(dsn: str, secrets: list[bytes]) -> set[str]:
    """The files of any table, index or system table that hold one of the secrets."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("checkpoint")
        rows = connection.execute(
            "select file, pg_read_binary_file(path) from pg_database, lateral (select 'base/' || oid as folder) where_,"
            " lateral pg_ls_dir(folder) as file, lateral (select folder || '/' || file as path) which"
            " where datname = current_database() and file ~ '^[0-9]'"
        )
        return {file for file, held in rows if any(secret in held for secret in secrets)}


def sampled(dsn: str) -> set[tuple[str, str]]:
    """The columns of our tables that the server has sampled."""
    rows = query(dsn, "select tablename, attname from pg_stats where schemaname = 'mnemosyne'")
    return {(table, column) for table, column in rows}


async def test_no_forgotten_frame_stays_in_any_file_of_an_analysed_database(dsn: str) -> None:
    async with open_database(dsn) as database:
        async with open_on(database) as world:
            await world.journal.append(
                make_append(stream(1), 0, f"one: {SECRET.decode()}", contents=[content(each) for each in FRAMES])
            )
            query(dsn, "analyze")
            assert files_with(dsn, FRAMES)
            assert files_with(dsn, [SECRET])
            assert not sampled(dsn) & {("content", "data"), ("stored_events", "state"), ("object_words", "words")}
            await world.log.forget(stream(1), hushed)
        reports: list[tuple[int, int]] = []
        await rewrite_content(database, ours_alone=False, report=lambda *report: reports.append(report))
        (first, total), *_, last = reports
        assert (first, last) == (0, (total, total))
        assert [done for done, _ in reports] == sorted(done for done, _ in reports)
        assert files_with(dsn, [*FRAMES, SECRET]) == set()
        assert len(await PostgresEventLog(database, CODEC).read(stream(1))) == 1


async def test_column_samples_of_an_earlier_version_are_removed(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        migrate(connection, list_migrations()[:5])
        for number, frame in enumerate(FRAMES):
            connection.execute(
                "insert into mnemosyne.content values (%s, 400, 0, %s, %s)",
                (stream(number), number.to_bytes(32), frame),
            )
        connection.execute("analyze")
    assert ("content", "data") in sampled(empty_dsn)
    async with open_database(empty_dsn) as database:
        query(empty_dsn, "delete from mnemosyne.content")
        await rewrite_content(database, ours_alone=False, report=ignore_news)
    assert files_with(empty_dsn, FRAMES) == set()


@pytest.mark.release
async def test_a_replication_slot_does_not_keep_old_wal(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("own")
    async with open_embedded(folder) as server, open_database(server.dsn) as database:
        async with open_on(database) as world:
            query(server.dsn, "select pg_create_physical_replication_slot('kept', true)")
            await world.journal.append(make_append(stream(1), 0, "one", contents=[content(SECRET)]))
            await world.log.forget(stream(1), hushed)
        await rewrite_content(database, ours_alone=True, report=ignore_news)
        assert query(server.dsn, "select * from pg_replication_slots") == []
    assert not any(SECRET in file.read_bytes() for file in (folder / "postgres/pg_wal").iterdir() if file.is_file())


async def test_a_replication_slot_in_use_is_reported_by_name(dsn: str) -> None:
    async with open_database(dsn) as database:
        with psycopg.connect(dsn) as user:
            user.execute("select pg_create_physical_replication_slot('busy', true, true)")
            with pytest.raises(LogUnavailable, match="the replication slot busy retains the WAL"):
                await database.run(vacuum._drop_slots)
