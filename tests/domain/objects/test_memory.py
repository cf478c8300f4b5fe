"""Views of branches change only by events, and a fork starts with the shared part."""

import itertools
from functools import reduce
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.decide import Degrade, Pin, Release, Unpin, decide, decide_all
from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectDegraded, ObjectEvent, ObjectRestored
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import Memory
from tests.domain.remembered import about, created, histories, made, remembered
from tests.golden.sessions import golden_event

TWO = reduce(memory.evolve, (made("a", 0), made("b", 2)), Memory())


def test_link_from_a_conversation_to_its_decision_is_not_a_use_of_it() -> None:
    decision = created("decided", 3, kind=ObjectKind.DESIGN_DECISION, source_key=None)
    for relation, used in ((LinkRelation.PARENT_OF, False), (LinkRelation.DEPENDS_ON, True)):
        kind = ObjectKind.PLAN if used else ObjectKind.CONVERSATION_PHASE
        later = created("later", 9, kind=kind, source_key=None, links=(Link(relation, "decided"),))
        known = remembered(decision, later).objects["decided"]
        assert known.last_use == (later.last_turn if used else decision.last_turn)


@given(histories)
def test_folding_is_total_and_an_event_changes_only_its_own_object(events: list[ObjectEvent]) -> None:
    found = TWO
    for event in events:
        after = memory.evolve(found, event)
        other = "b" if event.object == "a" else "a"
        assert after.objects[other] == found.objects[other]
        assert after.view_of("main").fidelity_of(other) == found.view_of("main").fidelity_of(other)
        found = after
    assert found.view_of("main").objects == ("a", "b")


@given(st.lists(st.sampled_from(["main", "fork-1"]), max_size=6), st.data())
def test_creating_objects_in_one_step_equals_creating_them_one_by_one(branches: list[str], data: st.DataObject) -> None:
    before = reduce(memory.evolve, data.draw(histories), TWO)
    names = ["a", "b", *(f"new-{number}" for number in range(len(branches)))]
    created = [
        made(
            names[number + 2],
            data.draw(st.integers(0, 9)),
            branch=branch,
            role=data.draw(st.sampled_from([Role.TRANSCRIPT, Role.WRITTEN])),
            key_entities=(data.draw(st.sampled_from("xyz")),),
            links=(Link(LinkRelation.REFERENCES, data.draw(st.sampled_from(names))),),
        )
        for number, branch in enumerate(branches)
    ]
    assert memory.add_all(before, created) == reduce(memory.evolve, created, before)


@given(histories)
def test_branch_shows_an_object_at_the_fidelity_of_its_last_step(events: list[ObjectEvent]) -> None:
    found = reduce(memory.evolve, events, TWO)
    for each in ("a", "b"):
        steps = [event for event in events if isinstance(event, ObjectDegraded | ObjectRestored)]
        last = next((event.after for event in reversed(steps) if event.object == each), Fidelity.FULL)
        assert found.view_of("main").fidelity_of(each) is last


@given(st.integers(0, 8), histories)
def test_a_fork_inherits_as_far_as_the_history_is_shared(kept: int, events: list[ObjectEvent]) -> None:
    before = reduce(memory.evolve, events, TWO)
    after = memory.fork(before, "fork-1", "main", kept, forked_at=3)
    inherited = after.view_of("fork-1")
    assert set(inherited.objects) == {each for each, message in (("a", 0), ("b", 2)) if message < kept}
    for each in inherited.objects:
        assert inherited.fidelity_of(each) == before.view_of("main").fidelity_of(each)
    assert after.view_of("main") == before.view_of("main")
    assert after.objects == before.objects


@pytest.mark.parametrize("forked_at", range(1, 6))
def test_fork_shows_objects_restored_before_the_fork(forked_at: int) -> None:
    levels = (Fidelity.FULL, Fidelity.EVICTED, Fidelity.COMPACT, Fidelity.DETAILED, Fidelity.FULL)
    at: dict[str, Any] = {"at": 2, "object": "a", "branch": "main"}
    gone = ObjectDegraded(**at, turn=1, before=levels[0], after=levels[1], cause=Cause.PRESSURE)
    back = [
        ObjectRestored(**at, turn=turn, before=before, after=after, cause=Cause.FAULT)
        for turn, (before, after) in enumerate(itertools.pairwise(levels[1:]), 2)
    ]
    steps: list[ObjectEvent] = [gone, *back]
    before = reduce(memory.evolve, steps, TWO)
    fork = memory.fork(before, "fork-1", "main", 8, forked_at)
    assert fork.view_of("fork-1").fidelity_of("a") is levels[min(forked_at, 4)]
    again = memory.fork(fork, "fork-2", "fork-1", 8, forked_at=2)
    assert again.view_of("fork-2").fidelity_of("a") is levels[min(forked_at, 2)]


