"""Rounds that the proxy sends while the database hangs and another process writes to their session: every sent
request is recorded or reported as missing.
"""

from collections.abc import Sequence

import attrs
import pytest
import trio

from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalTicket
from mnemosyne.domain.ports import Append
from mnemosyne.domain.recall.memory_results import NOT_NOW
from mnemosyne.domain.session.events import Event, GapRecorded, TurnBegan, TurnFinished
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import FallbackSent, RoundFinished
from mnemosyne.errors import LogUnavailable
from tests.actors.support import CODEC, PATIENT, StoppableLog
from tests.http.managing import (
    Client,
    Json,
    Stage,
    bare_stage,
    model_says,
    open_stage,
    open_talk,
    release_call,
    text,
    think,
)
from tests.waiting import until

LOOP = {
    "replies": [model_says(think("Hm."), text("Let me see."), release_call()), model_says(think("So."), text("Here."))]
}
HURRIED = attrs.evolve(PATIENT, database=0.1)


class HangingLog(StoppableLog):
    """A log that hangs from a given event on, when switched on."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs_at: type[Event] | None = None

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        events = [CODEC.decode(stored.topic, stored.state).event for each in batch for stored in each.events]
        if self.hangs_at is not None and any(isinstance(event, self.hangs_at) for event in events):
            self.hangs_at = None
            self.hang()
        return await super().commit(batch)


async def turn_through(stage: Stage, log: HangingLog, client: Client, *, at: type[Event], on: bool, left: int) -> Json:
    """A turn during which the log hangs after an event until this many requests were sent and another process wrote."""
    message: Json = {}

    async def turn() -> None:
        message.update(await client.turn(text("Where?")))

    before, stream = len(stage.standin.messages), None
    if client.history:
        stream = await stage.stream()
    log.hangs_at = at
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turn)
        await until(lambda: len(stage.standin.messages) == before + left)
        await stage.switch(on=on, stream=stream or await stage.stream())
        log.flowing.set()
    return message


async def finished_rounds(stage: Stage) -> list[tuple[int, int, str | None]]:
    return [(each.turn, each.round, each.stop_reason) for each in await stage.events_until(RoundFinished)]


async def test_sent_hidden_round_and_its_reply_are_recorded() -> None:
    log = HangingLog()
    async with open_talk(LOOP, log=log, patience=HURRIED) as (stage, client):
        message = await turn_through(stage, log, client, at=RoundFinished, on=False, left=2)
        assert message["content"][-1] == text("Here.")
        await stage.events_until(TurnFinished)
        assert await finished_rounds(stage) == [(1, 1, "tool_use"), (1, 2, "end_turn")]
        assert [(each.turn, each.round) for each in await stage.rounds()] == [(1, 1), (1, 2)]


async def test_timely_answer_is_sent_however_long_its_record_takes() -> None:
    log = HangingLog()
    hurried = attrs.evolve(PATIENT, answers=0.5, database=0.6)
    async with open_stage(LOOP, log=log, patience=hurried) as stage:
        message = await turn_through(stage, log, stage.client(), at=RoundFinished, on=True, left=2)
        assert message["content"][-1] == text("Here.")
        assert [len(body["messages"]) for body in stage.upstream] == [1, 3]
        await stage.events_until(TurnFinished)
        assert [(each.turn, each.round) for each in await stage.rounds()] == [(1, 1), (1, 2)]


async def test_turn_sent_before_its_proposal_was_outdated_is_recorded_with_all_rounds() -> None:
    log = HangingLog()
    async with open_talk(LOOP, log=log, patience=HURRIED) as (stage, client):
        await client.turn(text("And before?"))
        await stage.events_until(TurnAccounted)
        await turn_through(stage, log, client, at=TurnBegan, on=True, left=1)
        await stage.events_until(TurnFinished, 2)
        assert [(each.turn, each.round) for each in await stage.rounds()] == [(1, 1), (1, 2), (2, 1), (2, 2)]
        assert not any(isinstance(each, FallbackSent) for each in await stage.events())


async def test_hidden_rounds_of_a_turn_lost_to_another_process_are_a_gap() -> None:
    log = HangingLog()
    async with bare_stage(LOOP, log=log, patience=HURRIED) as stage:
        client = stage.client()
        await client.turn(text("And before?"))
        await stage.events_until(TurnAccounted)
        await turn_through(stage, log, client, at=TurnBegan, on=False, left=1)
        await stage.events_until(TurnFinished, 2)
        assert [event.turn for event in await stage.events_until(FallbackSent)] == [2]
        await client.turn(text("And then?"))
        assert [event.turns for event in await stage.events_until(GapRecorded)] == [1]


async def test_event_that_could_not_be_queued_does_not_change_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    submit, full = GroupJournal.submit, [True]

    def full_once(journal: GroupJournal, append: Append) -> JournalTicket:
        if full and any(isinstance(each.event, RoundFinished) for each in append.envelopes):
            full.pop()
            raise LogUnavailable("the queue is full")
        return submit(journal, append)

    monkeypatch.setattr(GroupJournal, "submit", full_once)
    async with open_talk(LOOP) as (stage, client):
        assert (await client.turn(text("Where?")))["content"][-1] == text("Here.")
        assert NOT_NOW in str(stage.upstream[1])
        await stage.events_until(TurnFinished)
        assert await finished_rounds(stage) == [(1, 1, "tool_use"), (1, 2, "end_turn")]
        assert [(each.turn, each.round) for each in await stage.rounds()] == [(1, 1), (1, 2)]
