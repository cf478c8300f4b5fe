"""One process at a time leads: it follows the appends of every process and reports its lag."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.adapters.postgres import leading
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.journal import LogProgress
from mnemosyne.adapters.postgres.leading import Leader, lag, publish_progress
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope, Progress
from mnemosyne.domain.session.events import SessionForgotten
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.projector import Projector
from tests.adapters.counting import asked_of_the_database
from tests.adapters.log_support import open_wire, query, stream, until
from tests.projections.support import POSTGRES, World, open_world


@attrs.define
class Following:
    """A candidate for leader, with the positions that it saw."""

    leader: Leader
    make_append: list[str] = attrs.field(factory=list)
    positions: list[int] = attrs.field(factory=list)
    times: int = 0

    async def follow(self, progress: Progress) -> None:
        self.times += 1
        position = 0
        while True:
            position = await progress.beyond(position)
            self.positions.append(position)


@asynccontextmanager
async def following(dsn: str) -> AsyncIterator[Following]:
    database = Database(dsn, connections=1)
    make_append: list[str] = []
    found = Following(Leader(database, make_append.append), make_append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.leader.run, found.follow)
        yield found
        nursery.cancel_scope.cancel()
    database.close()


async def test_the_leader_follows_earlier_and_later_appends_of_any_process(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leading, "LOOK_SECONDS", 0.01)
    async with open_world(POSTGRES, dsn) as world:
        await world.say(1, "a", "b")
        async with following(dsn) as one:
            await until(lambda: one.positions == [2])
            await world.say(1, "c")
            await until(lambda: one.positions[-1] == 3)


async def test_a_position_is_reported_once_the_log_is_quiet_or_a_call_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # A made-up clock and made-up polls: what is tested is when they lead to a report, which would take minutes.
    looks, slept = iter((2, 3, 4, 4, 5, 5, 6, 7)), list[float]()
    reported: list[tuple[float, int]] = []
    monkeypatch.setattr(leading, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))
    monkeypatch.setattr(leading, "is_shared", lambda connection: True)
    monkeypatch.setattr(leading, "_look", lambda connection: next(looks))
    monkeypatch.setattr(leading, "WATCH_SECONDS", 4 * leading.LOOK_SECONDS)
    nobody: Any = None
    watch = partial(leading._watch, nobody, pause=leading.LOOK_SECONDS, waits=True)
    for _ in range(2):
        await trio.to_thread.run_sync(watch, lambda seen: reported.append((sum(slept), seen)))
    assert reported == [(0.0, 2), (15.0, 4), (20.0, 5)]


async def test_publishing_progress_keeps_no_transaction_open(dsn: str, nursery: trio.Nursery) -> None:
    async with open_world(POSTGRES, dsn) as world:
        await world.say(1, "a")
        watcher, progress = Database(dsn, name="watcher", connections=1), LogProgress()
        nursery.start_soon(publish_progress, watcher, progress)
        await progress.beyond(0)
        idle = (
            "select count(*) from pg_stat_activity where state = 'idle in transaction' and application_name = 'watcher'"
        )
        assert query(dsn, idle) == [(0,)]
        nursery.cancel_scope.cancel()
    watcher.close()


async def test_a_poll_costs_one_statement(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "LOOK_SECONDS", 0.01)
    async with open_world(POSTGRES, dsn), following(dsn) as one:
        await until(lambda: one.times == 1)
        with asked_of_the_database() as asked:
            await until(lambda: len(asked.statements) > 2)
    assert set(asked.statements) == {"select max(notification_id) from mnemosyne.stored_events"}


async def test_another_process_leads_after_the_leader_ends(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "LOOK_SECONDS", 0.01)
    async with open_world(POSTGRES, dsn) as world, following(dsn) as other:
        await until(lambda: other.leader.leads)
        assert (await lag(world.database)).led
        async with following(dsn) as waiting:
            await until(lambda: len(waiting.make_append) == 1)
            await world.say(1, "a")
            await until(lambda: other.positions == [1])
            assert (waiting.times, waiting.leader.leads) == (0, False)
            query(dsn, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted")
            await until(lambda: waiting.leader.leads)
            await world.say(1, "b")
            await until(lambda: waiting.positions[-1:] == [2])
        assert waiting.make_append == [
            "Another worker updates the projections of this log; this one waits until it ends."
        ]


async def test_a_leader_leads_again_after_an_outage(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(leading, "LOOK_SECONDS", 0.01)
    async with open_world(POSTGRES, dsn) as world, open_wire(dsn) as wire, following(wire.dsn) as one:
        await until(lambda: one.leader.leads)
        wire.cut()
        await until(lambda: not one.leader.leads)
        await world.say(1, "while it was away")
        wire.mend()
        await until(lambda: one.positions == [1])
        assert one.times == 2


# Lag


async def test_the_lag_is_counted_in_events_and_seconds(empty_dsn: str) -> None:
    async with open_world(POSTGRES, empty_dsn, event_codec()) as world:
        assert attrs.astuple(await lag(world.database)) == (False, 0, 0.0, 0.0, 0.0, 0)
        now = 1_000_000 * int(query(empty_dsn, "select floor(extract(epoch from now()))::bigint")[0][0])
        for number, ago in enumerate((100, 50)):
            await add_event(world, number, now - ago * 1_000_000)
        found = await lag(world.database)
        assert (found.led, found.events) == (False, 2)
        assert 100 <= found.seconds < 200
        assert found.still == found.seconds, "no event was processed yet"
        for each in ALL[1:]:
            await Projector(each, world.tail, world.store).catch_up()
        assert (await lag(world.database)).events == 2, "one projection has not begun"
        await Projector(ALL[0], world.tail, world.store).catch_up()
        await add_event(world, 2, now - 30 * 1_000_000)
        found = await lag(world.database)
        assert found.events == 1
        assert 30 <= found.seconds < 130
        assert found.still < found.seconds, "an event was just processed"


async def test_the_lag_counts_the_damaged_sessions(dsn: str) -> None:
    async with open_world(POSTGRES, dsn, event_codec()) as world:
        for number in range(3):
            await add_event(world, number, 1)
            await add_event(world, number, 2)
        query(dsn, "update mnemosyne.stored_events set state = 'gone' where originator_id <> %s", stream(0))
        for each in ALL:
            await Projector(each, world.tail, world.store).catch_up()
        found = await lag(world.database)
        assert (found.events, found.damaged) == (0, 2)


async def add_event(world: World, number: int, at: int) -> None:
    version = len(await world.log.read(stream(number)))
    await world.journal.append(Append(stream(number), version, (Envelope(SessionForgotten(at=at), "c"),)))
