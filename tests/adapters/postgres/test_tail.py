"""A reader that follows the log by its last position has every event once and in order, however appends end."""

import itertools
from collections.abc import Sequence
from contextlib import ExitStack, closing

import attrs
import psycopg
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemosyne.adapters.postgres.database import Connection, Database, Timeouts
from mnemosyne.adapters.postgres.migrations import list_migrations
from mnemosyne.adapters.postgres.tail import read_tail, wait_seconds
from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import LogUnavailable, VersionConflict
from tests.adapters.log_support import (
    World,
    begin_append,
    open_database,
    open_on,
    open_postgres,
    query,
    said,
    stream,
    texts,
    until,
    waiting_for_a_lock,
)
from tests.waiting import DEADLINE

APPENDS_WITHOUT_LOCK = 9
"""The migration after which appends lock no table."""


async def read_all(world: World) -> Sequence[Recorded[object]]:
    return await world.log.tail(after=0, limit=100)


class TestAnAppendThatStalls:
    @pytest.mark.parametrize(("ends", "expected"), [("commit", ["late", "soon"]), ("rollback", ["soon"])])
    async def test_others_do_not_wait_for_it_and_readers_do(self, dsn: str, ends: str, expected: list[str]) -> None:
        read: list[Recorded[object]] = []

        async def follow() -> None:
            read.extend(await read_all(world))

        async with open_postgres(dsn) as world:
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, said(stream(1), 0, "late"))
                with trio.fail_after(DEADLINE):
                    await world.journal.append(said(stream(2), 0, "soon"))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(follow)
                    await until(lambda: waiting_for_a_lock(dsn) == 1)
                    assert read == []
                    await trio.to_thread.run_sync(getattr(stalled, ends))
        assert texts(read) == expected

    async def test_whoever_has_come_before_it_need_not_wait(self, dsn: str) -> None:
        async with open_postgres(dsn, timeouts=Timeouts(lock=0.05)) as world:
            await world.journal.append(said(stream(1), 0, "a"))
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, said(stream(1), 1, "late"))
                assert texts(await read_all(world)) == ["a"]

    async def test_what_waits_too_long_says_for_what(self, dsn: str) -> None:
        async with open_database(dsn, Timeouts(lock=0.05)) as database, open_on(database) as world:
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, said(stream(1), 0, "late"))
                assert await database.run(wait_seconds) == 0, "nothing waits for it"
                await world.journal.append(said(stream(2), 0, "soon"))
                with pytest.raises(LogUnavailable, match="an append was under way for too long"):
                    await read_all(world)
                assert await database.run(wait_seconds) > 0
            assert await database.run(wait_seconds) == 0
            assert texts(await read_all(world)) == ["late", "soon"]

    async def test_one_whose_server_is_gone_is_gone(self, dsn: str) -> None:
        async with open_postgres(dsn) as world:
            with closing(psycopg.connect(dsn)) as stalled:
                begin_append(stalled, said(stream(1), 0, "late"))
                await world.journal.append(said(stream(2), 0, "soon"))
                query(dsn, "select pg_terminate_backend(%s)", stalled.info.backend_pid)
                assert texts(await read_all(world)) == ["soon"]

    @pytest.mark.parametrize(("ends", "wins"), [("commit", False), ("rollback", True)])
    async def test_the_same_version_is_written_once_and_readers_wait_for_both(
        self, dsn: str, ends: str, wins: bool
    ) -> None:
        async with open_postgres(dsn) as world, open_postgres(dsn) as other:
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, said(stream(1), 0, "first"))
                ticket = other.journal.submit(said(stream(1), 0, "second"))
                await until(lambda: waiting_for_a_lock(dsn) == 1)  # in the midst of its statement
                await world.journal.append(said(stream(2), 0, "third"))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read_all, world)
                    await until(lambda: waiting_for_a_lock(dsn) == 2)
                    await trio.to_thread.run_sync(getattr(stalled, ends))
                if wins:
                    assert await ticket.durable() == 1
                else:
                    with pytest.raises(VersionConflict, match="is at version 1"):
                        await ticket.durable()
            assert texts(await read_all(world)) == ["second" if wins else "first", "third"]


async def test_a_transaction_of_somebody_else_keeps_no_reader_waiting(dsn: str) -> None:
    async with open_postgres(dsn, timeouts=Timeouts(lock=0.05)) as world:
        with psycopg.connect(dsn) as dumping, psycopg.connect(dsn) as writing:
            dumping.execute("set transaction isolation level repeatable read")
            dumping.execute("select count(*) from mnemosyne.stored_events")
            writing.execute("create table theirs ()")
            writing.execute("select pg_advisory_xact_lock_shared(7)")
            await world.journal.append(said(stream(1), 0, "a"))
            assert texts(await read_all(world)) == ["a"]


