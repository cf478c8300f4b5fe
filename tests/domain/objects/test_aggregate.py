"""An object changes only by its own events."""

import attrs
import pytest
from hypothesis import given

from mnemosyne.domain.objects.aggregate import Pinned, evolve, make_object
from mnemosyne.domain.objects.events import (
    OBJECT_EVENT_NAMES,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectPinned,
    ObjectReleased,
    ObjectRestored,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from tests.domain.remembered import about, histories, made


def test_every_event_type_has_a_sample() -> None:
    assert {type(each) for each in about("a")} | {ObjectCreated} == set(OBJECT_EVENT_NAMES.values())


@given(histories)
def test_any_order_of_events_can_be_folded_and_changes_neither_id_nor_content(events: list[ObjectEvent]) -> None:
    first = each = make_object(made("a", 0))
    for event in events:
        each = evolve(each, event)
        assert (each.id, each.content, each.places, each.tokens) == (
            first.id,
            first.content,
            first.places,
            first.tokens,
        )
        assert each.last_use >= first.last_use
        assert each.faults + each.micro_faults <= len(events)


@pytest.mark.parametrize("event", about("a"), ids=lambda event: type(event).__name__)
def test_every_event_changes_its_object_except_branch_events(event: ObjectEvent) -> None:
    before = attrs.evolve(make_object(made("a", 0)), pin=Pinned("r", None))
    is_of_branch = isinstance(event, ObjectPinned) and event.branch is not None
    shown_only = is_of_branch or isinstance(event, ObjectDegraded | ObjectRestored | ObjectReleased)
    assert (evolve(before, event) == before) is shown_only


def test_missing_rendition_has_no_size_and_evicted_object_has_size_zero() -> None:
    each = make_object(made("a", 0))
    assert [each.tokens_at(level) for level in Fidelity] == [100, None, None, 5, 0]
    assert evolve(each, about("a")[0]).tokens_at(Fidelity.COMPACT) == 10


def test_forgotten_object_has_no_text() -> None:
    each = make_object(made("a", 0))
    for event in about("a"):
        each = evolve(each, event)
    assert (each.stub, each.source_key, each.renditions, each.key_entities, each.pin) == ("", None, {}, (), None)
