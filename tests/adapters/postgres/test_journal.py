"""The journal: order, conflicts that stay with the guilty, outages that lose nothing; with a fake, then for real."""

import logging
import math
import re
from collections.abc import AsyncIterator, Sequence

import attrs
import psycopg
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.adapters.plain.log import PlainLog
from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.database import Database, Timeouts
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.domain.ports import Append
from mnemosyne.errors import LogFailed, LogUnavailable, VersionConflict
from tests.adapters.log_support import (
    APPEND,
    CODEC,
    INLINE,
    KINDS,
    POSTGRES,
    World,
    open_database,
    open_on,
    open_postgres,
    open_wire,
    open_world,
    query,
    running,
    said,
    stream,
    texts,
    until,
)
from tests.waiting import DEADLINE


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The kind of log, and a database where it needs one."""
    return request.param, str(request.getfixturevalue("dsn")) if request.param == POSTGRES else ""


@pytest.fixture
async def world(backend: tuple[str, str]) -> AsyncIterator[World]:
    async with open_world(*backend) as world:
        yield world


class TestJournal:
    """What every journal does."""

    async def test_a_session_may_submit_the_next_append_before_the_first_is_durable(self, world: World) -> None:
        tickets = [world.journal.submit(said(stream(1), version, str(version))) for version in range(20)]
        assert [ticket.version for ticket in tickets] == list(range(1, 21))
        assert [await ticket.durable() for ticket in tickets] == list(range(1, 21))
        assert texts(await world.log.read(stream(1))) == [str(version) for version in range(20)]

    async def test_a_conflict_fails_only_the_guilty_and_what_builds_on_it(
        self, backend: tuple[str, str], world: World
    ) -> None:
        if backend[0] == INLINE:
            pytest.skip("it has no queue: the failure is known before the next append comes")
        await world.journal.append(said(stream(1), 0, "theirs", "theirs too"))
        appends = [
            said(stream(2), 0, "innocent"),
            said(stream(1), 1, "guilty"),
            said(stream(2), 1, "innocent too"),
            # It finds the version that it expects, but not the event that it builds on.
            said(stream(1), 2, "built on the guilty"),
            said(stream(3), 0, "innocent as well"),
        ]
        outcomes = await outcomes_of(world, *appends)
        assert outcomes == [1, VersionConflict, 2, VersionConflict, 1]
        assert texts(await world.log.tail(after=0, limit=99)) == [
            "theirs", "theirs too", "innocent", "innocent too", "innocent as well",
        ]  # fmt: skip

    async def test_after_a_conflict_the_session_goes_on_from_the_version_that_it_read(self, world: World) -> None:
        await world.journal.append(said(stream(1), 0, "a"))
        assert await outcomes_of(world, said(stream(1), 0, "x")) == [VersionConflict]
        assert await world.journal.append(said(stream(1), 1, "b")) == 2

    async def test_who_waits_for_progress_is_woken_by_the_next_commit(self, world: World) -> None:
        await world.journal.append(said(stream(1), 0, "a", "b"))
        position = world.journal.committed.position
        assert position == (await world.log.tail(after=0, limit=9))[-1].position
        async with trio.open_nursery() as nursery:
            woken: list[int] = []

            async def wait() -> None:
                woken.append(await world.journal.committed.beyond(position))

            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not woken
            await world.journal.append(said(stream(2), 0, "c"))
        assert woken == [(await world.log.tail(after=position, limit=9))[-1].position]

    async def test_a_ticket_may_be_asked_by_many_and_after_the_end(self, world: World) -> None:
        await world.journal.append(said(stream(1), 0, "a"))
        good, bad = world.journal.submit(said(stream(1), 1, "b")), world.journal.submit(said(stream(1), 0, "x"))
        for _ in range(3):
            assert await good.durable() == 2
            with pytest.raises(VersionConflict):
                await bad.durable()
        assert (good.settled, bad.settled) == (True, True)


async def outcomes_of(world: World, *appends: object) -> list[object]:
    """Submit all at once; for each the version that it reached, or the class of its error."""
    tickets = [world.journal.submit(append) for append in appends]  # type: ignore[arg-type]
    outcomes: list[object] = []
    for ticket in tickets:
        try:
            outcomes.append(await ticket.durable())
        except LogFailed as error:
            outcomes.append(type(error))
    return outcomes


class Moody:
    """Commits to plain objects, unless it is away, or a text that it does not like is in the batch."""

    def __init__(self) -> None:
        self.log = PlainLog(CODEC)
        self.away = False
        self.forgetful = False
        self.broken = False
        self.disliked = b"poison"
        self.batches: list[int] = []
        self.gate = trio.Event()
        self.gate.set()

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        await self.gate.wait()
        self.batches.append(len(batch))
        if self.away:
            raise LogUnavailable("the database is away: it went for a walk")
        if self.broken:
            raise ZeroDivisionError
        if any(self.disliked in event.state for append in batch for event in append.events):
            raise LogFailed("the database does not like it")
        committed = await self.log.commit(batch)
        if self.forgetful:
            self.forgetful = False
            raise LogUnavailable("the database is away: its answer got lost")
        return committed


@pytest.fixture
def moody() -> Moody:
    return Moody()


class TestQueue:
    """The journal's own part, on a mock clock."""

    async def test_what_arrives_during_a_commit_goes_into_one_next_commit(self, moody: Moody) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            moody.gate = trio.Event()
            first = journal.submit(said(stream(0), 0, "a"))
            await wait_all_tasks_blocked()
            rest = [journal.submit(said(stream(number), 0, "a")) for number in range(1, 65)]
            moody.gate.set()
            for ticket in (first, *rest):
                await ticket.durable()
        assert moody.batches == [1, 64]

    async def test_what_may_wait_commits_with_the_next_append_or_alone_after_a_moment(
        self, moody: Moody, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            began = trio.current_time()
            patient = journal.submit(attrs.evolve(said(stream(1), 0, "a"), may_wait=True))
            await wait_all_tasks_blocked()
            waits = not patient.settled
            await journal.append(said(stream(2), 0, "b"))
            assert (waits, patient.settled) == (True, True)
            assert trio.current_time() == began
            alone = journal.submit(attrs.evolve(said(stream(1), 1, "c"), may_wait=True))
            await alone.durable()
            assert trio.current_time() == began + JournalLimits().batch_delay
        assert moody.batches == [2, 1]

    async def test_what_may_wait_is_written_at_once_when_the_journal_closes(
        self, moody: Moody, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            patient = journal.submit(attrs.evolve(said(stream(1), 0, "a"), may_wait=True))
            began = trio.current_time()
            await journal.close(within=1)
            assert await patient.durable() == 1
            assert trio.current_time() == began

    async def test_it_reports_what_a_commit_takes_and_when_the_database_is_unreachable_or_hangs(
        self, moody: Moody, autojump_clock: trio.testing.MockClock
    ) -> None:
        limits = JournalLimits()
        async with running(GroupJournal(moody, CODEC)) as journal:
            assert journal.commit_seconds == limits.first_commit
            moody.gate = trio.Event()
            slow = journal.submit(said(stream(1), 0, "a"))
            await trio.sleep(2)
            assert journal.commit_seconds == limits.first_commit
            await trio.sleep(limits.longest_commit)
            assert journal.commit_seconds == math.inf
            moody.gate.set()
            await slow.durable()
            assert journal.commit_seconds == 2 + limits.longest_commit
            await journal.append(said(stream(1), 1, "b"))
            assert journal.commit_seconds == 0
            moody.away = True
            lost = journal.submit(said(stream(1), 2, "c"))
            await wait_all_tasks_blocked()
            assert journal.commit_seconds == math.inf
            moody.away = False
            await lost.durable()
            assert journal.commit_seconds == 0

    async def test_an_error_that_nobody_expected_fails_its_append_and_not_the_journal(self, moody: Moody) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            moody.broken = True
            with pytest.raises(LogFailed, match="ZeroDivisionError"):
                await journal.append(said(stream(1), 0, "a"))
            moody.broken = False
            assert await journal.append(said(stream(1), 0, "b")) == 1

    async def test_one_transaction_takes_no_more_than_its_share(self, moody: Moody) -> None:
        async with running(GroupJournal(moody, CODEC, JournalLimits(batch_bytes=5_000))) as journal:
            big, *small = [
                journal.submit(said(stream(number), 0, "x" * size)) for number, size in enumerate([9_000, 1_000, 1_000])
            ]
            for ticket in (big, *small):
                await ticket.durable()
        assert moody.batches == [1, 2]

    async def test_an_outage_keeps_everything_and_the_waiter_may_give_up_waiting(
        self, moody: Moody, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            moody.away = True
            tickets = [journal.submit(said(stream(1), version, str(version))) for version in range(3)]
            with trio.move_on_after(0.25) as patience:
                await tickets[0].durable()
            assert patience.cancelled_caught
            await trio.sleep(60)
            assert not any(ticket.settled for ticket in tickets)
            assert caplog.messages == ["Events wait to be written: the database is away: it went for a walk."]
            moody.away = False
            with trio.fail_after(3):  # the longest pause is 2 seconds
                assert [await ticket.durable() for ticket in tickets] == [1, 2, 3]
            assert "The database is back after 6" in caplog.messages[-1]
        assert texts(await moody.log.read(stream(1))) == ["0", "1", "2"]

    async def test_a_commit_whose_answer_got_lost_is_no_conflict(
        self, moody: Moody, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            moody.forgetful = True
            tickets = [journal.submit(said(stream(1), version, str(version))) for version in range(3)]
            assert [await ticket.durable() for ticket in tickets] == [1, 2, 3]
            assert journal.committed.position == 3
        assert texts(await moody.log.tail(after=0, limit=9)) == ["0", "1", "2"]

    async def test_a_full_queue_refuses_more_and_takes_it_again_later(
        self, moody: Moody, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(moody, CODEC, JournalLimits(pending_bytes=10_000))) as journal:
            moody.away = True
            # Alone it may be of any size: it could never be written otherwise.
            first = journal.submit(said(stream(1), 0, "x" * 20_000))
            with pytest.raises(LogUnavailable, match="wait to be written already"):
                journal.submit(said(stream(2), 0, "y"))
            moody.away = False
            await first.durable()
            assert await journal.append(said(stream(2), 0, "y")) == 1
        assert texts(await moody.log.tail(after=0, limit=9))[1:] == ["y"]

    async def test_what_the_database_refuses_fails_alone(self, moody: Moody) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            world = World(journal, moody.log, moody.log)
            outcomes = await outcomes_of(
                world,
                said(stream(1), 0, "a"),
                said(stream(2), 0, "poison"),
                said(stream(2), 1, "built on poison"),
                said(stream(1), 1, "b"),
            )
            assert outcomes == [1, LogFailed, VersionConflict, 2]
            assert await journal.append(said(stream(2), 0, "fresh")) == 1
        assert texts(await moody.log.tail(after=0, limit=9)) == ["a", "b", "fresh"]

    async def test_the_outcome_of_each_append_is_told_and_what_waits_can_be_asked(
        self, moody: Moody, autojump_clock: trio.testing.MockClock
    ) -> None:
        told: list[tuple[str, int, type[LogFailed] | None]] = []

        def tell(append: Append, size: int, seconds: float, error: LogFailed | None) -> None:
            assert 3 <= seconds < 6
            told.append((append.stream.hex[-1], size, None if error is None else type(error)))

        async with running(GroupJournal(moody, CODEC, told=tell)) as journal:
            moody.away = True
            ticket, guilty = journal.submit(said(stream(1), 0, "a")), journal.submit(said(stream(2), 7, "b"))
            await trio.sleep(3)
            assert journal.waiting.appends == 2
            assert journal.waiting.bytes > 2 * ticket.prepared.size
            assert 2 < journal.waiting.seconds < 4
            assert not told
            moody.away = False
            with pytest.raises(VersionConflict):
                await guilty.durable()
            assert (journal.waiting.appends, journal.waiting.seconds) == (0, 0)
        assert told == [("1", ticket.prepared.size, None), ("2", ticket.prepared.size, VersionConflict)]

    async def test_what_was_queued_on_top_of_a_conflict_fails_though_the_version_would_fit(self, moody: Moody) -> None:
        async with running(GroupJournal(moody, CODEC)) as journal:
            moody.log.submit(said(stream(1), 0, "theirs"))
            moody.gate = trio.Event()
            guilty = journal.submit(said(stream(1), 0, "guilty"))
            await wait_all_tasks_blocked()  # it is being committed alone
            on_top = journal.submit(said(stream(1), 1, "on top"))
            moody.gate.set()
            for ticket in (guilty, on_top):
                with pytest.raises(VersionConflict):
                    await ticket.durable()
        assert texts(await moody.log.read(stream(1))) == ["theirs"]

    async def test_going_away_and_coming_back_is_one_sentence_each_without_content(
        self, moody: Moody, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, logger="mnemosyne")
        async with running(GroupJournal(moody, CODEC)) as journal:
            moody.away = True
            ticket = journal.submit(said(stream(1), 0, "private"))
            await trio.sleep(30)
            moody.away = False
            await ticket.durable()
        assert len(caplog.messages) == 2
        assert "went for a walk" in caplog.messages[0]
        assert "is back after 3" in caplog.messages[1]
        assert "private" not in caplog.text


class TestGivingUp:
    """A command's journal, which must end."""

    @pytest.mark.parametrize("appends", [1, 2, 5])
    async def test_what_waits_fails_with_the_reason_after_the_limit(
        self, moody: Moody, appends: int, autojump_clock: trio.testing.MockClock
    ) -> None:
        moody.away = True
        journal = GroupJournal(moody, CODEC, JournalLimits(give_up=5.0))
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            tickets = [journal.submit(said(stream(number), 0, "a")) for number in range(appends)]
            began = trio.current_time()
            for ticket in tickets:
                with pytest.raises(LogUnavailable, match="it went for a walk"):
                    await ticket.durable()
            assert 5.0 <= trio.current_time() - began < 10.0
            assert journal.waiting.appends == 0
            moody.away = False
            await journal.submit(said(stream(9), 0, "b")).durable()
            nursery.cancel_scope.cancel()


class TestShutdown:
    async def test_closing_writes_what_is_queued(self, moody: Moody) -> None:
        async with trio.open_nursery() as nursery:
            journal = GroupJournal(moody, CODEC)
            await nursery.start(journal.run)
            ticket = journal.submit(said(stream(1), 0, "a"))
            await journal.close(within=DEADLINE)
            assert ticket.settled
        assert texts(await moody.log.read(stream(1))) == ["a"]

    async def test_closing_during_an_outage_reports_what_could_not_be_written(
        self, moody: Moody, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with trio.open_nursery() as nursery:
            journal = GroupJournal(moody, CODEC)
            await nursery.start(journal.run)
            moody.away = True
            tickets = [journal.submit(said(stream(number), 0, "private")) for number in (1, 2)]
            started = trio.current_time()
            await journal.close(within=3)
            assert trio.current_time() - started == pytest.approx(3)
        for ticket in tickets:
            with pytest.raises(LogUnavailable, match="stopped before"):
                await ticket.durable()
        assert re.match(r"2 appends \([1-9]\d* bytes\) of 2 sessions were not written", caplog.messages[-1])
        assert "private" not in caplog.text

    async def test_a_stopped_journal_takes_no_more(self, moody: Moody) -> None:
        journal = GroupJournal(moody, CODEC)
        await journal.close(within=DEADLINE)
        with pytest.raises(LogUnavailable, match="has stopped"):
            journal.submit(said(stream(1), 0, "a"))

    async def test_nobody_waits_for_ever_when_the_task_is_cancelled(self, moody: Moody) -> None:
        journal = GroupJournal(moody, CODEC)
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            moody.gate = trio.Event()
            ticket = journal.submit(said(stream(1), 0, "a"))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        with pytest.raises(LogUnavailable):
            await ticket.durable()
        with pytest.raises(LogUnavailable):
            journal.submit(said(stream(1), 0, "a"))


class TestAgainstPostgres:
    """The database misbehaves for real. Every append that was acknowledged is in the log once, and in order."""

    async def test_an_answer_that_got_lost_after_the_commit_is_no_conflict(self, dsn: str) -> None:
        async with open_wire(dsn) as wire, open_postgres(wire.dsn) as world:
            await world.journal.append(said(stream(1), 0, "a"))
            wire.cut_after_next(APPEND)
            with trio.fail_after(DEADLINE):
                assert await world.journal.append(said(stream(1), 1, "b", "c")) == 3
            assert wire.lost_answers == 1
            assert texts(await world.log.read(stream(1))) == ["a", "b", "c"]
            assert world.journal.committed.position == (await world.log.tail(after=0, limit=9))[-1].position

    async def test_killed_connections_lose_nothing_that_was_acknowledged(self, dsn: str) -> None:
        acknowledged: list[str] = []
        async with open_postgres(dsn) as world:

            async def write(number: int) -> None:
                for version in range(15):
                    text = f"{number}.{version}"
                    await world.journal.append(said(stream(number), version, text))
                    acknowledged.append(text)

            async def kill() -> None:
                for progress in (10, 40, 70):
                    await until(lambda progress=progress: len(acknowledged) > progress)  # type: ignore[misc]
                    await trio.to_thread.run_sync(kill_connections, dsn)

            with trio.fail_after(DEADLINE):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(kill)
                    for number in range(8):
                        nursery.start_soon(write, number)
            assert len(acknowledged) == 8 * 15
            assert sorted(texts(await world.log.tail(after=0, limit=999))) == sorted(acknowledged)

    async def test_appends_wait_while_the_database_is_away_and_are_written_when_it_is_back(
        self, dsn: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with (
            open_wire(dsn) as wire,
            open_database(wire.dsn) as database,
            running(journal_on(database)) as journal,
        ):
            await journal.append(said(stream(1), 0, "a"))
            wire.cut()
            tickets = [journal.submit(said(stream(1), 1, "b")), journal.submit(said(stream(2), 0, "c"))]
            await until(lambda: "Events wait to be written: the database is away" in caplog.text)
            assert not any(ticket.settled for ticket in tickets)
            wire.mend()
            with trio.fail_after(DEADLINE):
                assert [await ticket.durable() for ticket in tickets] == [2, 1]
        assert query(dsn, "select count(*) from mnemosyne.stored_events") == [(3,)]

    async def test_a_database_that_stops_answering_counts_as_hung_and_loses_nothing(
        self, dsn: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with (
            open_wire(dsn) as wire,
            open_database(wire.dsn) as database,
            running(journal_on(database, commit_deadline=0.3)) as journal,
        ):
            await journal.append(said(stream(1), 0, "a"))
            wire.stall()
            ticket = journal.submit(said(stream(1), 1, "b"))
            await until(lambda: "hung" in caplog.text)
            assert not ticket.settled
            wire.mend()
            with trio.fail_after(DEADLINE):
                assert await ticket.durable() == 2
        assert query(dsn, "select count(*) from mnemosyne.stored_events") == [(2,)]

    async def test_a_lock_that_somebody_holds_delays_appends_and_nothing_more(
        self, dsn: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with open_database(dsn, Timeouts(lock=0.1)) as database, running(journal_on(database)) as journal:
            with psycopg.connect(dsn) as holder:
                holder.execute("lock table mnemosyne.stored_events in exclusive mode")
                ticket = journal.submit(said(stream(1), 0, "a"))
                await until(lambda: "held a lock for too long" in caplog.text)
                assert not ticket.settled
            with trio.fail_after(DEADLINE):
                assert await ticket.durable() == 1

    async def test_two_processes_that_race_for_a_session_agree_on_one_winner_per_version(self, dsn: str) -> None:
        async with open_postgres(dsn) as one, open_postgres(dsn) as other:
            for version in range(10):
                tickets = [
                    world.journal.submit(said(stream(1), version, f"{version} by {name}"))
                    for name, world in (("one", one), ("other", other))
                ]
                results = []
                for ticket in tickets:
                    try:
                        results.append(await ticket.durable())
                    except VersionConflict:
                        results.append(0)
                assert sorted(results) == [0, version + 1]
            assert len(await one.log.read(stream(1))) == 10

    async def test_an_abandoned_commit_leaves_no_thread_and_no_connection_behind(self, dsn: str) -> None:
        async with open_database(dsn) as database:
            with psycopg.connect(dsn) as holder:
                holder.execute("lock table mnemosyne.stored_events in exclusive mode")
                journal = journal_on(database)
                async with trio.open_nursery() as nursery:
                    await nursery.start(journal.run)
                    journal.submit(said(stream(1), 0, "a"))
                    await until(lambda: sessions(dsn) > 1)
                    await journal.close(within=0.05)
            await until(lambda: sessions(dsn) == 0)
        # The server had the whole append, and did not look whether anybody still listened.
        assert query(dsn, "select count(*) from mnemosyne.stored_events") == [(1,)]

    async def test_a_shared_database_serves_journal_and_readers_after_a_restart(self, dsn: str) -> None:
        async with open_database(dsn) as database, open_on(database) as world:
            await world.journal.append(said(stream(1), 0, "a"))
            kill_connections(dsn)
            assert texts(await world.log.read(stream(1))) == ["a"]
            kill_connections(dsn)
            assert await world.journal.append(said(stream(1), 1, "b")) == 2


def journal_on(database: Database, commit_deadline: float = 30) -> GroupJournal:
    """A journal that tries again soon."""
    log = PostgresEventLog(database, CODEC, commit_deadline=commit_deadline)
    return GroupJournal(log, CODEC, JournalLimits(longest_pause=0.1))


def sessions(dsn: str) -> int:
    """How many connections lead to this database, ours aside."""
    ((number,),) = query(
        dsn, "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    )
    return int(number)


def kill_connections(dsn: str) -> None:
    """End every connection to this database, whatever it is doing."""
    query(
        dsn,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()",
    )
