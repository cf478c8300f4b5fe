"""What branches show: only events change it, and a fork begins with what it shares."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain import memory
from mnemosyne.domain.fidelity import Fidelity
from mnemosyne.domain.memory import Memory
from mnemosyne.domain.memory_object import (
    Link,
    ObjectDegraded,
    ObjectEvent,
    ObjectRestored,
    Relation,
    Role,
)
from tests.domain.objects import about, histories, made

TWO = reduce(memory.evolve, (made("a", 0), made("b", 2)), Memory())


@given(histories)
def test_folding_is_total_and_an_event_changes_its_own_object_alone(events: list[ObjectEvent]) -> None:
    found = TWO
    for event in events:
        after = memory.evolve(found, event)
        other = "b" if event.object == "a" else "a"
        assert after.objects[other] == found.objects[other]
        assert after.shown("main").fidelity_of(other) == found.shown("main").fidelity_of(other)
        found = after
    assert found.shown("main").objects == ("a", "b")


@given(histories)
def test_a_branch_shows_an_object_as_its_last_step_says(events: list[ObjectEvent]) -> None:
    found = reduce(memory.evolve, events, TWO)
    for each in ("a", "b"):
        steps = [event for event in events if isinstance(event, ObjectDegraded | ObjectRestored)]
        last = next((event.after for event in reversed(steps) if event.object == each), Fidelity.FULL)
        assert found.shown("main").fidelity_of(each) is last


@given(st.integers(0, 8), histories)
def test_a_fork_inherits_as_far_as_the_history_is_shared(kept: int, events: list[ObjectEvent]) -> None:
    before = reduce(memory.evolve, events, TWO)
    after = memory.forked(before, "fork-1", "main", kept)
    inherited = after.shown("fork-1")
    assert set(inherited.objects) == {each for each, message in (("a", 0), ("b", 2)) if message < kept}
    for each in inherited.objects:
        assert inherited.fidelity_of(each) == before.shown("main").fidelity_of(each)
    assert after.shown("main") == before.shown("main")
    assert after.objects == before.objects


def test_what_a_fork_does_is_its_own() -> None:
    forked = memory.forked(TWO, "fork-1", "main", 8)
    degraded = next(event for event in about("a") if isinstance(event, ObjectDegraded))
    after = memory.evolve(forked, degraded)
    assert after.shown("main").fidelity_of("a") is Fidelity.STUB
    assert after.shown("fork-1").fidelity_of("a") is Fidelity.FULL


@pytest.mark.parametrize(("kept", "inherited"), [(1, False), (3, True)])
def test_a_derived_object_is_inherited_with_all_its_parts(kept: int, inherited: bool) -> None:
    parts = tuple(Link(Relation.PARENT_OF, each) for each in ("a", "b"))
    derived = memory.evolve(TWO, made("d", role=Role.DERIVED, links=parts))
    assert ("d" in memory.forked(derived, "fork-1", "main", kept).shown("fork-1").objects) is inherited


def test_a_link_to_an_object_shows_that_it_is_used() -> None:
    after = memory.evolve(TWO, made("c", 8, links=(Link(Relation.REFERENCES, "a"),)))
    assert (after.objects["a"].accesses, after.objects["a"].last_use) == (1, 5)
    assert after.objects["b"] == TWO.objects["b"]


def test_a_forgotten_session_has_no_words_left() -> None:
    after = memory.forgotten(TWO, 7)
    assert not after.entities
    assert all(
        each.forgotten and not each.stub and not each.key_entities and not each.source_key
        for each in after.objects.values()
    )
