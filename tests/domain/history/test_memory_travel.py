"""Memory at a turn is the fold of the events up to it, independent of later events."""

from collections.abc import Sequence

import attrs
import pytest
import trio

from mnemosyne.actors.messages import CompleteDeferred
from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.manifest import know_request
from mnemosyne.domain.history.memory_travel import history_of, snapshot
from mnemosyne.domain.objects.events import ObjectCreated, ObjectPinned, TurnAssessed
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.errors import NotFound
from tests.replay.recordings import played, session, streams
from tests.replay.session_tapes import tape_of
from tests.services.talking import body, rich_session, talking, user


def recorded(turns: int = 6) -> Sequence[Recorded[Event]]:
    log, _ = played(tape_of(session(turns=turns)))
    (stream,) = streams(log)
    return trio.run(log.read, stream)


def test_a_turn_is_the_same_whatever_was_recorded_after_it() -> None:
    events = recorded()
    ends = [number for number, each in enumerate(events, 1) if isinstance(each.envelope.event, TurnAssessed)]
    for turn, end in enumerate(ends, 1):
        then, later = snapshot(events[:end], "main", turn), snapshot(events, "main", turn)
        assert (then.session, then.happened) == (later.session, later.happened)
        assert (then.assessed, then.counted) == (later.assessed, None)  # counted after its reply
        assert then.turn == turn


def test_the_events_of_a_turn_create_exactly_the_new_objects() -> None:
    events = recorded()
    for turn in range(1, snapshot(events, "main").turn + 1):
        found = snapshot(events, "main", turn)
        made = {event.object for event in found.happened if isinstance(event, ObjectCreated)}
        assert made == found.memory.objects.keys() - found.before.objects.keys()


def test_without_a_turn_the_snapshot_includes_all_events() -> None:
    events = list(recorded())
    (pinned, *_) = snapshot(events, "main").memory.objects
    event = ObjectPinned(at=1, object=pinned, reason="r", until_turn=None)
    events.append(Recorded(events[0].stream, len(events) + 1, len(events) + 1, Envelope(event, "c", "Pin")))
    now, then = snapshot(events, "main"), snapshot(events, "main", snapshot(events, "main").turn)
    assert now.memory.objects[pinned].pin is not None
    assert then.memory.objects[pinned].pin is None
    assert [type(change.event) for change in history_of(events, pinned)][-1] is ObjectPinned
    assert {each.id: why for each, why in now.list_kept()}[pinned] == "pinned"


async def test_a_pause_adds_objects_to_a_turn_and_changes_nothing_else_of_it() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Where is the bug? " * 200)]))
        await talk.ask(
            body([user("Where is the bug? " * 200), {"role": "assistant", "content": "Here."}, user("Fix.")])
        )
        await talk.actor.mailbox.post(CompleteDeferred()).wait()
        before = await talk.archive.log.read(talk.stream)
        await talk.actor.mailbox.post(CompleteDeferred(closes=True)).wait()
        after = await talk.archive.log.read(talk.stream)
    old, new = snapshot(before, "main", 2), snapshot(after, "main", 2)
    assert (new.before, new.anchor, new.last_tokens) == (old.before, old.anchor, old.last_tokens)
    assert attrs.evolve(new.assessed, open_from=old.assessed.open_from) == old.assessed
    assert new.since_rewritten == old.since_rewritten
    added = new.memory.objects.keys() - old.memory.objects.keys()
    assert [each.stub for each in map(new.memory.objects.__getitem__, added)] == ["User: Fix."]
    assert [event.object for event in new.happened] == [*(event.object for event in old.happened), *added]
    attempt = time_travel.history_of(str(talk.stream), after).turn("main", 2)[-1]
    assert added <= know_request(after, attempt).pages.keys()


async def test_an_inherited_turn_is_the_parents() -> None:
    async with talking() as talk:
        await rich_session(talk)
    events = await talk.archive.log.read(talk.stream)
    assert snapshot(events, "fork-1", 1).branch == "main"
    assert snapshot(events, "fork-1").branch == "fork-1"


@pytest.mark.parametrize(
    ("branch", "turn", "said"),
    [("main", 99, "the branch has memory of turns 1 to 6"), ("elsewhere", None, "branches with memory: main")],
)
def test_an_error_names_the_turns_and_branches_with_memory(branch: str, turn: int | None, said: str) -> None:
    with pytest.raises(NotFound, match=said):
        snapshot(recorded(), branch, turn)
