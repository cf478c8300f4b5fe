"""Events are described in words, newest first; internal events are omitted."""

import attrs

from mnemosyne.domain.objects.events import FaultKind, ObjectDegraded, ObjectFaulted, ObjectPinned
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import EVENT_NAMES, Event, GapRecorded
from mnemosyne.domain.session.round_events import ManagingSwitched
from mnemosyne.http.inspector.happenings import SHOWN, list_happenings
from tests.actors.support import STREAM
from tests.golden.sessions import golden_event


def recorded(*events: Event) -> list[Recorded[Event]]:
    return [Recorded(STREAM, number, number, Envelope(each, "c")) for number, each in enumerate(events, 1)]


def test_the_newest_event_is_first_with_place_and_reason() -> None:
    pinned = ObjectPinned(at=1, object="abc2345", reason="the plan", until_turn=None)
    off = ManagingSwitched(at=2, on=False, why="a person said so")
    second, first = list_happenings(recorded(pinned, off))
    assert (second.version, second.at, second.what, second.why) == (2, 2, "managing switched off", "a person said so")
    assert (first.object, first.what, first.why) == ("abc2345", "pinned", "the plan")


def test_eviction_shortening_and_faults_are_described_differently() -> None:
    degraded, faulted = (golden_event(f"object.{name}.v1").event for name in ("degraded", "faulted"))
    assert isinstance(degraded, ObjectDegraded)
    assert isinstance(faulted, ObjectFaulted)
    evicted = attrs.evolve(degraded, before=Fidelity.FULL, after=Fidelity.EVICTED)
    shortened = attrs.evolve(evicted, after=Fidelity.COMPACT)
    missed = attrs.evolve(faulted, kind=FaultKind.IMPLICIT, tokens=7)
    assert [each.what for each in list_happenings(recorded(evicted, shortened, missed))] == [
        "needed again: the agent read or ran it again, 7 tokens",
        "shortened from L0 full to L2 compact",
        "evicted from L0 full",
    ]


def test_every_event_type_is_described_or_omitted() -> None:
    happenings = list_happenings(recorded(*(golden_event(name).event for name in EVENT_NAMES))[:SHOWN])
    assert all(happening.what for happening in happenings)
    assert len(happenings) > SHOWN // 2


def test_the_list_of_events_is_limited() -> None:
    gap = GapRecorded(at=1, since=1, turns=2, reason="the database was away")
    assert len(list_happenings(recorded(*[gap] * 99))) == SHOWN
