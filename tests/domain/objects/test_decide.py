"""Rules of objects hold for any sequence of commands, and each command yields one event or none."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.decide import (
    Command,
    Create,
    Degrade,
    Fault,
    Pin,
    Release,
    Request,
    Restore,
    Summarize,
    Supersede,
    Unpin,
    decide,
    decide_all,
)
from mnemosyne.domain.objects.events import (
    FaultKind,
    FaultReason,
    Link,
    LinkRelation,
    ObjectCreated,
    ObjectEvent,
    ObjectFaulted,
    ObjectForgotten,
    ObjectReleased,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.memory import Memory
from tests.domain.remembered import BRANCH, created, degraded, made, remembered, summarized, superseded

LATER = "successor-1"
"""A window that begins with a summary of the first one."""


def create(object_id: str, *messages: int, **fields: Any) -> Create:
    event = made(object_id, *messages, **fields)
    return Create(**attrs.asdict(event, recurse=False))


def degrade(object_id: str, after: Fidelity, branch: str = BRANCH, cause: Cause = Cause.PRESSURE) -> Degrade:
    return Degrade(at=1, object=object_id, branch=branch, turn=9, after=after, cause=cause)


def restore(object_id: str, after: Fidelity, branch: str = BRANCH, cause: Cause = Cause.FAULT) -> Restore:
    return Restore(at=1, object=object_id, branch=branch, turn=9, after=after, cause=cause)


def pin(object_id: str, until_turn: int | None = None) -> Pin:
    return Pin(at=1, object=object_id, reason="why", until_turn=until_turn)


def release(object_id: str) -> Release:
    return Release(at=1, object=object_id, branch=BRANCH, turn=9, reason="done")


def request(object_id: str) -> Request:
    return Request(at=1, object=object_id, branch=BRANCH, turn=9, after=Fidelity.FULL, reason="done")


def summarize(object_id: str, fidelity: Fidelity) -> Summarize:
    event = summarized(object_id, fidelity, 9)
    return Summarize(**attrs.asdict(event, recurse=False))


# Laws

TURNS = st.integers(1, 6)
_WHERE: dict[str, st.SearchStrategy[Any]] = {
    "at": st.just(1),
    "object": st.sampled_from(["a", "c", "d", "gone", "none"]),
}
_WHEN = {**_WHERE, "branch": st.sampled_from([BRANCH, LATER]), "turn": TURNS}
_REASON = st.sampled_from(["r", "s"])
_FIDELITIES, _CAUSES = st.sampled_from(Fidelity), st.sampled_from(Cause)


def moves(**where: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    """Degrading, restoring, and pins."""
    pinned = {key: each for key, each in where.items() if key in _WHERE}
    return st.one_of(
        st.builds(Degrade, **where, after=_FIDELITIES, cause=_CAUSES),
        st.builds(Restore, **where, after=_FIDELITIES, cause=_CAUSES),
        st.builds(Pin, **pinned, reason=_REASON, until_turn=st.none() | TURNS),
        st.builds(Unpin, **pinned, reason=_REASON, branch=st.none() | where["branch"]),
        st.builds(Request, **where, after=_FIDELITIES, reason=_REASON),
    )


COMMANDS: st.SearchStrategy[Command] = st.one_of(
    moves(**_WHEN),
    st.builds(create, _WHERE["object"], st.integers(0, 9), branch=_WHEN["branch"]),
    st.builds(summarize, _WHERE["object"], _FIDELITIES),
    st.builds(
        Fault,
        **_WHEN,
        left=st.none() | TURNS,
        kind=st.sampled_from(FaultKind),
        reason=_REASON,
        tokens=st.integers(0, 200),
    ),
    st.builds(Release, **_WHEN, reason=_REASON),
    st.builds(
        Supersede,
        **{**_WHERE, "branch": _WHEN["branch"]},
        by=st.none() | st.just("a"),
        how=st.sampled_from(Supersession),
    ),
)
SEQUENCES = st.lists(COMMANDS, max_size=30)
OF_ONE = st.lists(moves(**{**_WHEN, "object": st.just("a"), "branch": st.just(BRANCH)}), min_size=8, max_size=30)
"""One object, degraded and restored."""

_FIRST = remembered(made("a", 0), made("gone", 4), ObjectForgotten(at=1, object="gone", reason="r"))
START = remembered(made("c", 0, branch=LATER), before=memory.succeed(_FIRST, LATER, BRANCH))
"""Two windows, the second of which succeeds the first."""

MemorySnapshot = tuple[Memory, Command, tuple[ObjectEvent, ...], Memory]
"""The memory before a command, the decided events, and the memory after them."""


def moments(commands: Sequence[Command]) -> Iterator[MemorySnapshot]:
    before = START
    for command in commands:
        events = decide(command, before)
        after = reduce(memory.evolve, events, before)
        yield before, command, events, after
        before = after


def shown(state: Memory) -> dict[tuple[str, str], Fidelity]:
    return {(branch, each): state.view_of(branch).fidelity_of(each) for branch in (BRANCH, LATER) for each in _IDS}


_IDS = ("a", "c", "d", "gone")


@given(OF_ONE | SEQUENCES)
def test_pinned_object_is_degraded_only_with_its_dropped_attempt(
    commands: list[Command],
) -> None:
    for before, command, _, after in moments(commands):
        for (branch, each), fidelity in shown(after).items():
            if fidelity > shown(before)[branch, each]:
                assert isinstance(command, Degrade)
                is_elsewhere = each in before.view_of(branch).before or command.cause is Cause.ATTEMPT
                assert is_elsewhere or not before.objects[each].is_pinned(command.turn)


@given(OF_ONE | SEQUENCES)
def test_fidelity_changes_only_along_the_ladder(commands: list[Command]) -> None:
    for before, command, _, after in moments(commands):
        for place, fidelity in shown(after).items():
            held = shown(before)[place]
            if fidelity is not held:
                assert isinstance(command, Degrade | Restore)
                assert place == (command.branch, command.object)
                assert is_legal(held, fidelity, command.cause)
                assert (fidelity > held) is isinstance(command, Degrade)


@given(SEQUENCES)
def test_forgotten_or_unknown_object_never_changes(commands: list[Command]) -> None:
    for before, command, events, after in moments(commands):
        if command.object not in before.objects and not isinstance(command, Create):
            assert events == ()
        assert after.objects["gone"] == START.objects["gone"]
        assert shown(after)[BRANCH, "gone"] is shown(START)[BRANCH, "gone"]
    forgotten = memory.forget(after if commands else START)
    for command in commands:
        if not isinstance(command, Create) or command.object in forgotten.objects:
            assert decide(command, forgotten) == ()


@given(SEQUENCES)
def test_command_yields_at_most_one_event_and_keeps_id_and_content(commands: list[Command]) -> None:
    for before, command, events, after in moments(commands):
        assert [each.object for each in events] in ([], [command.object])
        for key, each in before.objects.items():
            now = after.objects[key]
            assert (now.id, now.branch, now.content, now.places) == (each.id, each.branch, each.content, each.places)
            assert now == each or key == command.object


@given(SEQUENCES)
def test_each_command_of_a_batch_sees_the_effects_of_earlier_ones(commands: list[Command]) -> None:
    one_by_one = [*moments(commands)]
    events, after = decide_all(commands, START)
    assert events == tuple(event for _, _, decided, _ in one_by_one for event in decided)
    assert after == (one_by_one[-1][3] if one_by_one else START)


@given(SEQUENCES)
def test_repeated_command_yields_no_event(commands: list[Command]) -> None:
    for _, command, events, after in moments(commands):
        if events and not isinstance(command, Fault | Supersede):
            assert decide(command, after) == ()


# Each command

ONE = remembered(created("abc2345"))


def test_object_is_created_once_and_counts_as_access_to_linked_objects() -> None:
    command = create("c", 8, links=(Link(LinkRelation.REFERENCES, "a"),))
    assert decide(command, START) == ()  # an id of another window is accepted too
    command = attrs.evolve(command, object="d")
    (event,) = decide(command, START)
    assert event == ObjectCreated(**attrs.asdict(command, recurse=False))
    assert memory.evolve(START, event).objects["a"].accesses == 1


@pytest.mark.parametrize("tags", [("reminder",), ("reminder", "system"), ("definitions",)])
def test_operator_text_is_never_degraded(tags: tuple[str, ...]) -> None:
    (made,) = decide(attrs.evolve(create("def2345"), tags=tags), ONE)
    memory = remembered(made, before=ONE)
    assert all(decide(degrade("def2345", each), memory) == () for each in Fidelity)


def test_pin_does_not_hold_an_object_restored_from_an_earlier_window() -> None:
    """It has no place in this history: once the answer that held it is gone, nothing shows it any more."""
    state = decide_all((restore("a", Fidelity.FULL, LATER), pin("a"), pin("c")), START)[1]
    assert decide(degrade("a", Fidelity.EVICTED, LATER), state)
    assert decide(degrade("a", Fidelity.EVICTED, BRANCH), state) == ()
    assert decide(degrade("c", Fidelity.EVICTED, LATER), state) == ()


def test_pinning_again_with_another_end_changes_the_pin() -> None:
    again = decide_all((pin("abc2345"), pin("abc2345", 7)), ONE)[1]
    assert [again.objects["abc2345"].is_pinned(turn) for turn in (7, 8)] == [True, False]


def test_pinned_or_released_object_cannot_be_released() -> None:
    events, after = decide_all((release("abc2345"), release("abc2345")), ONE)
    assert [type(each) for each in events] == [ObjectReleased]
    assert after.view_of(BRANCH).released == {"abc2345"}
    assert decide(release("abc2345"), decide_all((pin("abc2345"),), ONE)[1]) == ()


def test_restore_is_requested_once_and_never_for_an_object_shown_in_full() -> None:
    assert decide(request("abc2345"), ONE) == ()
    hidden = remembered(degraded("abc2345", Fidelity.STUB), before=ONE)
    asked = remembered(*decide(request("abc2345"), hidden), before=hidden)
    assert decide(request("abc2345"), asked) == ()
    came = decide_all((restore("abc2345", Fidelity.FULL, cause=Cause.PREFETCH),), asked)[1]
    assert (asked.view_of(BRANCH).requested, came.view_of(BRANCH).requested) == ({"abc2345": Fidelity.FULL}, {})


def test_requested_object_is_no_longer_released() -> None:
    let_go = decide_all(
        (release("abc2345"), request("abc2345")), remembered(degraded("abc2345", Fidelity.STUB), before=ONE)
    )
    assert not let_go[1].view_of(BRANCH).released


@pytest.mark.parametrize(("left", "distance"), [(12, 8), (None, 19), (25, 0)])
def test_fault_records_its_distance_and_the_avoided_tokens(left: int | None, distance: int) -> None:
    command = Fault(
        at=0,
        object="abc2345",
        branch=BRANCH,
        turn=20,
        left=left,
        kind=FaultKind.MICRO,
        reason="why?",
        tokens=60,
        latency=5,
    )
    state = remembered(degraded("abc2345", Fidelity.STUB), before=ONE)
    where: dict[str, Any] = {"at": 0, "object": "abc2345", "branch": BRANCH, "turn": 20, "kind": FaultKind.MICRO}
    where["why"] = FaultReason.REFERENCE
    (event,) = decide(command, state)
    assert event == ObjectFaulted(**where, reason="why?", distance=distance, tokens=60, avoided_tokens=940, latency=5)
    (event,) = decide(attrs.evolve(command, tokens=2_000), state)
    assert event == ObjectFaulted(**where, reason="why?", distance=distance, tokens=2_000, avoided_tokens=0, latency=5)
    assert decide(command, ONE) == ()  # an object shown in full causes no fault


def changed(tags: tuple[str, ...], turn: int) -> ObjectCreated:
    """A change of the file that was read as abc2345."""
    file = ONE.objects["abc2345"]
    return created("chg2345", 2 * turn, kind=ObjectKind.ERROR_CONTEXT, source_key=file.source_key, tags=tags)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (None, FaultReason.USER_RECALL),
        (changed(("error", "change"), 19), FaultReason.EXACT_TEXT),
        (changed(("error", "change"), 12), FaultReason.USER_RECALL),
        (changed(("error", "read"), 19), FaultReason.USER_RECALL),
        (changed(("edit",), 19), FaultReason.USER_RECALL),
    ],
)
def test_fault_after_a_failed_change_of_its_file_is_for_the_exact_text(
    change: ObjectCreated | None, why: FaultReason
) -> None:
    before: list[ObjectEvent] = [degraded("abc2345", Fidelity.STUB), *([change] if change is not None else [])]
    where: dict[str, Any] = {"at": 0, "object": "abc2345", "branch": BRANCH, "turn": 20, "left": 12, "tokens": 60}
    command = Fault(**where, kind=FaultKind.EXPLICIT, reason="r", why=FaultReason.USER_RECALL)
    (event,) = decide(command, remembered(*before, before=ONE))
    assert isinstance(event, ObjectFaulted)
    assert event.why is why


def test_object_can_be_superseded_in_the_batch_that_creates_it() -> None:
    command = Supersede(at=0, object="new", branch=BRANCH, by=None, how=Supersession.EDITED)
    events, after = decide_all((create("new", 8), command), ONE)
    assert events[1:] == (superseded("new", Supersession.EDITED),)
    assert after.objects["new"].stale
    assert decide(command, ONE) == ()
