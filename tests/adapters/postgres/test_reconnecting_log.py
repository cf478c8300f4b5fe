"""A closed log states the reason, and queued appends are written when it opens."""

import math
import socket
import uuid
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from mnemosyne.adapters.postgres.bills import PostgresBills
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.reconnecting_log import SILENT_SECONDS, OpenLog, ReconnectingLog
from mnemosyne.app.object_index import model_of
from mnemosyne.app.server import keep_open
from mnemosyne.config import load
from mnemosyne.errors import LogUnavailable
from tests.adapters.indexing import always
from tests.adapters.log_support import CODEC, content, hushed, make_append, open_database, running, stream, texts, until
from tests.waiting import DEADLINE

S = stream(1)


async def all_streams(log: ReconnectingLog) -> list[uuid.UUID]:
    return list(await log.streams())


CALLS: list[Callable[[ReconnectingLog], Awaitable[object]]] = [
    lambda log: log.commit(()),
    lambda log: log.read(S),
    lambda log: log.pick(S, (1,)),
    lambda log: log.select(S, ()),
    lambda log: log.tail(after=0, limit=1),
    all_streams,
    lambda log: log.pick_first(),
    lambda log: log.pick_last(()),
    lambda log: log.sizes(),
    lambda log: log.fetch(S, ()),
    lambda log: log.forget(S, hushed),
    lambda log: log.lag(),
    lambda log: log.bill_of("t", S, 0),
]


@pytest.mark.parametrize("call", CALLS)
async def test_a_closed_log_states_the_reason(call: Callable[[ReconnectingLog], Awaitable[object]]) -> None:
    log = ReconnectingLog()
    with pytest.raises(LogUnavailable, match="not open yet"):
        await call(log)
    assert not log.is_away()
    log.away("the disk is full")
    assert log.is_away()
    with pytest.raises(LogUnavailable, match="the disk is full"):
        await call(log)


async def test_queued_appends_are_written_whenever_the_log_opens(dsn: str) -> None:
    reconnecting = ReconnectingLog()
    limits = JournalLimits(longest_pause=0.05)
    async with open_database(dsn) as database, running(GroupJournal(reconnecting, CODEC, limits)) as journal:
        opened = _open_log(database)
        piece = content(b"kept")
        for version, text in enumerate(["one", "two"]):
            ticket = journal.submit(make_append(S, version, text, contents=[piece]))
            await trio.testing.wait_all_tasks_blocked()
            assert not ticket.settled
            with reconnecting.holding(opened), trio.fail_after(DEADLINE):
                assert await ticket.durable() == version + 1
                assert reconnecting.tried.is_set()
                assert texts(await reconnecting.read(S)) == ["one", "two"][: version + 1]
                assert await reconnecting.fetch(S, [piece.digest]) == {piece.digest: b"kept"}
                assert await all_streams(reconnecting) == [S]
                assert len(await reconnecting.tail(after=0, limit=9)) == version + 1
                assert (await reconnecting.sizes())[S].contents == 1
            with pytest.raises(LogUnavailable):
                await reconnecting.read(S)
        with reconnecting.holding(opened):
            assert await reconnecting.forget(S, hushed) == 1


async def test_a_database_that_accepts_connections_and_never_answers_counts_as_away(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        database = Database(f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nothing")
        reconnecting = ReconnectingLog()
        journal = GroupJournal(reconnecting, CODEC, is_away=reconnecting.is_away)
        async with trio.open_nursery() as nursery:
            with reconnecting.holding(_open_log(database)):
                with trio.move_on_after(SILENT_SECONDS / 2):
                    await reconnecting.off_since("t")
                assert journal.commit_seconds < math.inf  # its caller gave up early
                nursery.start_soon(reconnecting.off_since, "t")
                await trio.sleep(SILENT_SECONDS * 1.1)
                assert journal.commit_seconds == math.inf  # while it waits
                nursery.cancel_scope.cancel()
        with reconnecting.holding(_open_log(database)):
            with trio.move_on_after(SILENT_SECONDS * 1.1):
                await reconnecting.off_since("t")
            assert journal.commit_seconds == math.inf  # after its caller has given up
        database.close()


async def test_a_slow_database_that_answers_other_statements_is_not_away(
    dsn: str, mock_clock: trio.testing.MockClock
) -> None:
    reconnecting = ReconnectingLog()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        waiting = Database(f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nothing")
        async with open_database(dsn) as database:
            with reconnecting.holding(attrs.evolve(_open_log(database), directory=_open_log(waiting).directory)):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(reconnecting.off_since, "t")
                    await trio.testing.wait_all_tasks_blocked()
                    mock_clock.jump(SILENT_SECONDS * 2)
                    assert await all_streams(reconnecting) == []
                    assert not reconnecting.is_away()  # while the call waits
                    nursery.cancel_scope.cancel()
                assert not reconnecting.is_away()  # after its caller has given up
        waiting.close()


async def test_a_database_is_away_from_a_failed_call_to_the_next_answer(dsn: str) -> None:
    reconnecting, unreachable = ReconnectingLog(), Database("postgresql://nobody@127.0.0.1:1/nothing")
    async with open_database(dsn) as database:
        opened = attrs.evolve(_open_log(database), directory=_open_log(unreachable).directory)
        with reconnecting.holding(opened):
            with pytest.raises(LogUnavailable):
                await reconnecting.off_since("t")
            assert reconnecting.is_away()
            assert await all_streams(reconnecting) == []
            assert not reconnecting.is_away()


def _open_log(database: Database) -> OpenLog:
    return OpenLog(
        database,
        PostgresEventLog(database, CODEC),
        PostgresContentStore(database),
        PostgresObjectIndex(database, always(None)),
        PostgresDirectory(database, PostgresEventLog(database, CODEC)),
        PostgresBills(database, PostgresEventLog(database, CODEC)),
    )


async def test_an_unreachable_database_is_tried_again(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    unreachable = load({"dsn": "postgresql://nobody@127.0.0.1:1/nothing"}, {})
    for config, opens in ((unreachable, False), (attrs.evolve(unreachable, dsn=dsn), True)):
        reconnecting = ReconnectingLog()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_open, config, reconnecting, model_of(config))
            with trio.fail_after(DEADLINE):
                if opens:
                    await reconnecting.tried.wait()
                    assert await all_streams(reconnecting) == []
                else:
                    await until(lambda seen=reconnecting: seen.reason != ReconnectingLog().reason)  # type: ignore[misc]
            nursery.cancel_scope.cancel()
        with pytest.raises(LogUnavailable):
            await reconnecting.read(S)
    assert "Requests are forwarded and recorded later; next attempt in 0.5 s" in caplog.text
