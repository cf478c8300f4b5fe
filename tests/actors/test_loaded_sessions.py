"""A helper model's summary is recorded once its session reports so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import attrs
import pytest

from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.messages import CompleteDeferred, HelperDone
from mnemosyne.domain.helper.background import Effect
from mnemosyne.domain.helper.facts import FACTS
from mnemosyne.domain.objects.decide import Summarize
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.work import DeferredSummary, missing_of
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.decide import ForgetSession, decide
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.redaction import redact
from mnemosyne.domain.session.state import Session, evolve_all
from mnemosyne.errors import ActorStopped, VersionConflict
from tests.actors.summaries import long_text, summaries, worked
from tests.actors.support import IDENTITY, STREAM, Process, StoppableLog, events_of, open_process


@asynccontextmanager
async def talked(log: StoppableLog) -> AsyncIterator[tuple[Process, LoadedSessions]]:
    """A process with one session of one long text, and a worker's view of it."""
    async with open_process(log) as process:
        await process.turn(long_text("alpha"))
        yield process, LoadedSessions(process.registry)


async def one_deferred(process: Process) -> DeferredSummary:
    actor, asked = process.registry.ask(IDENTITY, CompleteDeferred())
    await asked.wait()
    known = actor.state.memory
    return next(deferred for each in known.objects.values() if (deferred := missing_of(each, known)) is not None)


def made(deferred: DeferredSummary, text: bytes = b"It is about alpha.") -> HelperDone:
    command = Summarize(
        at=3,
        object=deferred.object,
        fidelity=deferred.fidelity,
        text=sha256(text).digest(),
        size=len(text),
        tokens=5,
        helper="test",
        losses=Losses(),
        nanodollars=0,
    )
    effect = Effect(commands=(command,), contents=((command.text, text),))
    return HelperDone(work=worked(deferred.object), effect=effect, correlation_id="c")


async def test_work_is_recorded_each_time_and_its_summary_once(log: StoppableLog) -> None:
    async with talked(log) as (process, sessions):
        done = made(await one_deferred(process))
        assert await sessions.tell(IDENTITY, done)
        assert [each.object for each in await summaries(log)] == [done.work.subject]
        assert await sessions.tell(IDENTITY, done)
        assert len(await summaries(log)) == 1
        assert [event.nanodollars for event in await events_of(log) if isinstance(event, HelperWorked)] == [5, 5]


async def test_actor_that_conflicts_with_the_log_is_replaced(log: StoppableLog) -> None:
    async with talked(log) as (process, sessions), open_process(log) as other:
        deferred = await one_deferred(process)
        await other.turn(long_text("alpha"), "ok", "u2")
        assert await LoadedSessions(other.registry).tell(IDENTITY, made(deferred))
        with pytest.raises(VersionConflict):
            await sessions.tell(IDENTITY, made(deferred, b"Another text about alpha."))
        assert process.registry.awake == 0
        with pytest.raises(ActorStopped):
            await sessions.tell(IDENTITY, made(deferred))
        await process.turn(long_text("alpha"), "ok", "u2", "ok", "u3")
        assert await sessions.tell(IDENTITY, made(deferred, b"Another text about alpha."))
        assert len(await summaries(log)) == 1


async def test_work_on_content_that_was_forgotten_meanwhile_is_not_recorded(log: StoppableLog) -> None:
    async with talked(log) as (process, sessions):
        done = made(await one_deferred(process))
        state = evolve_all(Session(), await events_of(log))
        (forgotten,) = decide(ForgetSession(at=5), state)
        await log.append(Append(STREAM, state.version, (Envelope(forgotten, "c"),)))
        await log.forget(STREAM, redact)
        await process.turn("Another text.")
        assert not await sessions.tell(IDENTITY, done)
    assert [event for event in await events_of(log) if isinstance(event, HelperWorked)] == []


async def test_facts_that_waited_for_the_budget_are_recorded_after_their_session_was_unloaded(
    log: StoppableLog,
) -> None:
    async with talked(log) as (process, _):
        await one_deferred(process)
    work = attrs.evolve(worked("main 1 0"), task=FACTS)
    async with open_process(log) as process:
        done = HelperDone(work=work, effect=Effect(), correlation_id="c")
        assert await LoadedSessions(process.registry).tell(IDENTITY, done)
    assert [each.task for each in await events_of(log) if isinstance(each, HelperWorked)] == [FACTS]
