"""The contract of the event log, with plain objects and PostgreSQL, and rules of PostgreSQL alone."""

import itertools
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import attrs
import psycopg
import pytest
import trio

from mnemosyne.adapters.postgres import event_log
from mnemosyne.adapters.postgres.database import Connection
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import CachedEventLog, PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.domain.ports import Append, Envelope, Recorded, StreamSizes, UnreadableEvent
from mnemosyne.domain.session.events import SessionForgotten
from mnemosyne.errors import ContentMissing, LogFailed, UnknownEvent, VersionConflict
from tests.adapters.log_support import (
    SampleEvent,
    World,
    content,
    hushed,
    make_append,
    open_database,
    open_on,
    open_postgres,
    query,
    running,
    stream,
    texts,
    until,
    waiting_for_a_lock,
)
from tests.waiting import DEADLINE


class TestEventLog:
    """The rules of every event log."""

    async def test_events_are_read_in_order_with_versions_and_positions(self, world: World) -> None:
        assert await world.journal.append(make_append(stream(1), 0, "a", "b")) == 2
        assert await world.journal.append(make_append(stream(1), 2, "c")) == 3
        recorded = await world.log.read(stream(1))
        assert texts(recorded) == ["a", "b", "c"]
        assert [each.version for each in recorded] == [1, 2, 3]
        assert [each.position for each in recorded] == sorted({each.position for each in recorded})
        assert {(each.stream, each.envelope.correlation_id) for each in recorded} == {(stream(1), "c")}

    async def test_a_range_of_a_stream_can_be_read(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, *"abcde"))
        assert texts(await world.log.read(stream(1), after=1, upto=3)) == ["b", "c"]
        assert texts(await world.log.read(stream(1), after=3)) == ["d", "e"]
        assert texts(await world.log.read(stream(1), upto=2)) == ["a", "b"]
        assert texts(await world.log.read(stream(1), after=5)) == []

    async def test_single_events_can_be_read(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, *"abcde"))
        await world.journal.append(make_append(stream(2), 0, "other"))
        picked = await world.log.pick(stream(1), {4, 2, 9, 0})
        assert texts(picked) == ["b", "d"]
        assert list(picked) == [each for each in await world.log.read(stream(1)) if each.version in (2, 4)]
        assert list(await world.log.pick(stream(1), ())) == []

    async def test_events_can_be_selected_by_class(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, *"abc"))
        await world.journal.append(make_append(stream(2), 0, "other"))
        assert await world.log.select(stream(1), (SampleEvent, int)) == await world.log.read(stream(1))
        assert list(await world.log.select(stream(1), (int,))) == []

    async def test_an_unknown_stream_is_empty(self, world: World) -> None:
        assert list(await world.log.read(stream(9))) == []
        assert list(await world.log.tail(after=0, limit=10)) == []
        assert await world.log.streams() == []
        assert await world.log.sizes(stream(9)) == {}
        assert await world.log.forget(stream(9), hushed) == 0
        assert await world.log.streams() == []

    @pytest.mark.parametrize("expected", [0, 1, 3])
    async def test_an_append_at_another_version_is_a_conflict_and_stores_nothing(
        self, world: World, expected: int
    ) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", "b"))
        piece = content(b"never stored")
        with pytest.raises(VersionConflict, match="is at version 2"):
            await world.journal.append(make_append(stream(1), expected, "x", contents=[piece]))
        assert texts(await world.log.tail(after=0, limit=10)) == ["a", "b"]
        with pytest.raises(ContentMissing):
            await world.contents.fetch(stream(1), [piece.digest])

    async def test_the_tail_has_all_streams_in_the_order_of_their_appends(self, world: World) -> None:
        for round_, number in itertools.product(range(5), range(8)):
            await world.journal.append(make_append(stream(number), round_, f"{round_}.{number}"))
        expected = [f"{round_}.{number}" for round_, number in itertools.product(range(5), range(8))]
        assert texts(await read_tail(world, limit=7)) == expected

    async def test_streams_are_listed_in_the_order_of_their_first_events(self, world: World) -> None:
        numbers = [5, 3, 9, 1]
        for number in numbers:
            await world.journal.append(make_append(stream(number), 0, "a"))
        await world.journal.append(make_append(stream(3), 1, "b"))
        assert await world.log.streams() == [stream(number) for number in numbers]

    async def test_streams_are_listed_by_the_prefix_of_their_id(self, world: World) -> None:
        for number in (1, 2):
            await world.journal.append(make_append(stream(number), 0, "a"))
        whole = str(stream(1))
        assert await world.log.streams(whole) == await world.log.streams(whole[:-1] + "1") == [stream(1)]
        assert await world.log.streams(whole[:-1]) == [stream(1), stream(2)]
        assert await world.log.streams("x" * len(whole)) == await world.log.streams("no id") == []

    async def test_the_first_event_and_the_last_of_a_class_are_read_for_every_stream(self, world: World) -> None:
        await world.journal.append(make_append(stream(2), 0, "a", "b"))
        await world.journal.append(make_append(stream(1), 0, "c"))
        await world.journal.append(make_append(stream(2), 2, "d"))
        assert texts(await world.log.pick_first()) == ["a", "c"]
        found = await world.log.pick_last((SampleEvent, int))
        assert texts(found) == ["d", "c"]
        assert list(found) == [(await world.log.read(stream(number)))[-1] for number in (2, 1)]
        assert list(await world.log.pick_last((int,))) == []

    async def test_a_stream_longer_than_a_page_is_read_whole(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, *(str(number) for number in range(2_500))))
        assert texts(await world.log.read(stream(1))) == [str(number) for number in range(2_500)]

    async def test_an_append_may_hold_ten_thousand_contents(self, world: World) -> None:
        pieces = [content(f"{number:08}".encode() * 150) for number in range(10_000)]
        await world.journal.append(make_append(stream(1), 0, *(str(number) for number in range(200)), contents=pieces))
        fetched = await world.contents.fetch(stream(1), [piece.digest for piece in pieces])
        assert fetched == {piece.digest: piece.data for piece in pieces}

    async def test_sizes_are_counted_per_stream(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", "b", contents=[content(b"1" * 100), content(b"2")]))
        await world.journal.append(make_append(stream(2), 0, "a", contents=[content(b"1" * 100)]))
        await world.log.forget(stream(2), hushed)
        sizes = await world.log.sizes()
        assert sizes.keys() == {stream(1), stream(2)}
        one, two = sizes[stream(1)], sizes[stream(2)]
        assert (one.events, one.contents, one.forgotten, one.raw_bytes) == (2, 2, 0, 101)
        assert (two.events, two.contents, two.forgotten, two.raw_bytes, two.stored_bytes) == (1, 0, 1, 0, 0)
        assert one.event_bytes == 2 * two.event_bytes > 0
        assert await world.log.sizes(stream(2)) == {stream(2): two}
        assert sum(sizes.values(), StreamSizes()).events == 3

    async def test_forgetting_redacts_events_and_keeps_their_positions(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "one: a secret", "two"))
        await world.journal.append(make_append(stream(2), 0, "other: not asked for"))
        await world.journal.append(make_append(stream(1), 2, "three: another"))
        before = await world.log.tail(after=0, limit=9)
        assert await world.log.forget(stream(1), hushed) == 0
        after = await world.log.tail(after=0, limit=9)
        assert texts(after) == ["one", "two", "other: not asked for", "three"]
        assert list(map(place_of, after)) == list(map(place_of, before))
        assert {each.envelope.correlation_id for each in after} == {"c"}
        assert texts(await world.log.read(stream(1))) == ["one", "two", "three"]
        await world.journal.append(make_append(stream(1), 3, "four: later"))
        assert texts(await world.log.read(stream(1), after=2)) == ["three", "four: later"]

    async def test_forgetting_again_redacts_later_events(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "one: a secret"))
        await world.log.forget(stream(1), hushed)
        sizes = await world.log.sizes()
        await world.log.forget(stream(1), hushed)
        assert await world.log.sizes() == sizes
        await world.journal.append(make_append(stream(1), 1, "two: another", contents=[content(b"1")]))
        assert await world.log.forget(stream(1), hushed) == 1
        assert texts(await world.log.read(stream(1))) == ["one", "two"]

    async def test_contents_stay_if_an_event_cannot_be_redacted(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "one: a secret", "two", contents=[content(b"1")]))

        def refuse(event: SampleEvent) -> SampleEvent:
            if event.text == "two":
                raise ZeroDivisionError
            return hushed(event)

        with pytest.raises(ZeroDivisionError):
            await world.log.forget(stream(1), refuse)
        assert texts(await world.log.read(stream(1))) == ["one: a secret", "two"]
        assert (await world.log.sizes())[stream(1)].contents == 1


