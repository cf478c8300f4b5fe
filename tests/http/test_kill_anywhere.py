"""All state is folded: an actor that is lost after any message of a story, before or after its deferred work, leaves
a session that continues with the same decisions and the same bytes.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from mnemosyne.actors.messages import CompleteDeferred
from mnemosyne.actors.session import SessionActor
from mnemosyne.domain.objects.events import ObjectDegraded, ObjectFaulted, ObjectPinned, ObjectRestored
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import BranchModeSet, EpochBegan, RoundFinished
from mnemosyne.domain.tools.cleanup_tags import CLOSING, OPENING
from mnemosyne.errors import ActorStopped
from tests.actors.support import IDENTITY
from tests.http.managing import Json, Stage, open_stage, recall, restore, text, think
from tests.http.test_epochs import SMALL, Clock, answer, edit, read, results_of, run
from tests.profiles import examples, rarely

EVERY = 3
"""Points from one loss of the actor to the next: so many tellings pass all of the story's 120 points."""

Point = int
"""Where an actor may be lost, counted from 1."""


@attrs.define
class Killer:
    """Ends the actor of a session at some points of a story."""

    is_lost_at: Callable[[Point], bool]
    passed: Point = 0
    at_the_end: bool = False

    async def point(self, actor: SessionActor) -> None:
        self.passed += 1
        if not self.at_the_end and self.is_lost_at(self.passed):
            if actor._last is not None:
                await actor._last.durable()
            await wait_all_tasks_blocked()  # the event for this point was already delivered to this actor
            actor.stop()
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def killing(is_lost_at: Callable[[Point], bool]) -> AsyncIterator[Killer]:
    killer, do_owed = Killer(is_lost_at), SessionActor._do_deferred_work

    async def with_points(actor: SessionActor, **options: bool) -> None:
        await killer.point(actor)
        await do_owed(actor, **options)
        await killer.point(actor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionActor, "_do_deferred_work", with_points)
        yield killer


async def play(stage: Stage, clock: Clock) -> None:
    """Files are read until the window is full; the model asks, restores and releases, and the client goes back; this
    exercises everything that is kept outside the log.
    """
    client = stage.client(members={"max_tokens": 1_000, "thinking": {"type": "adaptive"}})
    answer(
        stage, *([think(f"File {number}."), read(f"/src/part_{number}.py")] for number in range(10)), [text("Read.")]
    )
    message = await client.turn(text("Read all parts. We use port 8443 for the server, not 8080."))
    while message["stop_reason"] == "tool_use":
        message = await client.turn(*results_of(message, 150))
    clock.now += 3_600_000_000  # the cache goes cold, which triggers a rewrite
    answer(
        stage,
        [think("I forgot."), recall("which port?")],
        [recall("part_1?")],
        [edit("/src/part_2.py")],
        [text("Done.")],
    )
    message = await client.turn(text("Now change part 2 and go on with the server."))
    while message["stop_reason"] == "tool_use":
        message = await client.turn(*results_of(message, 150))
    gone = [event.object for event in await stage.events_of(ObjectDegraded)]
    tag = f'{OPENING}\nanchor: #{gone[1]} "the server"\n{CLOSING}'
    answer(stage, [think("What was it?"), restore(gone[0])], [text(f"So.\n{tag}"), run("make test")], [text("Fine.")])
    message = await client.turn(text("Look at it once more, then run the tests. This is a new and unrelated task."))
    while message["stop_reason"] == "tool_use":
        message = await client.turn(*results_of(message, 150))
    del client.history[3:]
    answer(stage, [text("Otherwise.")])
    await client.turn(text("No: begin again from there."))
    client.headers = {"x-mnemosyne-mode": "off"}
    answer(stage, [text("As you like.")])
    await client.turn(text("And stop managing."))


@attrs.frozen
class Story:
    """The result of a story: the decisions, the provider's requests, and the number of points."""

    events: list[Json]
    bodies: list[Json]
    points: int


async def play_story(is_lost_at: Callable[[Point], bool]) -> Story:
    clock = Clock()
    async with killing(is_lost_at) as killer, open_stage(window=SMALL, clock=clock, breaks=["R10"]) as stage:
        await play(stage, clock)
        points, killer.at_the_end = killer.passed, True
        await awake(stage)
        await stage.process.journal.close(within=5)
        events = await stage.events()
        bodies = stage.upstream
    return Story([_without_time(event) for event in events], bodies, points)


async def awake(stage: Stage) -> None:
    """Wait until the session is loaded and its deferred work is done."""
    answers = 0
    while answers < 2:
        _, asked = stage.process.registry.ask(IDENTITY, CompleteDeferred())
        with suppress(ActorStopped):  # lost just before the end
            await asked.wait()
            answers += 1


def _without_time(event: Event) -> Json:
    """The event without its time and duration, which differ between runs of a story."""
    fields: dict[str, Any] = attrs.asdict(event, recurse=False)
    left_out = [
        "at",
        "began",
        "latency",
        "first_byte",
        "expected",
        "shadow_entries",
        "wire_entries",
        "deviates",
        "shadow",
        "actual",
    ]
    return {"event": type(event).__name__, **{name: value for name, value in fields.items() if name not in left_out}}


@cache
def whole() -> Story:
    """The story without a loss, played once."""
    return trio.run(play_story, lambda point: False)


def check_same(again: Story) -> None:
    assert again.events == whole().events
    assert again.bodies == whole().bodies


def test_story_exercises_every_kind_of_state() -> None:
    happened = {each["event"] for each in whole().events}
    wanted = (BranchModeSet, EpochBegan, ObjectDegraded, ObjectFaulted, ObjectRestored, ObjectPinned, RoundFinished)
    assert {each.__name__ for each in wanted} <= happened


@pytest.mark.parametrize("first", [0, *rarely(range(1, EVERY))])
def test_losing_the_actor_repeatedly_changes_neither_decisions_nor_bytes(first: int) -> None:
    assert whole().points > EVERY
    check_same(trio.run(play_story, lambda point: point % EVERY == first))


@pytest.mark.release  # the same at one of the points of the test above
@examples(6)
@given(st.data())
def test_losing_the_actor_once_changes_neither_decisions_nor_bytes(data: st.DataObject) -> None:
    at = data.draw(st.integers(1, whole().points))
    check_same(trio.run(play_story, lambda point: point == at))
