"""Failures that only a database can have: stalls, outages, lost answers, manual changes."""

from collections.abc import Iterable

import attrs
import psycopg
import pytest
import trio
import trio.testing

from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.errors import LogUnavailable
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.daily_spending import ON_DAY
from mnemosyne.projections.projection import Projection, Query
from mnemosyne.projections.rebuilding import rebuild
from mnemosyne.projections.store import Mark, Switch
from tests.adapters.counting import asked_of_the_database
from tests.adapters.log_support import (
    COMMIT,
    begin_append,
    make_append,
    open_database,
    open_wire,
    query,
    stream,
    until,
    waiting_for_a_lock,
)
from tests.projections.support import OTHER, POISON, POSTGRES, SAMPLE, World, open_postgres, open_world, rebuilt_dump


def position(dsn: str, projection: Projection = SAMPLE) -> int:
    rows = query(dsn, "select position from mnemosyne.projections where name = %s and not side", projection.name)
    return int(rows[0][0]) if rows else 0


async def reached(dsn: str, wanted: int, projections: Iterable[Projection] = (SAMPLE,)) -> None:
    await until(lambda: all(position(dsn, each) >= wanted for each in projections))


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_an_append_that_commits_late_is_not_skipped(dsn: str, ends: str) -> None:
    async with open_world(POSTGRES, dsn) as world:
        with psycopg.connect(dsn) as stalled:
            begin_append(stalled, make_append(stream(9), 0, "late"))  # it has the first position
            await world.say(1, "soon")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.keeping().run, world.journal.committed)
                await until(lambda: waiting_for_a_lock(dsn) == 1)
                assert position(dsn) == 0
                await trio.to_thread.run_sync(getattr(stalled, ends))
                await reached(dsn, 2)
                nursery.cancel_scope.cancel()
        assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)
        assert len(await world.dump()) == (4 if ends == "commit" else 2)


async def test_a_projection_continues_after_an_outage_of_the_database(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as near, open_wire(dsn) as wire, open_database(wire.dsn) as database:
        await near.say(1, "before")
        async with trio.open_nursery() as nursery, open_postgres(database) as far:
            nursery.start_soon(far.keeping().run, near.journal.committed)
            await reached(dsn, 1)
            wire.cut()
            await near.say(1, "while it was away")
            await until(lambda: bool(far.messages))
            wire.mend()
            await reached(dsn, 2)
            nursery.cancel_scope.cancel()
        assert [text.partition(":")[0] for text in far.messages] == ["The projection sample waits"]
        assert await near.dump() == await rebuilt_dump(near.log, SAMPLE)


async def test_a_commit_whose_confirmation_was_lost_is_not_repeated(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as near, open_wire(dsn) as wire, open_database(wire.dsn) as database:
        far = PostgresProjections(database)
        await near.say(1, "a", "b", "a")
        projector = near.projector(store=far)
        await far.create(SAMPLE)
        wire.cut_after_next(COMMIT)
        with pytest.raises(LogUnavailable):
            await projector.catch_up()  # several transactions; the connection is cut in one of them
        assert wire.lost_answers == 1
        expected = await rebuilt_dump(near.log, SAMPLE)
        wire.mend()
        await projector.catch_up()
        assert await near.dump() == expected


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        ("drop table mnemosyne.sample_words", "its table sample_words is missing"),
        ("alter table mnemosyne.sample_words drop column loud", "its table sample_words was changed"),
        ("alter table mnemosyne.sample_words rename column loud to quiet", "its table sample_words was changed"),
        ("alter table mnemosyne.sample_words alter column after type varchar(3)", "its table sample_words was changed"),
        (
            "alter table mnemosyne.sample_streams drop constraint sample_streams_pkey",
            "its table sample_streams was changed",
        ),
        ("alter table mnemosyne.sample_streams add column mine text", "its table sample_streams was changed"),
    ],
)
async def test_manually_changed_tables_are_rebuilt_even_under_a_running_projector(
    dsn: str, edit: str, what: str
) -> None:
    async with open_world(POSTGRES, dsn) as world, trio.open_nursery() as nursery:
        nursery.start_soon(world.keeping().run, world.journal.committed)
        await world.say(1, "a")
        await reached(dsn, 1)
        query(dsn, edit)
        await world.say(1, "b")
        if "mine" in edit or "varchar" in edit:  # this raises no error; the next start notices it
            await reached(dsn, 2)
            await world.projector().catch_up()
        await until(lambda: bool(world.messages))
        assert world.messages == [f"The projection sample is rebuilt: {what}."]
        await world.say(2, "c")
        await reached(dsn, 3)
        nursery.cancel_scope.cancel()
    async with open_world(POSTGRES, dsn) as world:
        await world.projector().catch_up()
        assert world.messages == []
        assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)


