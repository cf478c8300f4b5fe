"""A turn waits for its record for a limited time, and no queued event is lost."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.session.events import Event, GapRecorded, SessionStarted, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import LogFailed
from tests.actors.support import (
    CODEC,
    LONG,
    OK,
    STREAM,
    Process,
    StoppableLog,
    events_of,
    of_turns,
    open_process,
    rebuilt,
    reply,
    turns,
)

SCHEDULES = [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 20))]
"""Each seed is another order in which trio schedules concurrent tasks."""


async def test_request_is_recorded_only_once_it_is_sent_or_its_turn_ends(log: StoppableLog) -> None:
    async with open_process(log) as process:
        turn = process.opener.open_turn((("x-mnemosyne-session", "s"),), b"{}", MESSAGES)
        await trio.testing.wait_all_tasks_blocked()
        assert process.registry.awake == 0
        await turn.note_interrupted(None, None, "no connection")
    interrupted = of_turns(await events_of(log))[-1]
    assert isinstance(interrupted, TurnInterrupted)
    assert (interrupted.status, interrupted.reply, interrupted.reason) == (None, None, "no connection")


async def test_a_turn_waits_a_quarter_of_a_second_and_is_durable_later(
    log: StoppableLog, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_process(log, patience=USUAL) as process:
        log.hang()
        turn = process.open("u1")
        for wait in (turn.note_begun(), turn.note_finished(OK, reply("a1"))):
            before = trio.current_time()
            await wait
            assert trio.current_time() - before == pytest.approx(USUAL.database)
        second = process.open("u1", "a1", "u2")
        await second.note_begun()
        assert await events_of(log) == []
        log.flowing.set()
        await second.note_finished(OK, reply("a2"))
    events = await events_of(log)
    assert turns(events) == ["main 1", "main 2"]
    assert sum(isinstance(event, TurnFinished) for event in events) == 2
    assert not any(isinstance(event, GapRecorded) for event in events)
    assert "takes longer than 0.25 s" in caplog.text
    await rebuilt(log, log)


async def test_unloadable_session_delays_no_turn_and_loses_nothing(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log, patience=USUAL) as process:
        log.away = True
        turn = process.open("u1")
        await turn.note_begun()
        await turn.note_finished(OK, reply("a1"))
        assert trio.current_time() == pytest.approx(2 * USUAL.database)
        await trio.sleep(3600)
        log.away = False
    assert [type(event) for event in of_turns(await events_of(log))][-2:] == [TurnBegan, TurnFinished]


async def test_turn_beyond_the_queue_is_a_gap_in_the_next_turn(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log, GroupJournal(log, CODEC, JournalLimits(pending_bytes=5000))) as process:
        log.hang()
        await process.turn("u1", answer="a1")
        for _ in range(3):
            await process.turn("u1", "a1", LONG * 5)
        log.flowing.set()
        await trio.testing.wait_all_tasks_blocked()
        await process.turn("u1", "a1", "u2", "a2", "u3")
        await process.turn("u1", "a1", "u2", "a2", "u3", "a3", "u4")
        assert process.registry.turns_lost == 3
    events = await events_of(log)
    (gap,) = (event for event in events if isinstance(event, GapRecorded))
    assert gap.turns == 3
    assert "bytes wait to be written" in gap.reason
    assert isinstance(events[0], SessionStarted)
    assert turns(events) == ["main 1", "main 2", "main 3"]
    await rebuilt(log, log)


async def test_gap_survives_a_full_mailbox(log: StoppableLog, autojump_clock: trio.testing.MockClock) -> None:
    async with open_process(log) as process:
        log.away = True
        for number in range(66):
            process.open(f"u{number}")
        await trio.sleep(1)  # 64 wait, and 2 are a gap by now
        process.open("one more")
        await trio.sleep(1)
        log.away = False
        await trio.sleep(5)
        await process.turn("the last")
    gaps = [event for event in await events_of(log) if isinstance(event, GapRecorded)]
    assert [gap.turns for gap in gaps] == [3]


async def test_turn_that_crashes_the_actor_is_a_gap_and_the_session_continues(
    log: StoppableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = SessionActor._begin

    async def poisoned(actor: SessionActor, message: Any) -> Any:
        if b"poison" in message.request.raw:
            raise ZeroDivisionError
        return await begin(actor, message)

    monkeypatch.setattr(SessionActor, "_begin", poisoned)
    async with open_process(log) as process:
        await process.turn("u1")
        await process.turn("poison")
        await process.turn("u1", "ok", "u2")
    events = await events_of(log)
    assert turns(events) == ["main 1", "main 2"]
    assert [event.turns for event in events if isinstance(event, GapRecorded)] == [1]


async def test_a_bug_in_recording_never_reaches_the_server(log: StoppableLog, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_process(log) as process:
        turn = process.open("u1")
        await turn.note_begun()

        def broken(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(process.registry, "ask", broken)
        await turn.note_finished(OK, reply("a1"))
        await process.turn("u1", "a1", "u2")
    assert turns(await events_of(log)) == ["main 1"]


class RefusingLog(StoppableLog):
    """A log that once refuses an append with such an event."""

    def __init__(self, kind: type[Event]) -> None:
        super().__init__()
        self.refuses: type[Event] | None = kind

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        events = [CODEC.decode(stored.topic, stored.state).event for each in batch for stored in each.events]
        if self.refuses is not None and any(isinstance(event, self.refuses) for event in events):
            if len(batch) == 1:  # otherwise the journal tries them one by one
                self.refuses = None
            raise LogFailed("the database refused a statement")
        return await super().commit(batch)


@pytest.mark.parametrize("kind", [ObjectCreated, TurnAccounted, TurnBegan, TurnFinished])
async def test_refused_append_does_not_affect_later_turns(
    kind: type[Event], autojump_clock: trio.testing.MockClock
) -> None:
    log = RefusingLog(kind)
    async with open_process(log) as process:
        history = ["u1"]
        for turn in range(4):
            await process.turn(*history, answer=f"a{turn}")
            history += [f"a{turn}", f"u{turn}"]
            await trio.testing.wait_all_tasks_blocked()
    assert log.refuses is None
    events = await events_of(log)
    lost = int(kind is TurnBegan)
    assert turns(events) == [f"main {turn}" for turn in range(1, 5 - lost)]
    assert [event.turns for event in events if isinstance(event, GapRecorded)] == [1] * lost
    assert sum(isinstance(event, TurnFinished) for event in events) == 4 - int(kind in (TurnBegan, TurnFinished))
    await rebuilt(log, log)


async def converse(process: Process, opening: str, agent: str | None) -> None:
    history = [opening]
    for turn in range(3):
        await process.turn(*history, agent=agent, answer=f"{opening} says {turn}")
        history += [f"{opening} says {turn}", "go on"]


@pytest.mark.parametrize("schedule", SCHEDULES)
async def test_two_processes_that_share_a_session_lose_nothing_and_record_no_gap(
    log: StoppableLog, schedule: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log) as one, open_process(log) as two:
        history = ["u1"]
        for turn in range(6):
            await (one, two)[turn % 2].turn(*history, answer=f"a{turn}")
            history += [f"a{turn}", f"u{turn}"]
        async with trio.open_nursery() as agents:  # and both at once
            agents.start_soon(converse, one, "x", "x")
            agents.start_soon(converse, two, "y", "y")
    events = await events_of(log)
    began = [event for event in events if isinstance(event, TurnBegan)]
    # An attempt may be reported twice if a process died between its append and the answer; not here.
    assert sorted(turns(events)) == sorted(
        [f"main {turn}" for turn in range(1, 7)] + [f"agent-{n} {turn}" for n in (1, 2) for turn in (1, 2, 3)]
    )
    assert [event.echo.value for event in began if event.branch == "main" and event.echo] == ["same"] * 5
    assert sum(isinstance(event, TurnFinished) for event in events) == len(began) == 12
    assert not any(isinstance(event, GapRecorded) for event in events)
    await rebuilt(log, log)


async def test_endless_conflict_is_a_gap(
    log: StoppableLog, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log) as process:
        original = SessionActor._load

        async def blind(actor: SessionActor) -> None:
            """A log that hides its last events, as if another process kept writing."""

        await process.turn("u1")
        process.registry.discard(STREAM, process.registry._awake[STREAM].actor)
        monkeypatch.setattr(SessionActor, "_load", blind)
        await process.turn("u1", "ok", "u2")
        await trio.sleep(10)
        monkeypatch.setattr(SessionActor, "_load", original)
        await process.turn("u1", "ok", "u2")
    events = await events_of(log)
    assert [event.turns for event in events if isinstance(event, GapRecorded)] == [1]
    assert turns(events) == ["main 1", "main 2"]


async def test_end_of_an_unrecorded_turn_is_not_awaited(
    log: StoppableLog, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_process(log) as process:
        await process.journal.close(within=0)
        turn = process.open("u1")
        await turn.note_begun()
        await turn.note_finished(OK, reply("a1"))
        assert trio.current_time() == 0
    assert await events_of(log) == []
