"""Whatever is commanded in whatever order, objects keep their rules; and each command has its one event, or none."""

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
    Link,
    LinkRelation,
    Losses,
    ObjectCreated,
    ObjectDegraded,
    ObjectEvent,
    ObjectFaulted,
    ObjectForgotten,
    ObjectPinned,
    ObjectReleased,
    ObjectRequested,
    ObjectRestored,
    ObjectSummarized,
    ObjectUnpinned,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Cause, Fidelity, is_legal
from mnemosyne.domain.objects.memory import Memory
from tests.domain.memory_objects import made
from tests.domain.remembered import BRANCH, created, degraded, remembered, summarized, superseded

LATER = "successor-1"
"""The window that begins with a summary of the first one."""


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
    """Steps up and down, and pins."""
    pinned = {key: each for key, each in where.items() if key in _WHERE}
    return st.one_of(
        st.builds(Degrade, **where, after=_FIDELITIES, cause=_CAUSES),
        st.builds(Restore, **where, after=_FIDELITIES, cause=_CAUSES),
        st.builds(Pin, **pinned, reason=_REASON, until_turn=st.none() | TURNS),
        st.builds(Unpin, **pinned, reason=_REASON),
        st.builds(Request, **where, after=_FIDELITIES, reason=_REASON),
    )