async def test_a_reader_that_waits_for_the_switch_sees_the_new_rows(dsn: str) -> None:
    """With a snapshot taken before the wait it would see an empty table: the new rows were committed later."""
    count = Query("count", "select count(*) as n from mnemosyne.sample_words")
    async with open_world(POSTGRES, dsn) as world:
        await world.say(1, "a", "b")
        await world.projector().catch_up()
        side = await world.tables.begin_side(SAMPLE)
        answers = []

        async def read() -> None:
            answers.append(await world.tables.select((SAMPLE,), [(count, {})]))

        with psycopg.connect(dsn) as switching:
            switching.execute("lock table mnemosyne.sample_words in access exclusive mode")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                waiting = "select count(*) from pg_locks where not granted"
                await until(lambda: bool(query(dsn, waiting)[0][0]))
                switching.execute("drop table mnemosyne.sample_words")
                switching.execute("alter table mnemosyne.sample_words__side rename to sample_words")
                switching.execute(
                    "insert into mnemosyne.sample_words (stream, word) values (%s, 'x'), (%s, 'y'), (%s, 'z')",
                    (stream(1),) * 3,
                )
                switching.commit()
        assert answers == [[[{"n": 3}]]]
        assert side


async def test_a_switch_that_readers_delay_is_retried(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as world:
        await world.say(1, "a", "b")
        await world.projector().catch_up()
        with psycopg.connect(dsn) as reader:
            reader.execute("select * from mnemosyne.sample_words")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(rebuild, SAMPLE, world.tail, world.store)
                refused = "select 1 from pg_locks where mode = 'AccessExclusiveLock' and not granted"
                await until(lambda: bool(query(dsn, refused)))
                await world.say(1, "c")
                assert (await world.projector().catch_up()).mark.position == 3, "the live projector is not held up long"
                reader.commit()
        assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)


async def test_a_second_rebuild_leaves_no_old_names(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as world:
        await world.say(1, "a")
        for _ in range(3):
            await rebuild(SAMPLE, world.tail, world.store)
        names = query(
            dsn,
            "select relname from pg_class join pg_namespace n on n.oid = relnamespace"
            " where nspname = 'mnemosyne' and relname like 'sample%' order by 1",
        )
        assert [name for (name,) in names] == [
            "sample_streams",
            "sample_streams_pkey",
            "sample_words",
            "sample_words_pkey",
        ]
        assert query(dsn, "select side from mnemosyne.projections where name = %s", SAMPLE.name) == [(False,)]


async def test_a_projection_is_reported_with_its_lag_and_the_reason_for_its_stop(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as world:
        await world.say(1, "good", "better", "after")
        await world.projector().catch_up()
        await world.say(1, "more", "and more")
        await world.tables.stop(SAMPLE, "its rows are refused", after=Mark(3, stream(1), 3))
        report = await world.tables.report(SAMPLE)
        assert report.lag == 2
        assert report.state_of(SAMPLE) == "stopped"
        assert report.status is not None
        assert report.status.error == "its rows are refused"
        assert (await world.tables.report(OTHER)).lag == 5
        assert (await world.tables.report(OTHER)).status is None


async def test_every_query_runs(dsn: str) -> None:
    about = {"stream": stream(1), "session": "x", "branch": "main", "object": "x", "since": 0, "turn": 1}
    about |= {"window": 1, "agent": "x", "name": "x", "tenant": "x", "day": 0, "chains": ["x"]}
    about |= {"streams": [stream(1)], "only": None, "whole": False, "limit": 1, "key": "", "tasks": ["goal"]}
    async with open_database(dsn) as database:
        store = PostgresProjections(database)
        for projection in ALL:
            await store.create(projection)
            for question in projection.queries:
                nothing = [{"turns": 0, "helpers": 0}] if question is ON_DAY else []
                assert await store.select((projection,), [(question, about)]) == [nothing], question.name


async def test_projections_in_order_at_the_last_event_are_found_in_one_transaction(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as world:
        assert await world.tables.behind((SAMPLE, OTHER)) == [SAMPLE, OTHER]
        await world.say(1, "a", POISON)
        for projection in (SAMPLE, OTHER):
            await world.projector(projection).catch_up()
        with asked_of_the_database() as asked:
            assert await world.tables.behind((SAMPLE, OTHER)) == [SAMPLE], "an event was set aside"
        assert (asked.transactions, len(asked.of("select name, side"))) == (1, 1)
        newer = attrs.evolve(OTHER, version=2)
        assert await world.tables.behind((newer,)) == [newer]
        query(dsn, "alter table mnemosyne.other_streams add column more text")
        assert await world.tables.behind((OTHER,)) == [OTHER]
        query(dsn, "alter table mnemosyne.other_streams drop column more")
        assert await world.tables.behind((OTHER,)) == []
        await world.say(1, "b")
        assert await world.tables.behind((OTHER,)) == [OTHER]


async def test_two_projectors_that_create_at_the_same_time_make_one_set_of_tables(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as world, open_database(dsn) as database:
        await world.say(1, "a")
        other = attrs.evolve(world, store=PostgresProjections(database))
        async with trio.open_nursery() as nursery:
            for one in (world, other, world, other):
                nursery.start_soon(_create, one)
        await world.projector().catch_up()
        assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)


async def _create(world: World) -> None:
    await world.store.create(SAMPLE)


async def test_a_switch_with_the_number_of_another_side_does_nothing(dsn: str) -> None:
    async with open_world(POSTGRES, dsn) as world:
        await world.say(1, "a")
        await world.projector().catch_up()
        first = await world.store.begin_side(SAMPLE)
        second = await world.store.begin_side(SAMPLE)
        assert await world.store.switch(SAMPLE, first, unless_beyond=9) is Switch.LOST
        await world.store.drop_side(SAMPLE, first)
        assert await world.store.switch(SAMPLE, second, unless_beyond=9) is Switch.DONE
