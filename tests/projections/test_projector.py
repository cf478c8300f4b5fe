"""Every event is applied once and in order, whatever happens to the projector."""

import json
from collections.abc import Awaitable, Callable, Sequence

import attrs
import pytest
import trio
import trio.testing

from mnemosyne.domain.ports import Append, Envelope, Recorded
from mnemosyne.projections.projection import LONGEST_KEY, Merge, fold
from mnemosyne.projections.rebuilding import rebuild, rebuild_all
from mnemosyne.projections.store import Mark, Portion, Switch, Tail, mark_of
from tests.adapters.log_support import CODEC, SampleEvent, query, stream
from tests.not_none import not_none
from tests.plain.log import PlainLog
from tests.projections.support import OTHER, PLAIN, POISON, POSTGRES, SAMPLE, World, dump_of, killed_at, rebuilt_dump


async def talk(world: World) -> None:
    """Append interleaved streams with repeated words."""
    for round in range(4):
        for number in range(3):
            await world.say(number, f"word {round % 2}", "AGAIN", f"only {round}")


# Applying events


async def test_all_events_of_the_log_are_applied(world: World) -> None:
    await world.say(1, "hello", "WORLD", "hello")
    status = await world.projector().catch_up()
    assert (status.mark, status.error) == (Mark(3, stream(1), 3), None)
    assert await world.dump() == [
        f'{{"table": "words", "stream": "{stream(1)}", "word": "WORLD",'
        ' "first": null, "last": 2, "loud": true, "after": null}',
        f'{{"table": "words", "stream": "{stream(1)}", "word": "hello",'
        ' "first": null, "last": 3, "loud": false, "after": "2"}',
        f'{{"table": "streams", "stream": "{stream(1)}", "latest": "hello", "version": 3}}',
    ]


@pytest.mark.parametrize("page", [1, 2, 5, 1000])
async def test_the_tables_do_not_depend_on_the_portions_in_which_the_log_is_read(world: World, page: int) -> None:
    await world.say(0, "early")
    await world.projector(page=page).catch_up()
    await talk(world)
    await world.projector(page=page).catch_up()
    live = await world.dump()
    assert live == await rebuilt_dump(world.log, SAMPLE)
    await rebuild(SAMPLE, world.tail, world.store, page=page)
    assert await world.dump() == live


# Exactly once


async def test_concurrent_projectors_apply_every_event_once(world: World) -> None:
    await talk(world)
    await world.store.create(SAMPLE)
    if world.kind == POSTGRES:
        query(world.dsn, COUNT_WRITES)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(world.projector(page=1).catch_up)
    assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)
    if world.kind == POSTGRES:
        assert query(world.dsn, "select count(*), count(distinct position) from written") == [(36, 36)]


COUNT_WRITES = """
create table public.written (position bigint);
create function public.count_write() returns trigger language plpgsql as
    $$ begin insert into public.written values (new.last); return new; end $$;
create trigger written after insert or update on mnemosyne.sample_words
    for each row execute function public.count_write();
"""


async def test_a_projector_killed_at_any_point_continues_correctly(world: World) -> None:
    await talk(world)
    expected = await rebuilt_dump(world.log, SAMPLE)
    kills = 0
    for step in range(1, 60):
        kills += await killed_at(step, world.projector(page=4).catch_up)
        if step % 20 == 0:
            await world.projector().catch_up()
            assert await world.dump() == expected
            await rebuild(SAMPLE, world.tail, world.store, page=7)
    assert kills
    await world.projector().catch_up()
    assert await world.dump() == expected


async def test_a_rebuild_killed_at_any_point_keeps_the_old_tables(world: World) -> None:
    await talk(world)
    await world.projector().catch_up()
    expected = await world.dump()
    step, killed = 1, True
    while killed:
        killed = await killed_at(step, lambda: rebuild(SAMPLE, world.tail, world.store, page=5))
        assert await world.dump() == expected
        step += 3
    assert step > 4


# Events that cannot be applied


async def test_an_event_that_cannot_be_applied_is_set_aside_and_all_others_are_applied_once(world: World) -> None:
    await world.say(1, "good", "better", POISON, "after")
    await world.say(2, "untouched")
    status = await world.projector(page=2).catch_up()
    assert (status.mark, status.error, status.set_aside) == (Mark(5, stream(2), 1), None, (3,))
    assert (await world.projector(OTHER).catch_up()).set_aside == ()
    words = [row["word"] for row in map(json.loads, await world.dump()) if row["table"] == "words"]
    assert sorted(words) == ["after", "better", "good", "untouched"]
    assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)