def test_fork_inherits_an_object_rendered_in_its_place_again() -> None:
    gone, back = (event for event in about("a") if isinstance(event, ObjectDegraded | ObjectRestored))
    rendered = memory.rewrite(reduce(memory.evolve, (gone, back), TWO), "main", freed=0)
    assert memory.fork(rendered, "fork-1", "main", 8, forked_at=2).view_of("fork-1").fidelity_of("a") is Fidelity.FULL


@given(histories)
def test_sending_everything_in_full_affects_only_that_branch(events: list[ObjectEvent]) -> None:
    before = memory.fork(reduce(memory.evolve, events, TWO), "fork-1", "main", 8, forked_at=9)
    after = memory.show_in_full(before, "main")
    assert all(fidelity is Fidelity.FULL for _, fidelity in after.standings("main"))
    assert after.view_of("fork-1") == before.view_of("fork-1")
    assert after.objects == before.objects


def test_changes_in_a_fork_do_not_affect_its_parent() -> None:
    forked = memory.fork(TWO, "fork-1", "main", 8, forked_at=9)
    degraded = next(event for event in about("a") if isinstance(event, ObjectDegraded))
    after = memory.evolve(forked, degraded)
    assert after.view_of("main").fidelity_of("a") is Fidelity.STUB
    assert after.view_of("fork-1").fidelity_of("a") is Fidelity.FULL


def test_a_pin_or_release_in_a_fork_holds_there_and_in_its_forks_alone() -> None:
    held = memory.fork(TWO, "fork-1", "main", 8, forked_at=9)
    commands = (
        Pin(at=1, object="a", branch="fork-1", reason="r", until_turn=None),
        Release(at=1, object="b", branch="fork-1", turn=9, reason="r"),
    )
    _, held = decide_all(commands, held)
    held = memory.fork(held, "fork-2", "fork-1", 8, forked_at=9)
    seen = {name: [(each.pin is not None, each.released) for each, _ in held.standings(name)] for name in held.branches}
    changed = [(True, False), (False, True)]
    assert seen == {"main": [(False, False)] * 2, "fork-1": changed, "fork-2": changed}
    down = Degrade(at=1, object="a", branch="main", turn=9, after=Fidelity.STUB, cause=Cause.PRESSURE)
    assert decide(down, held)
    assert not decide(attrs.evolve(down, branch="fork-2"), held)
    _, free = decide_all((Unpin(at=2, object="a", reason="r"),), held)
    assert decide(attrs.evolve(down, branch="fork-2"), free)


def test_an_unpinned_branch_and_its_forks_are_exempt_from_a_pin_of_every_branch_until_the_next_pin() -> None:
    everywhere = Pin(at=1, object="a", reason="r", until_turn=None)
    unpin = Unpin(at=2, object="a", reason="r", branch="fork-1")
    _, held = decide_all((everywhere,), memory.fork(TWO, "fork-1", "main", 8, forked_at=9))
    _, free = decide_all((unpin,), held)
    free = memory.fork(free, "fork-2", "fork-1", 8, forked_at=9)
    seen = {name: next(iter(free.standings(name)))[0].pin is not None for name in free.branches}
    assert seen == {"main": True, "fork-1": False, "fork-2": False}
    assert not decide(unpin, free)
    assert [each.pin is not None for each, _ in decide_all((everywhere,), free)[1].standings("fork-2")] == [True, False]


def test_the_last_pin_of_a_branch_is_removed_as_in_every_branch() -> None:
    held = memory.fork(TWO, "fork-1", "main", 8, forked_at=9)
    pins = [Pin(at=1, object="a", reason="r", until_turn=None, branch=branch) for branch in ("main", "fork-1")]
    first, last = (Unpin(at=2, object="a", reason="r", branch=branch) for branch in ("fork-1", "main"))
    events, held = decide_all((*pins, first, last), held)
    assert [getattr(each, "branch", None) for each in events] == ["main", "fork-1", "fork-1", None]
    assert held.pins_of("a") == {}


def test_a_pin_or_release_of_an_older_log_holds_in_every_branch() -> None:
    recorded = [golden_event(name).event for name in ("object.pinned.v1", "object.released.v1")]
    held = memory.fork(TWO, "fork-1", "main", 8, forked_at=9)
    for event in recorded:
        assert isinstance(event, ObjectEvent)
        held = memory.evolve(held, attrs.evolve(event, object="a"))
    seen = [next(held.standings(name))[0] for name in held.branches]
    assert [(each.pin is not None, each.released) for each in seen] == [(True, True)] * 2


@pytest.mark.parametrize(("kept", "inherited"), [(1, False), (3, True)])
def test_derived_object_is_inherited_only_with_all_its_parts(kept: int, inherited: bool) -> None:
    parts = tuple(Link(LinkRelation.PARENT_OF, each) for each in ("a", "b"))
    derived = memory.evolve(TWO, made("d", role=Role.DERIVED, links=parts))
    assert ("d" in memory.fork(derived, "fork-1", "main", kept, forked_at=9).view_of("fork-1").objects) is inherited