def place_of(recorded: Recorded[object]) -> tuple[UUID, int, int]:
    return recorded.stream, recorded.version, recorded.position


async def read_tail(world: World, *, limit: int = 100) -> Sequence[Recorded[object]]:
    """Read the whole log in pages, each after the last position."""
    seen: list[Recorded[object]] = []
    while page := await world.log.tail(after=seen[-1].position if seen else 0, limit=limit):
        seen += page
    return seen


class TestPostgresEventLog:
    async def test_an_unknown_event_is_named(self, dsn: str) -> None:
        async with open_postgres(dsn) as world, open_database(dsn) as database:
            await world.journal.append(make_append(stream(1), 0, "a"))
            older = PostgresEventLog(database, EventCodec({}))
            with pytest.raises(UnknownEvent, match=r"thing\.said v1"):
                await older.read(stream(1))
            for among_others in (await older.tail(after=0, limit=1), await older.pick_first()):
                (event,) = [each.envelope.event for each in among_others]
                assert isinstance(event, UnreadableEvent)
                assert "thing.said v1" in event.why

    async def test_the_writer_does_not_wait_for_the_connections_of_readers(self, dsn: str) -> None:
        async with open_database(dsn) as database, open_on(database) as world:
            with psycopg.connect(dsn) as blocker:
                blocker.execute("select pg_advisory_lock(1)")
                async with trio.open_nursery() as nursery:
                    for _ in range(8):
                        nursery.start_soon(database.run, lock_one)
                    await until(lambda: waiting_for_a_lock(dsn) == 4)
                    with trio.fail_after(DEADLINE):
                        await world.journal.append(make_append(stream(1), 0, "a"))
                    assert waiting_for_a_lock(dsn) == 4
                    blocker.execute("select pg_advisory_unlock(1)")

    async def test_an_append_of_many_megabytes_is_kept_whole_or_not_at_all(self, dsn: str) -> None:
        noise = random.Random(7)
        pieces = [content(noise.randbytes(3_000_000)) for _ in range(4)]  # they take two statements
        async with open_postgres(dsn) as world:
            with pytest.raises(VersionConflict, match="is at version 0"):
                await world.journal.append(make_append(stream(1), 1, "a", contents=pieces))
            assert await world.log.sizes() == {}
            await world.journal.append(make_append(stream(1), 0, "a", contents=pieces))
            assert (await world.log.sizes())[stream(1)].raw_bytes == 12_000_000

    async def test_events_and_contents_are_forgotten_together_or_not_at_all(self, dsn: str) -> None:
        async with open_postgres(dsn) as world:
            await world.journal.append(make_append(stream(1), 0, "one: a secret", contents=[content(b"1")]))
            query(
                dsn,
                "create function mnemosyne.refuse() returns trigger language plpgsql as"
                " $$ begin raise exception 'no'; end $$",
            )
            query(
                dsn,
                "create trigger refuse before update on mnemosyne.stored_events"
                " for each row execute function mnemosyne.refuse()",
            )
            with pytest.raises(LogFailed):
                await world.log.forget(stream(1), hushed)
            assert (await world.log.sizes())[stream(1)].contents == 1
            query(dsn, "drop trigger refuse on mnemosyne.stored_events")
            assert await world.log.forget(stream(1), hushed) == 1
        assert query(
            dsn, "select count(*) from mnemosyne.stored_events where convert_from(state, 'utf8') ~ 'secret'"
        ) == [(0,)]

    async def test_an_old_event_is_redacted_under_the_current_name(self, dsn: str) -> None:
        async with open_postgres(dsn) as world:
            await world.journal.append(make_append(stream(1), 0, "one: a secret", "two"))
        query(dsn, "update mnemosyne.stored_events set topic = 'thing.told.v1'")
        codec = EventCodec({"thing.said.v1": SampleEvent}, {"thing.told.v1": ("thing.said.v1", lambda data: data)})
        async with open_database(dsn) as database:
            log = PostgresEventLog(database, codec)
            await log.forget(stream(1), hushed)
            assert texts(await log.read(stream(1))) == ["one", "two"]
        names = query(dsn, "select topic from mnemosyne.stored_events order by originator_version")
        assert names == [("thing.said.v1",), ("thing.told.v1",)]


