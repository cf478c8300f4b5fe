"""A reader that follows the log reads every event once and in order, however appends end."""

import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, closing

import attrs
import psycopg
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mnemosyne.adapters.postgres.database import Connection, Database, Timeouts
from mnemosyne.adapters.postgres.leading import lag
from mnemosyne.adapters.postgres.migrations import list_migrations
from mnemosyne.adapters.postgres.tail import read_tail, wait_seconds
from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import LogUnavailable, VersionConflict
from tests.adapters.log_support import (
    World,
    begin_append,
    make_append,
    open_database,
    open_on,
    open_postgres,
    query,
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
    async def test_readers_wait_for_it_and_writers_do_not(self, dsn: str, ends: str, expected: list[str]) -> None:
        read: list[Recorded[object]] = []

        async def follow() -> None:
            read.extend(await read_all(world))

        async with open_postgres(dsn) as world:
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, make_append(stream(1), 0, "late"))
                with trio.fail_after(DEADLINE):
                    await world.journal.append(make_append(stream(2), 0, "soon"))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(follow)
                    await until(lambda: waiting_for_a_lock(dsn) == 1)
                    assert read == []
                    await trio.to_thread.run_sync(getattr(stalled, ends))
        assert texts(read) == expected

    async def test_a_reader_of_earlier_events_does_not_wait(self, dsn: str) -> None:
        async with open_postgres(dsn, timeouts=Timeouts(lock=0.05)) as world:
            await world.journal.append(make_append(stream(1), 0, "a"))
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, make_append(stream(1), 1, "late"))
                assert texts(await read_all(world)) == ["a"]

    async def test_a_reader_that_waits_too_long_names_the_reason(self, dsn: str) -> None:
        async with open_database(dsn, Timeouts(lock=0.05)) as database, open_on(database) as world:
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, make_append(stream(1), 0, "late"))
                assert await database.run(wait_seconds) == 0, "nothing waits for it"
                await world.journal.append(make_append(stream(2), 0, "soon"))
                with pytest.raises(LogUnavailable, match="an append was under way for too long"):
                    await read_all(world)
                assert await database.run(wait_seconds) > 0
                assert (await lag(database)).held > 0
            assert await database.run(wait_seconds) == 0
            assert texts(await read_all(world)) == ["late", "soon"]

    async def test_the_append_of_a_dead_connection_is_not_waited_for(self, dsn: str) -> None:
        async with open_postgres(dsn) as world:
            with closing(psycopg.connect(dsn)) as stalled:
                begin_append(stalled, make_append(stream(1), 0, "late"))
                await world.journal.append(make_append(stream(2), 0, "soon"))
                query(dsn, "select pg_terminate_backend(%s)", stalled.info.backend_pid)
                assert texts(await read_all(world)) == ["soon"]

    @pytest.mark.parametrize(("ends", "wins"), [("commit", False), ("rollback", True)])
    async def test_one_of_two_appends_wins_a_version_and_readers_wait_for_both(
        self, dsn: str, ends: str, wins: bool
    ) -> None:
        async with open_postgres(dsn) as world, open_postgres(dsn) as other:
            with psycopg.connect(dsn) as stalled:
                begin_append(stalled, make_append(stream(1), 0, "first"))
                ticket = other.journal.submit(make_append(stream(1), 0, "second"))
                await until(lambda: waiting_for_a_lock(dsn) == 1)  # in the midst of its statement
                await world.journal.append(make_append(stream(2), 0, "third"))
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


async def test_a_reader_misses_no_event_of_four_concurrent_writers(dsn: str) -> None:
    sessions, appends = 12, 15
    seen: list[Recorded[object]] = []
    async with AsyncExitStack() as stack:
        worlds = [await stack.enter_async_context(open_postgres(dsn)) for _ in range(4)]

        async def write(number: int) -> None:
            for version in range(appends):
                await worlds[number % 4].journal.append(make_append(stream(number), version, f"{number}.{version}"))

        with trio.fail_after(DEADLINE):
            async with trio.open_nursery() as nursery:
                for number in range(sessions):
                    nursery.start_soon(write, number)
                while len(seen) < sessions * appends:
                    seen += await worlds[0].log.tail(after=seen[-1].position if seen else 0, limit=50)
    assert len({each.position for each in seen}) == sessions * appends
    for number in range(sessions):
        own = texts(each for each in seen if each.stream == stream(number))
        assert own == [f"{number}.{version}" for version in range(appends)]


async def test_an_unrelated_transaction_delays_no_reader(dsn: str) -> None:
    async with open_postgres(dsn, timeouts=Timeouts(lock=0.05)) as world:
        with psycopg.connect(dsn) as dumping, psycopg.connect(dsn) as writing:
            dumping.execute("set transaction isolation level repeatable read")
            dumping.execute("select count(*) from mnemosyne.stored_events")
            writing.execute("create table theirs ()")
            writing.execute("select pg_advisory_xact_lock_shared(7)")
            await world.journal.append(make_append(stream(1), 0, "a"))
            assert texts(await read_all(world)) == ["a"]


async def test_rows_are_inserted_in_the_order_of_streams(dsn: str) -> None:
    async with open_postgres(dsn) as world:
        tickets = [world.journal.submit(make_append(stream(number), 0, str(number))) for number in (3, 1, 2)]
        for ticket in tickets:
            await ticket.durable()  # one transaction of all
        assert texts(await read_all(world)) == ["3", "1", "2"]
    placed = query(dsn, "select originator_id from mnemosyne.stored_events order by ctid")
    assert placed == [(stream(1),), (stream(2),), (stream(3),)]


# Concurrent writers


@attrs.define
class Writer:
    """A server that appends to its own stream, several times in a transaction."""

    connection: Connection
    number: int
    committed: int = 0
    version: int = 0

    def do(self, step: str) -> None:
        if step == "append":
            begin_append(self.connection, make_append(stream(self.number), self.version, str(self.version + 1)))
            self.version += 1
        elif step == "commit":
            self.connection.commit()
            self.committed = self.version
        else:
            self.connection.rollback()
            self.version = self.committed


@attrs.define
class Reader:
    """A reader that keeps its last position and never waits long."""

    connection: Connection
    position: int
    read: list[tuple[object, int, int]] = attrs.field(factory=list)

    def follow(self, limit: int) -> bool:
        """Read the next events; return whether there were any."""
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


COURSES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["append", "append", "commit", "abort"]), st.integers(0, 3)),
    max_size=30,
)
STREAMS = itertools.count(1_000)


@given(course=COURSES)
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
            own = [version for owner, version, _ in reader.read if owner == stream(writer.number)]
            assert own == list(range(1, writer.committed + 1))


# Older versions

*BEFORE, LAST = list_migrations()[:APPENDS_WITHOUT_LOCK]


@pytest.mark.release
async def test_a_log_of_an_older_version_is_migrated_between_appends(empty_dsn: str) -> None:
    old, new = Database(empty_dsn), Database(empty_dsn)
    await old.prepare(BEFORE)
    async with open_on(old) as world:
        for version in range(8):  # the statement is prepared by then
            await world.journal.append(make_append(stream(1), version, str(version)))
        with psycopg.connect(empty_dsn) as holder:
            begin_append(holder, make_append(stream(2), 0, "under way"))
            assert await new.prepare([*BEFORE, LAST]) == 1
        for version in range(8, 12):
            await world.journal.append(make_append(stream(1), version, str(version)))
        assert texts(await read_all(world)) == [*map(str, range(8)), "under way", *map(str, range(8, 12))]
    old.close()
    new.close()
