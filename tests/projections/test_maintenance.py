"""All projections are kept with one read and one transaction per batch, and none delays another."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import LogProgress
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope, Recorded
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.maintenance import Keeping
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.store import ProjectionStatus
from tests.adapters.counting import asked_of_the_database
from tests.adapters.log_support import stream
from tests.golden.sessions import LOGS, appends
from tests.not_none import not_none
from tests.projections.support import OTHER, POISON, POSTGRES, SAMPLE, World, dump_of, open_world, rebuilt_dump
from tests.waiting import until


async def test_a_projection_that_cannot_apply_an_event_continues_with_the_others(world: World) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keeping(SAMPLE, OTHER).run, world.journal.committed)
        await world.say(1, "good", "better", POISON)
        await world.reached(3, SAMPLE, OTHER)
        await world.say(1, "after")
        await world.reached(4, SAMPLE, OTHER)
        nursery.cancel_scope.cancel()
    assert (await _status(world, SAMPLE)).set_aside == (3,)
    assert (await _status(world, OTHER)).set_aside == ()
    assert world.messages == []
    for projection in (SAMPLE, OTHER):
        assert await dump_of(world.store, projection) == await rebuilt_dump(world.log, projection)


async def test_projections_that_begin_at_different_positions_meet(world: World) -> None:
    await world.say(1, "a", "b", "c")
    await world.projector(OTHER).catch_up()
    await world.say(2, "d", "e")
    await world.projector().catch_up()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.keeping(SAMPLE, OTHER, page=2).run, world.journal.committed)
        await world.say(3, *"fghij")
        await world.reached(10, SAMPLE, OTHER)
        nursery.cancel_scope.cancel()
    for projection in (SAMPLE, OTHER):
        assert await dump_of(world.store, projection) == await rebuilt_dump(world.log, projection)
    assert world.messages == []


async def test_a_rebuild_of_one_projection_does_not_delay_the_others(world: World) -> None:
    await world.say(1, "a", "b")
    await world.projector().catch_up()
    newer = attrs.evolve(SAMPLE, version=2)
    rebuilding, go_on = trio.Event(), trio.Event()

    class Held:
        """A log that lets a rebuild read only its beginning until it may continue."""

        async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[object]]:
            if after == 0 and not go_on.is_set() and await world.store.status(newer) is not None:
                rebuilding.set()
                if (await _status(world, OTHER)).mark.position >= 2:
                    await go_on.wait()
            return await world.tail.tail(after=after, limit=limit)

    await world.projector(OTHER).catch_up()
    keeping = Keeping((newer, OTHER), Held(), world.store, say=world.messages.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.run, world.journal.committed)
        await rebuilding.wait()
        await world.say(1, "c")
        await world.reached(3, OTHER)
        assert (await _status(world, newer)).version == 1
        go_on.set()
        await world.say(1, "d")
        await world.reached(4, newer, OTHER)
        nursery.cancel_scope.cancel()
    assert (await _status(world, newer)).version == 2


async def _status(world: World, projection: Projection) -> ProjectionStatus:
    return not_none(await world.store.status(projection))


# Counts

EVENTS = tuple(envelope for append in appends(LOGS / "one-of-everything") for envelope in append.envelopes)
COPIES = 4


@asynccontextmanager
async def keeping_all(dsn: str) -> AsyncIterator[tuple[World, Callable[[int], Awaitable[None]]]]:
    """A world whose log is applied to all projections, and a function that lets them apply it up to a position."""
    async with open_world(POSTGRES, dsn, event_codec()) as world, trio.open_nursery() as nursery:
        progress = LogProgress()
        keeping = Keeping(ALL, PostgresEventLog(world.database, event_codec()), PostgresProjections(world.database))

        async def apply(last: int) -> None:
            progress.advance(last)
            await until(lambda: all(member.mark.position == last for member in keeping._members.values()))

        nursery.start_soon(keeping.run, progress)
        await until(lambda: len(keeping._members) == len(ALL))
        yield world, apply
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("copies", [1, COPIES])
async def test_a_batch_costs_one_read_and_one_write_transaction_for_any_number_of_projections_and_events(
    dsn: str, copies: int
) -> None:
    async with keeping_all(dsn) as (world, apply):
        for copy in range(copies):
            await world.journal.append(Append(stream(copy), 0, EVENTS))
        with asked_of_the_database() as asked:
            await apply(copies * len(EVENTS))
    assert asked.statements.count("begin") == 2
    merges = [statement.split("(")[0] for statement in asked.of("insert into mnemosyne.")]
    assert len(asked.statements) == 2 + READING + WRITING + len(merges)
    assert len(merges) == MERGES, "one for each set of columns of each table"


READING = 2
"""All open turns, and the events, read once for all projections."""

WRITING = 3
"""Without the rows: skipping the wait for the disk, and reading and writing the checkpoints."""

MERGES = 14
"""All statements of the session."""


async def test_no_event_is_parsed_twice(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    decode = EventCodec.decode

    def counting(codec: EventCodec, name: str, state: bytes) -> Envelope[Any]:
        nonlocal decoded
        decoded += 1
        return decode(codec, name, state)

    monkeypatch.setattr(EventCodec, "decode", counting)
    async with keeping_all(dsn) as (world, apply):
        await world.journal.append(Append(stream(1), 0, EVENTS))
        await apply(len(EVENTS))
    assert decoded == len(EVENTS)