def lock_one(connection: Connection) -> None:
    connection.execute("select pg_advisory_xact_lock(1)")


class CountingCodec(EventCodec):
    decoded = 0

    def decode(self, name: str, state: bytes) -> Envelope[object]:
        self.decoded += 1
        return super().decode(name, state)


@attrs.frozen
class Cached:
    log: CachedEventLog
    journal: GroupJournal
    codec: CountingCodec


@asynccontextmanager
async def open_cached(dsn: str) -> AsyncIterator[Cached]:
    codec = CountingCodec({"thing.said.v1": SampleEvent, "session.forgotten.v1": SessionForgotten})
    async with open_database(dsn) as database:
        log = CachedEventLog(database, codec)
        async with running(GroupJournal(log, codec)) as journal:
            yield Cached(log, journal, codec)


async def test_the_cache_decodes_only_new_events(dsn: str) -> None:
    async with open_cached(dsn) as world:
        await world.journal.append(make_append(stream(1), 0, *"abcdefgh"))
        first = await world.log.read(stream(1))
        for again, letters in enumerate(("ij", "k", "")):
            if letters:
                await world.journal.append(make_append(stream(1), len(await world.log.read(stream(1))), *letters))
            before = world.codec.decoded
            read = await world.log.read(stream(1))
            assert world.codec.decoded - before == 1 + len(letters), again
        assert texts(read) == [*"abcdefghijk"]
        assert list(read[: len(first)]) == list(first)
        assert [each.version for each in read] == list(range(1, 12))
        assert texts(await world.log.read(stream(1), after=9)) == ["j", "k"]
        assert texts(await world.log.read(stream(2))) == []