def test_the_reason_for_setting_an_event_aside_names_the_location_and_quotes_nothing() -> None:
    (aside,) = fold(SAMPLE, [Recorded(stream(1), 3, 3, Envelope(SampleEvent(POISON), "c"))]).set_aside
    assert aside.why.startswith("the SampleEvent cannot be applied: ZeroDivisionError in support.py, line ")


@pytest.mark.parametrize("before", [0, 1, 2, 5, 40])
async def test_an_event_of_a_future_version_is_set_aside_and_applied_after_an_upgrade(
    world: World, before: int
) -> None:
    await world.say(1, *(f"word {number}" for number in range(before)))
    await world.sing(1, "la")
    await world.say(1, "after")
    old = world.reading_with(CODEC)
    status = await world.projector(log=old, page=16).catch_up()
    assert (status.mark.position, status.set_aside) == (before + 2, (before + 1,))
    assert await world.projector(log=old, page=16).catch_up() == status
    assert world.messages == []
    upgraded = await world.projector().catch_up()
    assert (upgraded.mark.position, upgraded.set_aside) == (before + 2, ())
    assert world.messages == ["The projection sample is rebuilt: events that were set aside can now be applied."]
    assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)


async def test_an_event_set_aside_is_recorded_once_by_concurrent_projectors(world: World) -> None:
    await world.say(1, "good", POISON, "after")
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(world.projector(page=1).catch_up)
    status = await world.projector().catch_up()
    assert status.set_aside == (2,)
    await rebuild(SAMPLE, world.tail, world.store, page=1)
    assert (await world.store.status(SAMPLE)) == status


async def test_keys_and_texts_that_do_not_fit_a_table_are_set_aside(world: World) -> None:
    await world.say(1, "good", "a NUL: \0", "x" * (LONGEST_KEY + 1), "y" * LONGEST_KEY, "after")
    status = await world.projector().catch_up()
    assert (status.mark.position, status.error, status.set_aside) == (5, None, (2, 3))


async def test_rows_that_do_not_fit_a_table_are_set_aside_before_they_are_written(world: World) -> None:
    def wrong(recorded: Recorded[object]) -> list[Merge]:
        bad: dict[str, object] = {"version": 2**63} if recorded.version == 2 else {"version": "1"}
        return [Merge("streams", (recorded.stream,), bad if recorded.version > 1 else {"version": 1})]  # type: ignore[arg-type]

    await world.say(1, "a", "b", "c")
    status = await world.projector(attrs.evolve(OTHER, changes=wrong)).catch_up()
    assert (status.mark.position, status.error, status.set_aside) == (3, None, (2, 3))


# Changed tables and logs


async def test_a_dropped_table_is_rebuilt(world: World) -> None:
    await talk(world)
    await world.projector().catch_up()
    dump = await world.dump()
    world.drop_table("words")
    await world.projector().catch_up()
    assert await world.dump() == dump
    assert world.messages == ["The projection sample is rebuilt: its table sample_words is missing."]


async def test_tables_of_an_older_version_are_readable_until_they_are_rebuilt(world: World) -> None:
    await talk(world)
    await world.projector().catch_up()
    newer = attrs.evolve(
        SAMPLE, version=2, tables=SAMPLE.tables[:1], changes=lambda recorded: SAMPLE.changes(recorded)[:1]
    )
    old = await world.dump()
    seen: list[list[str]] = []
    log = Spied(world.tail, lambda: _note(world, seen))
    await world.projector(newer, log=log, page=5).catch_up()
    assert len(seen) > 3
    assert all(dump == old for dump in seen)
    assert await dump_of(world.store, newer) == old[: len(await dump_of(world.store, newer))]
    assert not_none(await world.store.status(newer)).version == 2
    assert world.messages == ["The projection sample is rebuilt: it has version 1, and this program has 2."]


async def _note(world: World, seen: list[list[str]]) -> None:
    status = await world.store.status(SAMPLE)
    if status is not None and status.version == 1:
        seen.append(await world.dump())


class Spied:
    """A log with a callback before each read."""

    def __init__(self, inner: Tail, before: Callable[[], Awaitable[None]]) -> None:
        self._inner, self._before = inner, before

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[object]]:
        await self._before()
        return await self._inner.tail(after=after, limit=limit)


async def test_tables_of_a_newer_version_are_not_touched(world: World) -> None:
    await world.say(1, "a")
    await world.projector(attrs.evolve(SAMPLE, version=2)).catch_up()
    dump = await world.dump()
    await world.say(1, "b")
    status = await world.projector().catch_up()
    assert status.error == (
        "a newer Mnemosyne created its tables (version 2; this one has 1); "
        "use the newer one, or `mnemosyne rebuild sample`"
    )
    assert await world.dump() == dump
    assert world.messages == []


