"""An object is assembled from the few events that still affect it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.history.working_set import WorkingObject, standing_of
from mnemosyne.domain.objects import aggregate
from mnemosyne.domain.objects.events import ObjectEvent, ObjectFaulted, ObjectReleased
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.errors import LogFailed
from tests.domain.remembered import about, made

SHOWING = [each for each in about("a") if not isinstance(each, ObjectFaulted | ObjectReleased)]


def known(each: aggregate.MemoryObject, versions: tuple[int, ...]) -> WorkingObject:
    return WorkingObject(
        kind=each.kind,
        stale=each.stale,
        fidelity=Fidelity.STUB,
        versions=versions,
        accesses=each.accesses,
        faults=each.faults,
        micro_faults=each.micro_faults,
        last_use=each.last_use,
        last_fault=each.last_fault,
        released=each.released,
    )


@given(st.lists(st.sampled_from(about("a"))))
def test_counters_replace_the_events_that_are_not_read(happened: Sequence[ObjectEvent]) -> None:
    whole = aggregate.make_object(made("a", 1))
    for event in happened:
        whole = aggregate.evolve(whole, event)
    showing = [event for event in happened if event in SHOWING]
    standing = standing_of(known(whole, tuple(range(1, len(showing) + 2))), [made("a", 1), *showing])
    assert (standing.object, standing.fidelity) == (whole, Fidelity.STUB)


def test_an_unexpected_event_raises_log_failed() -> None:
    other = known(aggregate.make_object(made("a", 1)), (7,))
    assert other.kind is ObjectKind.TOOL_RESULT
    with pytest.raises(LogFailed, match="no event that made an object where there should be one, at 7"):
        standing_of(other, [about("a")[0]])
