"""Each event has one actor by its kind and its command, and changes are chosen by time, actor and branch."""

from typing import Any

import attrs
import pytest

from mnemosyne.domain.history.change_actors import Actor, ChosenChanges, actor_of
from mnemosyne.domain.objects.events import ObjectCreated, ObjectDegraded, ObjectEvent
from mnemosyne.domain.objects.fidelity import Cause
from mnemosyne.domain.objects.kinds import NOTE, ObjectKind, Role
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import CLIENT_LEFT, EVENT_NAMES, Event, GapRecorded
from tests.actors.support import STREAM
from tests.domain import session_events
from tests.domain.remembered import about, made
from tests.golden.sessions import golden_event


def recorded(event: Event, cause: str | None = None) -> Recorded[Event]:
    return Recorded(STREAM, 1, 1, Envelope(event, "c", cause))


def event_of(name: str) -> ObjectEvent:
    return next(each for each in about("a") if type(each).__name__ == name)


def test_every_stored_event_has_an_actor() -> None:
    actors = {actor_of(recorded(golden_event(name).event)) for name in EVENT_NAMES}
    assert actors == set(Actor)
    for name in ("session.trashed.v1", "session.edited.v2"):
        assert actor_of(recorded(golden_event(name).event)) is Actor.USER


@pytest.mark.parametrize(
    ("name", "cause", "actor"),
    [
        ("ObjectPinned", "Pin", Actor.USER),
        ("ObjectPinned", "Finish", Actor.MODEL),
        ("ObjectReleased", "Release", Actor.USER),
        ("ObjectReleased", "AnswerCalls", Actor.MODEL),
        ("ObjectSummarized", "HelperDone", Actor.HELPER),
        ("ObjectSummarized", "ObeyTags", Actor.MODEL),
        ("ObjectSummarized", "Begin", Actor.PLANNER),
        ("ObjectDegraded", "Begin", Actor.PLANNER),
        ("ObjectRestored", "AnswerCalls", Actor.MODEL),
    ],
)
def test_the_command_names_who_changed_an_object(name: str, cause: str, actor: Actor) -> None:
    assert actor_of(recorded(event_of(name), cause)) is actor


@pytest.mark.parametrize(
    ("fields", "actor"),
    [
        ({"kind": ObjectKind.CONVERSATION_PHASE, "tags": ("user",)}, Actor.USER),
        ({"kind": ObjectKind.CONVERSATION_PHASE, "tags": (NOTE, "user")}, Actor.CLIENT),
        ({"kind": ObjectKind.CONVERSATION_PHASE, "tags": ()}, Actor.MODEL),
        ({"kind": ObjectKind.TOOL_RESULT, "tags": ()}, Actor.CLIENT),
        ({"kind": ObjectKind.FILE_CONTEXT, "tags": ("edit",)}, Actor.MODEL),
        ({"kind": ObjectKind.DEBUGGING_SESSION, "role": Role.DERIVED, "tags": ()}, Actor.PLANNER),
    ],
)
def test_the_actor_of_an_object_is_its_author(fields: dict[str, Any], actor: Actor) -> None:
    event = attrs.evolve(made("a"), **fields)
    assert isinstance(event, ObjectCreated)
    assert actor_of(recorded(event, "Remember")) is actor


def test_a_broken_reply_is_attributed_to_the_provider_unless_the_client_left() -> None:
    cut = session_events.interrupted({})
    assert actor_of(recorded(attrs.evolve(cut, reason=CLIENT_LEFT))) is Actor.CLIENT
    assert actor_of(recorded(attrs.evolve(cut, reason="the connection broke"))) is Actor.PROVIDER
    assert actor_of(recorded(session_events.finished(1, None, {}, status=529))) is Actor.PROVIDER


def test_every_cause_of_a_step_has_an_actor() -> None:
    step = event_of("ObjectDegraded")
    assert isinstance(step, ObjectDegraded)
    assert {actor_of(recorded(attrs.evolve(step, cause=cause))) for cause in Cause} == set(Actor) - {Actor.PROVIDER}


def test_changes_are_chosen_by_time_actor_and_branch() -> None:
    gap = recorded(GapRecorded(at=7, since=1, turns=1, reason=""))
    step = recorded(event_of("ObjectDegraded"))
    assert ChosenChanges(since=7, until=7).includes(gap)
    assert not ChosenChanges(since=8).includes(gap)
    assert not ChosenChanges(until=6).includes(gap)
    assert ChosenChanges(by=Actor.PLANNER).includes(gap)
    assert not ChosenChanges(by=Actor.USER).includes(gap)
    assert not ChosenChanges(branch="main").includes(gap)
    assert ChosenChanges(branch="main", by=Actor.PLANNER).includes(step)