async def test_rows_go_in_in_one_order_whatever_the_order_of_positions(dsn: str) -> None:
    async with open_postgres(dsn) as world:
        tickets = [world.journal.submit(said(stream(number), 0, str(number))) for number in (3, 1, 2)]
        for ticket in tickets:
            await ticket.durable()  # one transaction of all
        assert texts(await read_all(world)) == ["3", "1", "2"]
    placed = query(dsn, "select originator_id from mnemosyne.stored_events order by ctid")
    assert placed == [(stream(1),), (stream(2),), (stream(3),)]


# Any course of events


@attrs.define
class Writer:
    """A server that appends to a stream of its own, several times in a transaction."""

    connection: Connection
    number: int
    committed: int = 0
    version: int = 0

    def do(self, step: str) -> None:
        if step == "append":
            begin_append(self.connection, said(stream(self.number), self.version, str(self.version + 1)))
            self.version += 1
        elif step == "commit":
            self.connection.commit()
            self.committed = self.version
        else:
            self.connection.rollback()
            self.version = self.committed


@attrs.define
class Reader:
    """One that remembers its last position, and never waits long."""

    connection: Connection
    position: int
    read: list[tuple[object, int, int]] = attrs.field(factory=list)

    def follow(self, limit: int) -> bool:
        """Whether anything came."""
        try:
            with self.connection.transaction():
                self.connection.execute("set local lock_timeout = 1")
                found = read_tail(self.connection, self.position, limit)
                rows = [(stream, version, position) for stream, version, _, _, position in found]
        except psycopg.DatabaseError as error:
            if error.sqlstate != "MN002":
                raise
            return False
        self.read += rows
        self.position = self.read[-1][2] if self.read else self.position
        return bool(rows)


COURSE = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["append", "append", "commit", "abort"]), st.integers(0, 3)),
    max_size=30,
)
STREAMS = itertools.count(1_000)


@given(course=COURSE)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_committed_event_is_read_once_and_in_order(dsn: str, course: list[tuple[int, str, int]]) -> None:
    with ExitStack() as connections:
        ((last,),) = query(dsn, "select coalesce(max(notification_id), 0) from mnemosyne.stored_events")
        writers = [Writer(connections.enter_context(psycopg.connect(dsn)), next(STREAMS)) for _ in range(4)]
        reader = Reader(connections.enter_context(psycopg.connect(dsn, autocommit=True)), last)
        for number, step, limit in course:
            writers[number].do(step)
            if limit:
                reader.follow(limit)
        for writer in writers:
            writer.do("commit")
        while reader.follow(100):
            pass
        there = query(
            dsn,
            "select originator_id, originator_version, notification_id from mnemosyne.stored_events"
            " where notification_id > %s order by notification_id",
            last,
        )
        assert reader.read == there
        for writer in writers:
            mine = [version for owner, version, _ in reader.read if owner == stream(writer.number)]
            assert mine == list(range(1, writer.committed + 1))


# A log of before

*BEFORE, LAST = list_migrations()[:APPENDS_WITHOUT_LOCK]


async def test_a_log_of_before_goes_on_while_others_append(empty_dsn: str) -> None:
    old, new = Database(empty_dsn), Database(empty_dsn)
    await old.prepare(BEFORE)
    async with open_on(old) as world:
        for version in range(8):  # by then the statement is a prepared one
            await world.journal.append(said(stream(1), version, str(version)))
        with psycopg.connect(empty_dsn) as holder:
            begin_append(holder, said(stream(2), 0, "under way"))
            assert await new.prepare() > 0
        for version in range(8, 12):
            await world.journal.append(said(stream(1), version, str(version)))
        assert texts(await read_all(world)) == [*map(str, range(8)), "under way", *map(str, range(8, 12))]
    old.close()
    new.close()


@pytest.mark.parametrize("steps", range(LAST.sql.count(b"$$;") + 1))
async def test_a_migration_that_is_killed_leaves_the_log_as_it_was(empty_dsn: str, steps: int) -> None:
    done = b"$$;".join([*LAST.sql.split(b"$$;")[:steps], b""])
    killed = attrs.evolve(LAST, sql=done + b"select pg_terminate_backend(pg_backend_pid())")
    database = Database(empty_dsn)
    await database.prepare(BEFORE)
    async with open_on(database) as world:
        await world.journal.append(said(stream(1), 0, "before"))
        with pytest.raises(LogUnavailable):
            await database.prepare([*BEFORE, killed])
        await world.journal.append(said(stream(1), 1, "between"))
        await database.prepare()
        await world.journal.append(said(stream(1), 2, "after"))
        assert texts(await read_all(world)) == ["before", "between", "after"]
    database.close()