async def test_the_cache_drops_a_forgotten_stream(dsn: str) -> None:
    async with open_cached(dsn) as world:
        await world.journal.append(make_append(stream(1), 0, "kept: a secret", "also: another"))
        assert "kept: a secret" in texts(await world.log.read(stream(1)))
        await world.log.forget(stream(1), hushed)
        forgotten = Append(stream(1), 2, (Envelope(SessionForgotten(at=1), "c"),))
        await world.journal.append(forgotten)
        for _ in range(2):
            before = world.codec.decoded
            assert texts(await world.log.read(stream(1))) == ["kept", "also"]
            assert world.codec.decoded - before >= 3  # all of it


async def test_the_cache_reads_a_stream_again_if_its_last_event_changed(dsn: str) -> None:
    """This happens when a backup replaces the log."""
    async with open_cached(dsn) as world:
        await world.journal.append(make_append(stream(1), 0, "a", "b", "c"))
        await world.log.read(stream(1))
        query(dsn, "delete from mnemosyne.stored_events where originator_version > 1")
        assert texts(await world.log.read(stream(1))) == ["a"]
        await world.journal.append(make_append(stream(1), 1, "x", "y", "z"))
        assert texts(await world.log.read(stream(1))) == ["a", "x", "y", "z"]


@pytest.mark.parametrize(
    "change", ["update mnemosyne.stored_events set state = '{}'", "delete from mnemosyne.stored_events"]
)
async def test_no_append_follows_one_that_only_another_server_has(
    dsn: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_postgres(dsn) as world:
        await world.journal.append(make_append(stream(1), 0, "confirmed there"))
        query(dsn, change.format("mnemosyne.stored_events"))
        # With two real servers: campaigns/soak/test_lost_machines.py. Here only the server's name changes.
        monkeypatch.setattr(event_log, "server_of", lambda connection: "its successor")
        with pytest.raises(VersionConflict):
            await world.journal.append(make_append(stream(1), 1, "on top of it"))
        (version,) = query(dsn, "select count(*) from mnemosyne.stored_events")[0]
        assert await world.journal.append(make_append(stream(1), version, "read again")) == version + 1