@pytest.mark.parametrize("added", [0, 2, 5])
async def test_a_log_restored_from_an_older_backup_is_noticed_even_if_it_has_grown_since(
    world: World, added: int
) -> None:
    await world.say(1, "a", "b", "c", "d")
    await world.projector().catch_up()
    restored = await _restored(world, 2)
    await restored.say(2, *"vwxyz"[:added])
    status = await restored.projector().catch_up()
    assert (status.mark.position, status.error) == (2 + added, None)
    assert await restored.dump() == await rebuilt_dump(restored.log, SAMPLE)
    assert restored.messages == ["The projection sample is rebuilt: the log does not contain the event at position 4."]


async def _restored(world: World, position: int) -> World:
    """Return the world with the log truncated at a position, and everything else unchanged."""
    if world.kind == PLAIN:
        log = PlainLog(world.codec)
        for recorded in await world.log.tail(after=0, limit=position):
            log.submit(Append(recorded.stream, recorded.version - 1, (recorded.envelope,)))
        return attrs.evolve(world, log=log, journal=log)
    query(world.dsn, "delete from mnemosyne.stored_events where notification_id > %s", position)
    query(world.dsn, "alter sequence mnemosyne.stored_events_notification_id_seq restart with %s" % (position + 1))
    return world


# Rebuilding


async def test_a_later_rebuild_replaces_an_earlier_one(world: World) -> None:
    await talk(world)
    await world.projector().catch_up()
    dump = await world.dump()
    begun = 0

    async def begin_another() -> None:
        nonlocal begun
        begun += 1
        if begun == 3:
            await rebuild(SAMPLE, world.tail, world.store)

    assert await rebuild(SAMPLE, Spied(world.tail, begin_another), world.store, page=4) is None
    assert await world.dump() == dump


async def test_several_are_rebuilt_in_one_pass_even_if_another_rebuild_replaces_one(world: World) -> None:
    await talk(world)
    events, readings = await world.tail.tail(after=0, limit=1_000), 0

    async def begin_another() -> None:
        nonlocal readings
        readings += 1
        if readings == 3:
            await rebuild(OTHER, world.tail, world.store)

    marks = await rebuild_all((SAMPLE, OTHER), Spied(world.tail, begin_another), world.store, page=4)
    assert marks == {OTHER.name: None, SAMPLE.name: mark_of(events[-1])}
    assert readings == len(events) // 4 + 1
    assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)


async def test_no_projector_begins_a_rebuild_while_another_is_running(world: World) -> None:
    await talk(world)
    await world.projector().catch_up()
    newer = attrs.evolve(SAMPLE, version=2)
    side = await world.store.begin_side(newer)
    waited = world.projector(newer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waited.catch_up)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert world.messages == []
        events = await world.log.tail(after=0, limit=1000)
        await world.store.apply([Portion(projection=newer, events=events, after=Mark(), side=side)])
        assert await world.store.switch(newer, side, unless_beyond=36) is Switch.DONE
    assert world.messages == []


async def test_the_switch_waits_until_readers_would_not_go_back_in_time(world: World) -> None:
    await talk(world)
    side = await world.store.begin_side(SAMPLE)
    events = await world.log.tail(after=0, limit=10)
    await world.store.apply([Portion(projection=SAMPLE, events=events, after=Mark(), side=side)])
    await world.projector().catch_up()
    assert await world.store.switch(SAMPLE, side, unless_beyond=10) is Switch.BEHIND
    assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)


@pytest.mark.release
async def test_a_rebuild_during_a_running_projector_is_invisible_to_readers(world: World) -> None:
    """Readers see the state of the log at some time, and never an earlier one than before."""
    done = False

    async def append() -> None:
        for number in range(60):
            await world.say(number % 3, f"word {number}")

    async def read() -> None:
        seen = 0
        while not done:
            words = sum('"words"' in line for line in await world.dump())
            assert words >= seen
            seen = words

    async def rebuild_repeatedly() -> None:
        for _ in range(8):
            await rebuild(SAMPLE, world.tail, world.store, page=7)

    await world.say(1, "first")
    await world.projector().catch_up()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keeping(page=3).run, world.journal.committed)
        nursery.start_soon(read)
        async with trio.open_nursery() as work:
            work.start_soon(append)
            work.start_soon(rebuild_repeatedly)
        await world.reached(61)
        done = True
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert await world.dump() == await rebuilt_dump(world.log, SAMPLE)
    assert world.messages == []
