"""The preview of an observed conversation is the rewrite that the same managed conversation gets."""

from collections.abc import Sequence
from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.history.memory_travel import MemorySnapshot, snapshot
from mnemosyne.domain.history.rewrite_preview import PlannedRewrite
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.window.planning import NoRewrite
from mnemosyne.services import windows
from mnemosyne.services.forgetting import forget
from tests.http.test_epochs import LARGE, MINUTES, SMALL, Clock, explore, open_work, reads
from tests.services.talking import Plain, body, talking, user


@attrs.frozen
class Session:
    archive: Plain
    stream: UUID
    recorded: Sequence[Recorded[Event]]

    def snapshot(self, turn: int | None = None) -> MemorySnapshot:
        return snapshot(self.recorded, "main", turn)

    async def planned_rewrite(
        self, now: int, turn: int | None = None, window: int | None = None
    ) -> PlannedRewrite | NoRewrite | None:
        return await windows.preview(
            self.archive, self.stream, self.recorded, self.snapshot(turn), now, ServerSettings(window=window)
        )

    def epochs(self) -> list[EpochBegan]:
        return [each.envelope.event for each in self.recorded if isinstance(each.envelope.event, EpochBegan)]

    def degraded(self, began: EpochBegan) -> list[ObjectDegraded]:
        events = [each.envelope.event for each in self.recorded]
        return [each for each in events if isinstance(each, ObjectDegraded) and each.turn == began.turn]

    def sources(self, changes: Sequence[ObjectDegraded]) -> set[tuple[str | None, str]]:
        """The sources of the degraded objects, with their new fidelities."""
        objects = self.snapshot().memory.objects
        return {(objects[each.object].source_key, each.after.label) for each in changes}


async def played(
    mode: Mode, turns: int, *, idle: int = 0, more: int = 0, window: int | None = None, size: int = 300
) -> Session:
    """An agent that reads ``turns`` files of ``size`` lines and edits some, pauses ``idle`` µs, and reads ``more``."""
    clock = Clock()
    async with open_work(mode=mode, window=window, clock=clock) as (stage, client):
        message = await explore(client, stage, turns, size=size)
        clock.now += idle
        await reads(client, stage, message, more, first=turns, size=size)
    (stream,) = await stage.log.streams()
    return Session(Plain(stage.log), stream, await stage.log.read(stream))


async def test_preview_after_a_break_is_the_managed_session_s_rewrite() -> None:
    observed = await played(Mode.OBSERVE, 12, size=600)
    managed = await played(Mode.MANAGE, 12, idle=60 * MINUTES, more=1, size=600)
    (began,) = managed.epochs()
    planned_rewrite = await observed.planned_rewrite(observed.snapshot().began.at + 60 * MINUTES)
    assert isinstance(planned_rewrite, PlannedRewrite)
    assert (planned_rewrite.began.reason, planned_rewrite.began.turn) == (began.reason, began.turn)
    assert (planned_rewrite.began.price, planned_rewrite.began.hour) == (began.price, began.hour)
    # The next request is unknown: its last round protects one more object from eviction.
    expected = observed.sources(planned_rewrite.changes)
    assert len(expected) == len(planned_rewrite.changes) > 2
    assert expected <= managed.sources(managed.degraded(began))
    assert all(planned_rewrite.freed[each.object] > 0 for each in planned_rewrite.changes)
    assert sum(planned_rewrite.freed.values()) <= planned_rewrite.began.freed


@pytest.mark.release
async def test_preview_of_an_overflow_is_at_the_managed_session_s_turn() -> None:
    observed, managed = await played(Mode.OBSERVE, 12), await played(Mode.MANAGE, 12, window=SMALL)
    began = managed.epochs()[0]
    found = [await observed.planned_rewrite(0, turn, SMALL) for turn in range(1, 12)]
    first = next(each for each in found if isinstance(each, PlannedRewrite))
    assert first.began.turn in (began.turn, began.turn + 1)  # the preview lacks the next request's new content
    assert first.began.reason == began.reason == "the window overflows"


@pytest.mark.release
async def test_preview_of_a_past_turn_uses_the_next_request_s_time() -> None:
    observed = await played(Mode.OBSERVE, 8, idle=60 * MINUTES, more=2, size=LARGE)
    found = [await observed.planned_rewrite(0, turn) for turn in (7, 8)]
    assert isinstance(found[0], NoRewrite)
    assert isinstance(found[1], PlannedRewrite)
    assert found[1].began.reason == "the provider's cache has forgotten the session"


async def test_a_preview_changes_nothing_and_a_managed_branch_has_none() -> None:
    observed = await played(Mode.OBSERVE, 5)
    at = observed.snapshot().began.at + 60 * MINUTES
    assert await observed.planned_rewrite(at) == await observed.planned_rewrite(at)
    assert await observed.archive.log.read(observed.stream) == observed.recorded
    assert observed.snapshot().session.branches["main"].wire is None
    assert await (await played(Mode.MANAGE, 3)).planned_rewrite(0) is None


@pytest.mark.parametrize(
    ("members", "forgotten", "why"),
    [
        ({}, False, "nothing is old enough"),
        ({}, True, "its content was erased"),
        ({"container": "container_1"}, False, "the provider holds a part of it"),
    ],
)
async def test_preview_without_a_rewrite_has_a_reason(members: dict[str, str], forgotten: bool, why: str) -> None:
    async with talking() as talk:
        await talk.ask(body([user("Where is the bug? " * 30)], **members))
    recorded = await talk.archive.log.read(talk.stream)
    if forgotten:
        await forget(talk.archive, talk.stream, lambda: 7, "c")
    found = await Session(talk.archive, talk.stream, recorded).planned_rewrite(10**15)
    assert found == NoRewrite(why)
