"""The database behind threads: migrations, transactions, and a server that is away, hung, full or unsuitable."""

import contextlib
from collections.abc import AsyncIterator, Callable

import attrs
import psycopg
import pytest
import trio
from psycopg.conninfo import make_conninfo

from mnemosyne.adapters.postgres import database as postgres_database
from mnemosyne.adapters.postgres.database import Connection, Database, Timeouts
from mnemosyne.adapters.postgres.migrations import Migration, list_migrations
from mnemosyne.errors import BadConfiguration, DatabaseUnfit, LogDamaged, LogFailed, LogUnavailable
from tests.adapters.log_support import open_database, open_wire, query, until
from tests.not_none import not_none
from tests.waiting import DEADLINE

FIRST = Migration(1, "first", b"create table mnemosyne.first (note text check (note <> 'bad'))")
SECOND = Migration(2, "second", b"create table mnemosyne.second (note text)")


@pytest.fixture
def first(dsn: str) -> str:
    """A database with the table ``first``."""
    query(dsn, FIRST.sql.decode())
    return dsn


def backend(connection: Connection) -> int:
    """The process id of the server's backend."""
    row = not_none(connection.execute("select pg_backend_pid()").fetchone())
    return int(row[0])


def _no_room_for_a_connection(_: str) -> psycopg.Error:
    """The error of a server with a full disk, which has no code."""
    return psycopg.OperationalError("connection failed: FATAL:  could not write init file: No space left on device")


def one(connection: Connection) -> int:
    row = not_none(connection.execute("select 1").fetchone())
    return int(row[0])


def tables(dsn: str) -> set[str]:
    rows = query(
        dsn,
        "select schemaname || '.' || tablename from pg_tables"
        " where schemaname not in ('pg_catalog', 'information_schema')",
    )
    return {name for (name,) in rows}


@contextlib.asynccontextmanager
async def open_unprepared(dsn: str, timeouts: Timeouts | None = None) -> AsyncIterator[Database]:
    database = Database(dsn, timeouts=timeouts)
    try:
        yield database
    finally:
        database.close()