COMMANDS: st.SearchStrategy[Command] = st.one_of(
    moves(**_WHEN),
    st.builds(create, _WHERE["object"], st.integers(0, 9), branch=_WHEN["branch"]),
    st.builds(
        Summarize,
        **_WHERE,
        fidelity=_FIDELITIES,
        text=st.just(bytes(32)),
        size=st.just(9),
        tokens=st.just(3),
        helper=st.just("h"),
        losses=st.just(Losses()),
        nanodollars=st.just(0),
    ),
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
"""One object, up and down."""

_FIRST = remembered(made("a", 0), made("gone", 4), ObjectForgotten(at=1, object="gone", reason="r"))
START = remembered(made("c", 0, branch=LATER), before=memory.succeed(_FIRST, LATER, BRANCH))
"""Two windows, the second of which succeeds the first."""

MemorySnapshot = tuple[Memory, Command, tuple[ObjectEvent, ...], Memory]
"""The memory before a command, what was decided, and the memory after that."""


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
def test_nothing_that_is_pinned_is_ever_shown_at_less_but_where_its_attempt_was_given_up(
    commands: list[Command],
) -> None:
    for before, command, _, after in moments(commands):
        for (branch, each), fidelity in shown(after).items():
            if fidelity > shown(before)[branch, each]:
                assert isinstance(command, Degrade)
                is_elsewhere = each in before.view_of(branch).before or command.cause is Cause.ATTEMPT
                assert is_elsewhere or not before.objects[each].is_pinned(command.turn)


@given(OF_ONE | SEQUENCES)
def test_a_fidelity_changes_by_the_ladders_steps_alone(commands: list[Command]) -> None:
    for before, command, _, after in moments(commands):
        for place, fidelity in shown(after).items():
            held = shown(before)[place]
            if fidelity is not held:
                assert isinstance(command, Degrade | Restore)
                assert place == (command.branch, command.object)
                assert is_legal(held, fidelity, command.cause)
                assert (fidelity > held) is isinstance(command, Degrade)


@given(SEQUENCES)
def test_what_is_forgotten_or_unknown_never_changes(commands: list[Command]) -> None:
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
def test_one_command_has_one_event_of_its_object_at_most_and_ids_and_contents_stay(commands: list[Command]) -> None:
    for before, command, events, after in moments(commands):
        assert [each.object for each in events] in ([], [command.object])
        for key, each in before.objects.items():
            now = after.objects[key]
            assert (now.id, now.branch, now.content, now.places) == (each.id, each.branch, each.content, each.places)
            assert now == each or key == command.object


@given(SEQUENCES)
def test_commands_of_one_batch_are_decided_in_view_of_those_before(commands: list[Command]) -> None:
    one_by_one = [*moments(commands)]
    events, after = decide_all(commands, START)
    assert events == tuple(event for _, _, decided, _ in one_by_one for event in decided)
    assert after == (one_by_one[-1][3] if one_by_one else START)


@given(SEQUENCES)
def test_what_is_so_already_is_not_decided_again(commands: list[Command]) -> None:
    for _, command, events, after in moments(commands):
        if events and not isinstance(command, Fault | Supersede):
            assert decide(command, after) == ()


# Each command

ONE = remembered(created("abc2345"))


def test_an_object_is_made_once_and_counts_for_what_it_refers_to() -> None:
    command = create("c", 8, links=(Link(LinkRelation.REFERENCES, "a"),))
    assert decide(command, START) == ()  # an id of another window is taken, too
    command = attrs.evolve(command, object="d")
    (event,) = decide(command, START)
    assert event == ObjectCreated(**attrs.asdict(command, recurse=False))
    assert memory.evolve(START, event).objects["a"].accesses == 1


def test_an_l1_is_recorded_once_and_an_l2_only_with_its_l1() -> None:
    (event,) = decide(summarize("abc2345", Fidelity.DETAILED), ONE)
    assert event == summarized("abc2345", Fidelity.DETAILED, 9)
    again = remembered(event, before=ONE)
    assert decide(summarize("abc2345", Fidelity.DETAILED), again) == ()
    assert decide(summarize("abc2345", Fidelity.COMPACT), ONE) == ()
    (event,) = decide(summarize("abc2345", Fidelity.COMPACT), again)
    assert isinstance(event, ObjectSummarized)


@pytest.mark.parametrize("fidelity", [Fidelity.FULL, Fidelity.STUB, Fidelity.EVICTED])
def test_the_whole_its_stub_and_nothing_at_all_are_no_renditions(fidelity: Fidelity) -> None:
    assert decide(summarize("abc2345", fidelity), ONE) == ()


def test_a_step_says_where_the_object_stood() -> None:
    where: dict[str, Any] = {"at": 1, "object": "abc2345", "branch": BRANCH, "turn": 9}
    (down,) = decide(degrade("abc2345", Fidelity.STUB), ONE)
    assert down == ObjectDegraded(**where, before=Fidelity.FULL, after=Fidelity.STUB, cause=Cause.PRESSURE)
    (up,) = decide(restore("abc2345", Fidelity.FULL), remembered(down, before=ONE))
    assert up == ObjectRestored(**where, before=Fidelity.STUB, after=Fidelity.FULL, cause=Cause.FAULT)


def test_a_change_of_goal_goes_the_way_that_it_is_told_and_never_below_l2() -> None:
    compact = remembered(degraded("abc2345", Fidelity.COMPACT), before=ONE)
    assert decide(restore("abc2345", Fidelity.DETAILED, cause=Cause.GOAL), compact)
    assert decide(degrade("abc2345", Fidelity.DETAILED, cause=Cause.GOAL), compact) == ()
    assert decide(restore("abc2345", Fidelity.DETAILED, cause=Cause.GOAL), ONE) == ()
    assert decide(degrade("abc2345", Fidelity.STUB, cause=Cause.GOAL), ONE) == ()


def test_a_pin_holds_until_it_ends_or_is_taken_away() -> None:
    pinned = remembered(*decide(pin("abc2345", 9), ONE), before=ONE)
    lower = degrade("abc2345", Fidelity.STUB)
    assert decide(lower, pinned) == ()
    assert decide(attrs.evolve(lower, turn=10), pinned)
    free = remembered(*decide(Unpin(at=2, object="abc2345", reason="r"), pinned), before=pinned)
    assert decide(lower, free)


@pytest.mark.parametrize("tags", [("reminder",), ("reminder", "system"), ("definitions",)])
def test_what_the_operator_says_is_never_shown_at_less(tags: tuple[str, ...]) -> None:
    (made,) = decide(attrs.evolve(create("def2345"), tags=tags), ONE)
    memory = remembered(made, before=ONE)
    assert all(decide(degrade("def2345", each), memory) == () for each in Fidelity)


def test_a_pin_does_not_hold_what_came_back_from_a_window_before() -> None:
    """It has no place in the history of this one: once the answer is gone that held it, nothing shows it any more."""
    state = decide_all((restore("a", Fidelity.FULL, LATER), pin("a"), pin("c")), START)[1]
    assert decide(degrade("a", Fidelity.EVICTED, LATER), state)
    assert decide(degrade("a", Fidelity.EVICTED, BRANCH), state) == ()
    assert decide(degrade("c", Fidelity.EVICTED, LATER), state) == ()


def test_to_pin_and_to_unpin_twice_is_to_do_it_once() -> None:
    events = decide(pin("abc2345"), ONE)
    assert events == (ObjectPinned(at=1, object="abc2345", reason="why", until_turn=None),)
    pinned = remembered(*events, before=ONE)
    assert decide(pin("abc2345"), pinned) == ()
    events = decide(Unpin(at=2, object="abc2345", reason="r"), pinned)
    assert events == (ObjectUnpinned(at=2, object="abc2345", reason="r"),)
    assert decide(Unpin(at=2, object="abc2345", reason="r"), remembered(*events, before=pinned)) == ()


def test_to_pin_again_with_another_end_changes_the_pin() -> None:
    again = decide_all((pin("abc2345"), pin("abc2345", 7)), ONE)[1]
    assert [again.objects["abc2345"].is_pinned(turn) for turn in (7, 8)] == [True, False]


def test_what_is_pinned_or_released_is_not_released() -> None:
    events, after = decide_all((release("abc2345"), release("abc2345")), ONE)
    assert events == (ObjectReleased(at=1, object="abc2345", branch=BRANCH, turn=9, reason="done"),)
    assert after.objects["abc2345"].released
    assert decide(release("abc2345"), decide_all((pin("abc2345"),), ONE)[1]) == ()


def test_what_a_branch_shows_in_full_is_not_wanted_back_and_what_is_wanted_is_so_once_until_it_came() -> None:
    assert decide(request("abc2345"), ONE) == ()
    hidden = remembered(degraded("abc2345", Fidelity.STUB), before=ONE)
    events = decide(request("abc2345"), hidden)
    assert events == (
        ObjectRequested(at=1, object="abc2345", branch=BRANCH, turn=9, after=Fidelity.FULL, reason="done"),
    )
    asked = remembered(*events, before=hidden)
    assert decide(request("abc2345"), asked) == ()
    came = decide_all((restore("abc2345", Fidelity.FULL, cause=Cause.PREFETCH),), asked)[1]
    assert (asked.view_of(BRANCH).requested, came.view_of(BRANCH).requested) == ({"abc2345": Fidelity.FULL}, {})


def test_what_was_released_and_is_wanted_back_is_needed_again() -> None:
    let_go = decide_all(
        (release("abc2345"), request("abc2345")), remembered(degraded("abc2345", Fidelity.STUB), before=ONE)
    )
    assert not let_go[1].objects["abc2345"].released


@pytest.mark.parametrize(("left", "distance"), [(12, 8), (None, 19), (25, 0)])
def test_a_fault_says_how_long_the_object_was_not_missed_and_what_was_avoided(left: int | None, distance: int) -> None:
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
    (event,) = decide(command, state)
    assert event == ObjectFaulted(**where, reason="why?", distance=distance, tokens=60, avoided_tokens=940, latency=5)
    (event,) = decide(attrs.evolve(command, tokens=2_000), state)
    assert event == ObjectFaulted(**where, reason="why?", distance=distance, tokens=2_000, avoided_tokens=0, latency=5)
    assert decide(command, ONE) == ()  # what is shown in full is not missed


def test_what_a_batch_makes_it_can_supersede() -> None:
    command = Supersede(at=0, object="new", branch=BRANCH, by=None, how=Supersession.EDITED)
    events, after = decide_all((create("new", 8), command), ONE)
    assert events[1:] == (superseded("new", Supersession.EDITED),)
    assert after.objects["new"].stale
    assert decide(command, ONE) == ()
