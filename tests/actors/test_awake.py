"""A curator is told which sessions changed, and what it makes is on record once its session says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest
import trio

from mnemosyne.actors.awake import AwakeSessions
from mnemosyne.actors.messages import SummaryMade
from mnemosyne.actors.registry import IDLE_SECONDS, PAUSE_SECONDS, SWEEP_SECONDS
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.work import OwedSummary
from mnemosyne.errors import ActorStopped, VersionConflict
from tests.actors.curating import long_text, summaries
from tests.actors.support import IDENTITY, Process, StoppableLog, open_process
from tests.waiting import DEADLINE


@asynccontextmanager
async def talked(log: StoppableLog) -> AsyncIterator[tuple[Process, AwakeSessions]]:
    """A process with one session of one long text, and what a curator sees of it."""
    async with open_process(log) as process:
        await process.turn(long_text("alpha"))
        yield process, AwakeSessions(process.registry)


async def one_owed(sessions: AwakeSessions) -> OwedSummary:
    (owed,) = await sessions.due(IDENTITY, 1, frozenset())
    return owed


def made(owed: OwedSummary, text: bytes = b"It is about alpha.") -> SummaryMade:
    command = Summarize(
        at=3,
        object=owed.object,
        fidelity=owed.fidelity,
        text=sha256(text).digest(),
        size=len(text),
        tokens=5,
        helper="test",
        losses=Losses(),
        nanodollars=0,
    )
    return SummaryMade(command=command, data=text, correlation_id="c")


async def test_a_session_that_changed_is_named_once_and_each_one_again_where_that_is_asked_for() -> None:
    async with talked(StoppableLog()) as (_, sessions):
        assert await sessions.wait_for_change() == IDENTITY
        with trio.move_on_after(0) as scope:
            await sessions.wait_for_change()
        assert scope.cancelled_caught
        sessions.again()
        with trio.fail_after(DEADLINE):
            assert await sessions.wait_for_change() == IDENTITY


async def test_what_was_given_up_is_not_named_again() -> None:
    async with talked(StoppableLog()) as (_, sessions):
        owed = await one_owed(sessions)
        assert owed.target not in [each.target for each in await sessions.due(IDENTITY, 10, {owed.target})]


async def test_a_summary_is_on_record_when_that_is_said_and_the_same_once_more_is_none() -> None:
    log = StoppableLog()
    async with talked(log) as (_, sessions):
        summary = made(await one_owed(sessions))
        assert await sessions.tell(IDENTITY, summary)
        assert [each.object for each in await summaries(log)] == [summary.command.object]
        assert not await sessions.tell(IDENTITY, summary)
        assert len(await summaries(log)) == 1


async def test_what_is_owed_is_named_when_its_contents_are_there() -> None:
    log = StoppableLog()
    async with open_process(log) as process:
        log.hang()
        turn = process.open(long_text("alpha"))
        sessions = AwakeSessions(process.registry)
        with trio.move_on_after(0.02) as waiting:
            await turn.note_begun()
        with trio.move_on_after(0.02) as waiting:
            await sessions.due(IDENTITY, 1, frozenset())
        assert waiting.cancelled_caught
        log.flowing.set()
        owed = await one_owed(sessions)
        assert owed.content


async def test_what_is_owed_keeps_no_session_awake_and_is_named_again_when_somebody_talks_to_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with talked(StoppableLog()) as (process, sessions):
        owed = await one_owed(sessions)
        for _ in range(IDLE_SECONDS // PAUSE_SECONDS):
            await trio.sleep(PAUSE_SECONDS)
            assert await one_owed(sessions) == owed
        await trio.sleep(2 * SWEEP_SECONDS)
        assert process.registry.awake == 0
        assert await sessions.due(IDENTITY, 1, frozenset()) == ()
        assert process.registry.awake == 0
        await process.turn(long_text("alpha"), "ok", "u2")
        assert await one_owed(sessions) == owed


async def test_an_actor_whose_state_is_not_the_logs_is_let_go_of_and_the_next_one_knows_better() -> None:
    log = StoppableLog()
    async with talked(log) as (process, sessions), open_process(log) as other:
        owed = await one_owed(sessions)
        await other.turn(long_text("alpha"), "ok", "u2")
        assert await AwakeSessions(other.registry).tell(IDENTITY, made(owed))
        with pytest.raises(VersionConflict):
            await sessions.tell(IDENTITY, made(owed, b"Another text about alpha."))
        assert process.registry.awake == 0
        with pytest.raises(ActorStopped):
            await sessions.tell(IDENTITY, made(owed))
        await process.turn(long_text("alpha"), "ok", "u2", "ok", "u3")
        assert not await sessions.tell(IDENTITY, made(owed, b"Another text about alpha."))
        assert len(await summaries(log)) == 1