class TestMigrations:
    @pytest.fixture
    def dsn(self, empty_dsn: str) -> str:
        """A database without a schema: these tests create it."""
        return empty_dsn

    def test_files_are_numbered_without_gaps(self) -> None:
        assert [migration.version for migration in list_migrations()] == list(range(1, len(list_migrations()) + 1))

    async def test_each_is_applied_once_and_creates_objects_in_one_schema(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            assert await database.prepare() == len(list_migrations())
            assert await database.prepare() == 0
        assert {"mnemosyne.stored_events", "mnemosyne.content", "mnemosyne.mnemosyne_migrations"} <= tables(dsn)
        assert all(name.startswith("mnemosyne.") for name in tables(dsn))

    async def test_later_ones_are_added_and_a_schema_that_differs_is_refused(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            assert await database.prepare([FIRST]) == 1
            with pytest.raises(DatabaseUnfit, match=r"migration 1 \(first\).*edited"):
                await database.prepare([attrs.evolve(FIRST, sql=FIRST.sql + b" "), SECOND])
            assert "mnemosyne.second" not in tables(dsn)
            assert await database.prepare([FIRST, SECOND]) == 1
            assert {"mnemosyne.first", "mnemosyne.second"} <= tables(dsn)
            with pytest.raises(DatabaseUnfit, match=r"newer Mnemosyne.*at 2 \(second\)"):
                await database.prepare([FIRST])

    async def test_concurrent_processes_apply_each_once(self, dsn: str) -> None:
        applied: list[int] = []

        async def start() -> None:
            async with open_unprepared(dsn) as database:
                applied.append(await database.prepare([FIRST, SECOND]))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(start)
        assert sorted(applied) == [0, 0, 0, 0, 2]

    async def test_a_failed_migration_rolls_back_all(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            with pytest.raises(LogFailed):
                await database.prepare([FIRST, attrs.evolve(SECOND, sql=b"create nonsense")])
        assert tables(dsn) == set()

    async def test_a_server_without_pgvector_is_refused(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            with pytest.raises(DatabaseUnfit, match=r"lacks the extension pgvector: install it there .*-pgvector\)"):
                await database.prepare([attrs.evolve(FIRST, sql=b"create extension no_such_vector")])

    async def test_a_missing_database_is_reported_with_the_command_that_creates_it(self, dsn: str) -> None:
        async with open_unprepared(make_conninfo(dsn, dbname="no_such_database")) as database:
            with pytest.raises(LogUnavailable, match=r"no_such_database.*`createdb NAME`"):
                await database.prepare()

    async def test_an_old_server_is_refused(self, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(postgres_database, "OLDEST_SERVER", 99)
        async with open_unprepared(dsn) as database:
            with pytest.raises(DatabaseUnfit, match="99 or newer is needed"):
                await database.prepare()

    async def test_a_user_who_may_not_create_the_schema_is_refused(self, dsn: str) -> None:
        role = "weak_" + dsn.rpartition("test_")[2][:8]
        query(dsn, f"create role {role} login password 'p'")
        try:
            async with open_unprepared(make_conninfo(dsn, options=f"-c role={role}")) as database:
                with pytest.raises(
                    DatabaseUnfit, match=r"may not set up the schema .*administrator run `create extension"
                ):
                    await database.prepare()
        finally:
            query(dsn, f"drop role {role}")

    @pytest.mark.parametrize("schema", ["public", '"Other Place"'])
    async def test_pgvector_may_be_installed_in_any_schema(self, dsn: str, schema: str) -> None:
        query(dsn, f"create schema if not exists {schema}")
        query(dsn, f"create extension vector with schema {schema}")
        async with open_database(dsn) as database:
            nearest = await database.run(lambda c: c.execute("select '[1,2]'::vector <-> '[1,3]'::vector").fetchone())
        assert nearest == (1.0,)


class TestTransactions:
    async def test_a_call_commits_unless_it_raises(self, first: str) -> None:
        def insert(connection: Connection, note: str) -> None:
            connection.execute("insert into first values (%s)", (note,))
            if note == "raise":
                raise KeyError(note)

        async with open_unprepared(first) as database:
            await database.run(insert, "keep")
            with pytest.raises(KeyError):
                await database.run(insert, "raise")
        assert query(first, "select note from mnemosyne.first") == [("keep",)]

    async def test_a_call_that_ignores_a_failed_statement_is_not_committed(self, dsn: str) -> None:
        def swallow(connection: Connection) -> None:
            with contextlib.suppress(psycopg.Error):
                connection.execute("select nonsense")

        async with open_unprepared(dsn) as database:
            with pytest.raises(LogFailed, match="nothing of it was kept"):
                await database.run(swallow)
            assert await database.run(one) == 1

    async def test_a_refused_statement_is_reported_without_its_values(self, first: str) -> None:
        async with open_unprepared(first) as database:
            with pytest.raises(LogFailed, match=r"CheckViolation \(23514\)") as caught:
                await database.run(lambda c: c.execute("insert into first values ('bad')").rowcount)
        assert caught.value.__suppress_context__
        assert "bad" not in str(caught.value)

    async def test_a_statement_alone_is_its_own_transaction(self, first: str) -> None:
        def insert(connection: Connection, note: str) -> str:
            connection.execute("insert into first values (%s)", (note,))
            return connection.info.transaction_status.name

        async with open_unprepared(first) as database:
            assert await database.run(insert, "keep", alone=True) == "IDLE"
            with pytest.raises(LogFailed, match=r"CheckViolation \(23514\)"):
                await database.run(insert, "bad", alone=True)
            assert await database.run(one, alone=True) == 1
        assert query(first, "select note from mnemosyne.first") == [("keep",)]

    async def test_defaults_of_the_database_do_not_change_the_isolation_level(self, dsn: str) -> None:
        ((name,),) = query(dsn, "select current_database()")
        query(dsn, f'alter database "{name}" set default_transaction_isolation = serializable')
        async with open_unprepared(dsn) as database:
            level = await database.run(lambda c: c.execute("show transaction_isolation").fetchone())
        assert level == ("read committed",)


class TestOutages:
    async def test_dead_idle_connections_are_replaced(self, dsn: str) -> None:
        async with open_wire(dsn) as wire, open_unprepared(wire.dsn) as database:
            async with trio.open_nursery() as nursery:
                for _ in range(3):  # several idle ones
                    nursery.start_soon(database.run, one)
            wire.cut()
            with pytest.raises(LogUnavailable, match="is away"):
                await database.run(one)
            wire.mend()
            assert await database.run(one) == 1

    async def test_only_connections_that_were_idle_for_long_are_dropped(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            first = await database.run(backend)
            database.drop_idle(DEADLINE)
            assert await database.run(backend) == first
            database.drop_idle()
            assert await database.run(backend) != first

    async def test_a_statement_alone_is_retried_if_an_idle_connection_is_dead(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            first = await database.run(backend, alone=True)
            assert await database.run(backend, alone=True) == first
            query(dsn, "select pg_terminate_backend(%s, 5000)", first)
            assert await database.run(backend, alone=True) != first

    async def test_a_connection_killed_during_a_call_fails_that_call_alone(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            with pytest.raises(LogUnavailable, match="is away"):
                await database.run(lambda c: c.execute("select pg_terminate_backend(pg_backend_pid())").rowcount)
            assert await database.run(one) == 1

    async def test_a_call_ends_at_its_deadline_and_so_does_its_thread(self, dsn: str) -> None:
        limiter = trio.CapacityLimiter(1)
        # A thread that retried after the deadline would run longer than this test waits.
        patient = Timeouts(connect=10 * DEADLINE)
        async with open_wire(dsn) as wire, open_unprepared(wire.dsn, patient) as database:
            await database.run(one)
            wire.stall()
            with trio.fail_after(DEADLINE), pytest.raises(LogUnavailable, match=r"hung: no answer within 0\.1 seconds"):
                await database.run(one, deadline=0.1, limiter=limiter)
            await until(lambda: limiter.borrowed_tokens == 0)
            wire.mend()
            assert await database.run(one) == 1

    async def test_a_server_that_accepts_connections_without_answering_is_hung(self, dsn: str) -> None:
        async with open_wire(dsn) as wire, open_unprepared(wire.dsn, Timeouts(connect=2)) as database:
            wire.stall()
            with trio.fail_after(DEADLINE), pytest.raises(LogUnavailable, match="hung: it did not take the connection"):
                await database.run(one)

    async def test_a_cancelled_call_is_rolled_back(self, first: str) -> None:
        def insert_and_wait(connection: Connection) -> None:
            connection.execute("insert into first values ('cancelled')")
            connection.execute("select pg_sleep(600)")

        async with open_unprepared(first) as database:
            with trio.fail_after(DEADLINE):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(database.run, insert_and_wait)
                    sleeping = "select 1 from pg_stat_activity where query like '%pg_sleep(600)%' and state = 'active'"
                    mine = " and datname = current_database() and pid <> pg_backend_pid()"
                    await until(lambda: len(query(first, sleeping + mine)) == 1)
                    nursery.cancel_scope.cancel()
            assert await database.run(one) == 1
        assert query(first, "select * from mnemosyne.first") == []

    @pytest.mark.parametrize(
        ("timeouts", "words"),
        [(Timeouts(lock=0.05), "held a lock for too long"), (Timeouts(statement=0.05), "a statement took too long")],
    )
    async def test_a_timeout_names_its_reason(self, dsn: str, timeouts: Timeouts, words: str) -> None:
        with psycopg.connect(dsn) as holder:
            holder.execute("create table mnemosyne.held ()")
            holder.commit()
            holder.execute("lock table mnemosyne.held")
            async with open_unprepared(dsn, timeouts) as database:
                with pytest.raises(LogUnavailable, match=f"hung: .*{words}"):
                    await database.run(lambda c: c.execute("select from mnemosyne.held").rowcount)

    @pytest.mark.parametrize(
        ("error", "ours", "words"),
        [
            (psycopg.errors.DiskFull, LogUnavailable, "full: its disk is full"),
            (_no_room_for_a_connection, LogUnavailable, "full: its disk is full"),
            (psycopg.errors.TooManyConnections, LogUnavailable, "full: it has too many connections"),
            (psycopg.errors.DeadlockDetected, LogUnavailable, "hung: transactions waited for each other"),
            (psycopg.errors.ReadOnlySqlTransaction, LogUnavailable, "away: it is read-only"),
            (psycopg.errors.CannotConnectNow, LogUnavailable, "away: "),
            (psycopg.errors.UndefinedTable, DatabaseUnfit, "a table of Mnemosyne's is missing"),
            (psycopg.errors.DataCorrupted, LogDamaged, "damaged: a page of its files is torn"),
            (psycopg.errors.IndexCorrupted, LogDamaged, "damaged: an index"),
            (psycopg.errors.CheckViolation, LogFailed, "refused a statement: CheckViolation"),
        ],
    )
    async def test_each_kind_of_error_has_its_message(
        self, dsn: str, error: Callable[[str], psycopg.Error], ours: type[LogFailed], words: str
    ) -> None:
        def fail(_: Connection) -> None:
            raise error("from the server")

        async with open_unprepared(dsn) as database:
            with pytest.raises(ours, match=f"the database .*{words}"):
                await database.run(fail)

    async def test_a_closed_database_refuses_calls(self, dsn: str) -> None:
        async with open_unprepared(dsn) as database:
            pass
        with pytest.raises(LogUnavailable, match="shutting down"):
            await database.run(one)

    def test_an_invalid_dsn_is_refused_without_quoting_it(self) -> None:
        with pytest.raises(BadConfiguration) as caught:
            Database("postgres password=hush")
        assert "hush" not in str(caught.value)
        assert caught.value.__suppress_context__


def test_a_later_migration_does_not_check_functions_against_tables_that_are_not_rebuilt_yet() -> None:
    """A database of an earlier version gets the columns of its read models only after it is migrated."""
    later = [each for each in list_migrations() if each.version > 14 and b"language sql" in each.sql]
    assert later
    assert [each.name for each in later if b"set local check_function_bodies = off" not in each.sql] == []
