"""The journal: order, conflicts, and outages that lose nothing; with a fake committer, then with PostgreSQL."""

import math
import re
from collections.abc import Sequence

import attrs
import psycopg
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import MEASURED_BYTES, GroupJournal, JournalLimits, WaitingAppends
from mnemosyne.domain.ports import Append
from mnemosyne.errors import LogFailed, LogUnavailable, VersionConflict
from tests.adapters.log_support import (
    APPEND,
    CODEC,
    INLINE,
    PLAIN,
    POSTGRES,
    World,
    content,
    make_append,
    open_database,
    open_postgres,
    open_wire,
    query,
    running,
    stream,
    texts,
    until,
)
from tests.fixtures import CLEANING
from tests.plain.log import PlainLog
from tests.waiting import DEADLINE


@pytest.mark.parametrize("world", [PLAIN, INLINE, POSTGRES], indirect=True)
class TestJournal:
    """The rules of every journal."""

    async def test_a_session_may_submit_the_next_append_before_the_first_is_durable(self, world: World) -> None:
        tickets = [world.journal.submit(make_append(stream(1), version, str(version))) for version in range(20)]
        assert [ticket.version for ticket in tickets] == list(range(1, 21))
        assert [await ticket.durable() for ticket in tickets] == list(range(1, 21))
        assert texts(await world.log.read(stream(1))) == [str(version) for version in range(20)]

    async def test_a_conflict_fails_its_append_and_those_queued_after_it(self, world: World) -> None:
        if isinstance(world.journal, PlainLog):
            pytest.skip("it has no queue")
        await world.journal.append(make_append(stream(1), 0, "theirs", "theirs too"))
        appends = [
            make_append(stream(2), 0, "fine"),
            make_append(stream(1), 1, "conflict"),
            make_append(stream(2), 1, "fine too"),
            # The version fits, but not the event before it.
            make_append(stream(1), 2, "after the conflict"),
            make_append(stream(3), 0, "fine as well"),
        ]
        outcomes = await outcomes_of(world, *appends)
        assert outcomes == [1, VersionConflict, 2, VersionConflict, 1]
        assert texts(await world.log.tail(after=0, limit=99)) == [
            "theirs", "theirs too", "fine", "fine too", "fine as well",
        ]  # fmt: skip

    async def test_a_session_may_append_after_a_conflict(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a"))
        assert await outcomes_of(world, make_append(stream(1), 0, "x")) == [VersionConflict]
        assert await world.journal.append(make_append(stream(1), 1, "b")) == 2

    async def test_a_commit_wakes_waiters_for_progress(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", "b"))
        position = world.journal.committed.position
        assert position == (await world.log.tail(after=0, limit=9))[-1].position
        async with trio.open_nursery() as nursery:
            woken: list[int] = []

            async def wait() -> None:
                woken.append(await world.journal.committed.beyond(position))

            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not woken
            await world.journal.append(make_append(stream(2), 0, "c"))
        assert woken == [(await world.log.tail(after=position, limit=9))[-1].position]

    async def test_a_ticket_may_be_awaited_many_times(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a"))
        good, bad = (
            world.journal.submit(make_append(stream(1), 1, "b")),
            world.journal.submit(make_append(stream(1), 0, "x")),
        )
        for _ in range(3):
            assert await good.durable() == 2
            with pytest.raises(VersionConflict):
                await bad.durable()
        assert (good.settled, bad.settled) == (True, True)


async def outcomes_of(world: World, *appends: object) -> list[object]:
    """Submit all at once; return for each its version, or the class of its error."""
    tickets = [world.journal.submit(append) for append in appends]  # type: ignore[arg-type]
    outcomes: list[object] = []
    for ticket in tickets:
        try:
            outcomes.append(await ticket.durable())
        except LogFailed as error:
            outcomes.append(type(error))
    return outcomes


class FakeCommitter:
    """Commits to plain objects, unless it is away or refuses a text."""

    def __init__(self) -> None:
        self.log = PlainLog(CODEC)
        self.away = False
        self.loses_answer = False
        self.broken = False
        self.refused = b"poison"
        self.batches: list[int] = []
        self.gate = trio.Event()
        self.gate.set()

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        await self.gate.wait()
        self.batches.append(len(batch))
        if self.away:
            raise LogUnavailable("the database is away: it was switched off")
        if self.broken:
            raise ZeroDivisionError
        if any(self.refused in event.state for append in batch for event in append.events):
            raise LogFailed("the database refuses it")
        committed = await self.log.commit(batch)
        if self.loses_answer:
            self.loses_answer = False
            raise LogUnavailable("the database is away: its answer was lost")
        return committed


@pytest.fixture
def committer() -> FakeCommitter:
    return FakeCommitter()


class TestQueue:
    """The journal's own rules, on a mock clock."""

    async def test_appends_that_arrive_during_a_commit_share_the_next_one(self, committer: FakeCommitter) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            committer.gate = trio.Event()
            first = journal.submit(make_append(stream(0), 0, "a"))
            await wait_all_tasks_blocked()
            rest = [journal.submit(make_append(stream(number), 0, "a")) for number in range(1, 65)]
            committer.gate.set()
            for ticket in (first, *rest):
                await ticket.durable()
        assert committer.batches == [1, 64]

    async def test_delayed_append_commits_with_the_next_or_when_awaited_or_after_the_delay(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            began = trio.current_time()
            patient = journal.submit(attrs.evolve(make_append(stream(1), 0, "a"), may_wait=True))
            await wait_all_tasks_blocked()
            waits = not patient.settled
            await journal.append(make_append(stream(2), 0, "b"))
            assert (waits, patient.settled) == (True, True)
            assert trio.current_time() == began
            alone = journal.submit(attrs.evolve(make_append(stream(1), 1, "c"), may_wait=True))
            await trio.sleep(JournalLimits().batch_delay * 0.9)
            waits = not alone.settled
            await trio.sleep(JournalLimits().batch_delay * 0.2)
            assert (waits, alone.settled) == (True, True)
            began = trio.current_time()
            assert await journal.submit(attrs.evolve(make_append(stream(1), 2, "d"), may_wait=True)).durable() == 3
            assert trio.current_time() == began, "it commits at once when awaited"
        assert committer.batches == [2, 1, 1]

    async def test_closing_writes_an_append_that_may_wait_at_once(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            patient = journal.submit(attrs.evolve(make_append(stream(1), 0, "a"), may_wait=True))
            began = trio.current_time()
            await journal.close(within=1)
            assert await patient.durable() == 1
            assert trio.current_time() == began

    async def test_commit_seconds_are_infinite_while_the_database_is_unavailable(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        limits = JournalLimits()
        async with running(GroupJournal(committer, CODEC)) as journal:
            assert journal.commit_seconds == limits.first_commit
            committer.gate = trio.Event()
            slow = journal.submit(make_append(stream(1), 0, "a"))
            await trio.sleep(2)
            assert journal.commit_seconds == limits.first_commit
            await trio.sleep(limits.longest_commit)
            assert journal.commit_seconds == math.inf
            committer.gate.set()
            await slow.durable()
            assert journal.commit_seconds == 2 + limits.longest_commit
            await journal.append(make_append(stream(1), 1, "b"))
            assert journal.commit_seconds == 0
            committer.away = True
            lost = journal.submit(make_append(stream(1), 2, "c"))
            await wait_all_tasks_blocked()
            assert journal.commit_seconds == math.inf
            committer.away = False
            await lost.durable()
            assert journal.commit_seconds == 0

    async def test_a_large_commit_does_not_make_the_database_slow(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            await journal.append(make_append(stream(1), 0, "a"))
            for size, expected in ((MEASURED_BYTES, 0), (1, 2)):
                committer.gate = trio.Event()
                slow = journal.submit(make_append(stream(2), expected // 2, "x" * size))
                await trio.sleep(2)
                committer.gate.set()
                await slow.durable()
                assert journal.commit_seconds == expected

    async def test_commit_seconds_are_infinite_before_the_first_commit_if_the_database_is_known_to_be_away(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        away = [True]
        async with running(GroupJournal(committer, CODEC, is_away=lambda: away[0])) as journal:
            assert journal.commit_seconds == math.inf
            away[0] = False
            assert journal.commit_seconds == JournalLimits().first_commit

    async def test_an_unexpected_error_fails_its_append_and_not_the_journal(self, committer: FakeCommitter) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            committer.broken = True
            with pytest.raises(LogFailed, match="ZeroDivisionError"):
                await journal.append(make_append(stream(1), 0, "a"))
            committer.broken = False
            assert await journal.append(make_append(stream(1), 0, "b")) == 1

    async def test_a_batch_is_limited_in_bytes(self, committer: FakeCommitter) -> None:
        async with running(GroupJournal(committer, CODEC, JournalLimits(batch_bytes=5_000))) as journal:
            big, *small = [
                journal.submit(make_append(stream(number), 0, "x" * size))
                for number, size in enumerate([9_000, 1_000, 1_000])
            ]
            for ticket in (big, *small):
                await ticket.durable()
        assert committer.batches == [1, 2]

    async def test_appends_stay_queued_during_an_outage(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            committer.away = True
            tickets = [journal.submit(make_append(stream(1), version, f"private {version}")) for version in range(3)]
            with trio.move_on_after(0.25) as patience:
                await tickets[0].durable()
            assert patience.cancelled_caught
            await trio.sleep(60)
            assert not any(ticket.settled for ticket in tickets)
            assert caplog.messages == ["Events cannot be written yet: the database is away: it was switched off."]
            committer.away = False
            with trio.fail_after(3):  # the longest pause is 2 seconds
                assert [await ticket.durable() for ticket in tickets] == [1, 2, 3]
            assert "The database is back after 6" in caplog.messages[-1]
        assert len(caplog.messages) == 2
        assert "private" not in caplog.text
        assert len(await committer.log.read(stream(1))) == 3

    async def test_a_retried_commit_is_not_a_conflict(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            committer.loses_answer = True
            tickets = [journal.submit(make_append(stream(1), version, str(version))) for version in range(3)]
            assert [await ticket.durable() for ticket in tickets] == [1, 2, 3]
            assert journal.committed.position == 3
        assert texts(await committer.log.tail(after=0, limit=9)) == ["0", "1", "2"]

    async def test_a_full_queue_refuses_appends_until_it_drains(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        async with running(GroupJournal(committer, CODEC, JournalLimits(pending_bytes=10_000))) as journal:
            committer.away = True
            # An empty queue takes an append of any size; a large one could never be written otherwise.
            first = journal.submit(make_append(stream(1), 0, "x", contents=[content(b"x" * 20_000)]))
            with pytest.raises(LogUnavailable, match="wait to be written"):
                journal.submit(make_append(stream(2), 0, "y"))
            committer.away = False
            await first.durable()
            assert await journal.append(make_append(stream(2), 0, "y")) == 1
        assert texts(await committer.log.tail(after=0, limit=9))[1:] == ["y"]

    async def test_a_refused_append_fails_alone(self, committer: FakeCommitter) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            world = World(journal, committer.log, committer.log)
            outcomes = await outcomes_of(
                world,
                make_append(stream(1), 0, "a"),
                make_append(stream(2), 0, "poison"),
                make_append(stream(2), 1, "after poison"),
                make_append(stream(1), 1, "b"),
            )
            assert outcomes == [1, LogFailed, VersionConflict, 2]
            assert await journal.append(make_append(stream(2), 0, "fresh")) == 1
        assert texts(await committer.log.tail(after=0, limit=9)) == ["a", "b", "fresh"]

    async def test_the_outcome_of_each_append_and_the_queue_are_reported(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock
    ) -> None:
        outcomes: list[tuple[str, int, type[LogFailed] | None]] = []

        def record(append: Append, size: int, seconds: float, error: LogFailed | None) -> None:
            assert 3 <= seconds < 6
            outcomes.append((append.stream.hex[-1], size, None if error is None else type(error)))

        async with running(GroupJournal(committer, CODEC, on_outcome=record)) as journal:
            committer.away = True
            ticket, conflict = (
                journal.submit(make_append(stream(1), 0, "a")),
                journal.submit(make_append(stream(2), 7, "b")),
            )
            await trio.sleep(3)
            assert journal.waiting.appends == 2
            assert journal.waiting.bytes > 2 * ticket.prepared.size
            assert 2 < journal.waiting.seconds < 4
            assert not outcomes
            committer.away = False
            with pytest.raises(VersionConflict):
                await conflict.durable()
            assert journal.waiting == WaitingAppends(0, 0, 0.0)
        assert outcomes == [("1", ticket.prepared.size, None), ("2", ticket.prepared.size, VersionConflict)]

    async def test_an_append_after_a_conflict_fails_even_if_its_version_fits(self, committer: FakeCommitter) -> None:
        async with running(GroupJournal(committer, CODEC)) as journal:
            committer.log.submit(make_append(stream(1), 0, "theirs"))
            committer.gate = trio.Event()
            conflict = journal.submit(make_append(stream(1), 0, "conflict"))
            await wait_all_tasks_blocked()  # it is being committed alone
            on_top = journal.submit(make_append(stream(1), 1, "on top"))
            committer.gate.set()
            for ticket in (conflict, on_top):
                with pytest.raises(VersionConflict):
                    await ticket.durable()
        assert texts(await committer.log.read(stream(1))) == ["theirs"]


class TestTimeLimit:
    """The journal of a command, which must end."""

    @pytest.mark.parametrize("appends", [1, 3])
    async def test_queued_appends_fail_after_the_time_limit(
        self, committer: FakeCommitter, appends: int, autojump_clock: trio.testing.MockClock
    ) -> None:
        committer.away = True
        journal = GroupJournal(committer, CODEC, JournalLimits(give_up=5.0))
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            await trio.sleep(100)
            tickets = [journal.submit(make_append(stream(number), 0, "a")) for number in range(appends)]
            began = trio.current_time()
            for ticket in tickets:
                with pytest.raises(LogUnavailable, match="it was switched off"):
                    await ticket.durable()
            assert 5.0 <= trio.current_time() - began < 10.0
            assert journal.waiting.appends == 0
            committer.away = False
            await journal.submit(make_append(stream(9), 0, "b")).durable()
            nursery.cancel_scope.cancel()


class TestShutdown:
    async def test_closing_during_an_outage_logs_the_unwritten_appends(
        self, committer: FakeCommitter, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with trio.open_nursery() as nursery:
            journal = GroupJournal(committer, CODEC)
            await nursery.start(journal.run)
            committer.away = True
            tickets = [journal.submit(make_append(stream(number), 0, "private")) for number in (1, 2)]
            started = trio.current_time()
            await journal.close(within=3)
            assert trio.current_time() - started == pytest.approx(3)
        for ticket in tickets:
            with pytest.raises(LogUnavailable, match="stopped before"):
                await ticket.durable()
        assert re.match(r"2 appends \([1-9]\d* bytes\) of 2 sessions were not written", caplog.messages[-1])
        assert "private" not in caplog.text

    async def test_a_stopped_journal_fails_queued_and_later_appends(self, committer: FakeCommitter) -> None:
        journal = GroupJournal(committer, CODEC)
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            committer.gate = trio.Event()
            ticket = journal.submit(make_append(stream(1), 0, "a"))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        with pytest.raises(LogUnavailable):
            await ticket.durable()
        with pytest.raises(LogUnavailable):
            journal.submit(make_append(stream(1), 0, "a"))


class TestAgainstPostgres:
    """PostgreSQL fails. Every acknowledged append is in the log once, and in order."""

    async def test_a_lost_answer_to_a_commit_is_not_a_conflict(self, dsn: str) -> None:
        async with open_wire(dsn) as wire, open_postgres(wire.dsn) as world:
            await world.journal.append(make_append(stream(1), 0, "a"))
            wire.cut_after_next(APPEND)
            with trio.fail_after(DEADLINE):
                assert await world.journal.append(make_append(stream(1), 1, "b", "c")) == 3
            assert wire.lost_answers == 1
            assert texts(await world.log.read(stream(1))) == ["a", "b", "c"]
            assert world.journal.committed.position == (await world.log.tail(after=0, limit=9))[-1].position

    async def test_killed_connections_lose_no_acknowledged_append(self, dsn: str) -> None:
        acknowledged: list[str] = []
        async with open_postgres(dsn) as world:

            async def write(number: int) -> None:
                for version in range(15):
                    text = f"{number}.{version}"
                    await world.journal.append(make_append(stream(number), version, text))
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

    async def test_appends_survive_a_database_that_stops_answering(
        self, dsn: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with (
            open_wire(dsn) as wire,
            open_database(wire.dsn) as database,
            running(journal_on(database, commit_deadline=0.3)) as journal,
        ):
            await journal.append(make_append(stream(1), 0, "a"))
            wire.stall()
            ticket = journal.submit(make_append(stream(1), 1, "b"))
            await until(lambda: "hung" in caplog.text)
            assert not ticket.settled
            wire.mend()
            with trio.fail_after(DEADLINE):
                assert await ticket.durable() == 2
        assert query(dsn, "select count(*) from mnemosyne.stored_events") == [(2,)]

    async def test_one_of_two_processes_wins_each_version(self, dsn: str) -> None:
        async with open_postgres(dsn) as one, open_postgres(dsn) as other:
            for version in range(10):
                tickets = [
                    world.journal.submit(make_append(stream(1), version, f"{version} by {name}"))
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

    async def test_an_abandoned_commit_closes_its_connection(self, dsn: str) -> None:
        async with open_database(dsn) as database:
            with psycopg.connect(dsn) as holder:
                holder.execute("lock table mnemosyne.stored_events in exclusive mode")
                journal = journal_on(database)
                async with trio.open_nursery() as nursery:
                    await nursery.start(journal.run)
                    journal.submit(make_append(stream(1), 0, "a"))
                    await until(lambda: sessions(dsn) > 1)
                    await journal.close(within=0.05)
            await until(lambda: sessions(dsn) == 0)
        # The server had received the whole append.
        assert query(dsn, "select count(*) from mnemosyne.stored_events") == [(1,)]


def journal_on(database: Database, commit_deadline: float = 30) -> GroupJournal:
    """A journal with short pauses between retries."""
    log = PostgresEventLog(database, CODEC, commit_deadline=commit_deadline)
    return GroupJournal(log, CODEC, JournalLimits(longest_pause=0.1))


def sessions(dsn: str) -> int:
    """The number of connections to this database, without this one and the one that empties it after the test."""
    ((number,),) = query(
        dsn,
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and application_name <> %s",
        CLEANING,
    )
    return int(number)


def kill_connections(dsn: str) -> None:
    """End every connection to this database."""
    query(
        dsn,
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()",
    )
