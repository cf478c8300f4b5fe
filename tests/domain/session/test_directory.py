"""The directory knows the same of a session as the loaded session."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.knowledge.decide import Place
from mnemosyne.domain.knowledge.kinds import Scope
from mnemosyne.domain.knowledge.knowledge_store import knowledge_stream
from mnemosyne.domain.session.decide import SetMode
from mnemosyne.domain.session.directory import (
    mode_decisions,
    modes_by_branch,
    modes_by_conversation,
    off_since,
    operator_stream,
    stream_of,
)
from mnemosyne.domain.session.round_events import UNTIL_EVICTED, ManagingSwitched, Mode
from mnemosyne.domain.wire.dialects import MAIN
from mnemosyne.domain.wire.identity import RequestKind, RequestOrigin
from tests.domain.stories import Story, origin

HISTORIES = st.sampled_from(["a b c", "a b c d e", "a x c", "z"])
ORIGINS = st.sampled_from([origin(), origin(agent="a1"), origin(kind=RequestKind.SIDE)])
MODES = st.sampled_from([None, *Mode])


@given(st.lists(st.tuples(HISTORIES, ORIGINS, MODES), max_size=6))
def test_modes_from_two_event_kinds_equal_modes_from_the_whole_session(
    steps: list[tuple[str, RequestOrigin, Mode | None]],
) -> None:
    story = Story()
    for history, who, mode in steps:
        began = story.begin(history, who=who)
        if mode is not None:
            story.do(SetMode(at=9, branch=began.branch, mode=mode, why="w"))
    ours = {
        conversation: mode for conversation, mode in modes_by_branch(story.events).items() if mode is not Mode.OBSERVE
    }
    assert ours == {
        conversation: mode
        for conversation, mode in modes_by_conversation(story.state).items()
        if mode is not Mode.OBSERVE
    }


def test_a_forked_agent_keeps_its_own_name_in_its_parents_conversation() -> None:
    story = Story()
    main = story.begin("a b c")
    story.do(SetMode(at=1, branch=main.branch, mode=Mode.MANAGE, why="w"))
    fork = story.begin("a b c d", who=attrs.evolve(origin(agent="x"), conversation=MAIN))
    assert fork.branch == "fork-1"
    story.begin("z", who=origin(agent="y"))
    expected = {MAIN: Mode.MANAGE, "agent:x": Mode.MANAGE, "agent:y": Mode.OBSERVE}
    assert modes_by_conversation(story.state) == modes_by_branch(story.events) == expected


def test_mode_decisions_include_the_reason_and_a_fork_inherits_its_parents() -> None:
    story = Story()
    first = story.begin("a b c")
    assert mode_decisions(story.events) == {}
    story.do(SetMode(at=1, branch=first.branch, mode=Mode.OBSERVE, why="its client offers no tools"))
    fork = story.begin("a x c")
    decisions = mode_decisions(story.events)
    assert decisions[first.branch].why == "its client offers no tools"
    assert (fork.branch != first.branch, decisions[fork.branch]) == (True, decisions[first.branch])


@pytest.mark.parametrize(("switches", "since"), [((), None), ((False,), 0), ((False, True), None), ((True, False), 1)])
def test_the_operators_last_switch_counts(switches: tuple[bool, ...], since: int | None) -> None:
    assert off_since([ManagingSwitched(at=at, on=on, why="w") for at, on in enumerate(switches)]) == since


def test_streams_of_tenants_and_operators_never_meet() -> None:
    streams = {stream_of("t", "s"), stream_of("u", "s"), stream_of("t", ""), operator_stream("t"), operator_stream("u")}
    assert len(streams) == 5
    assert stream_of("t", "s") == stream_of("t", "s")


def test_no_client_name_maps_to_the_operators_stream() -> None:
    known = knowledge_stream(Place("t", Scope.PROJECT, "/work"))
    assert stream_of("t", "\0operator") != operator_stream("t")
    assert stream_of("t", "\0knowledge\0project\0/work") != known


def test_only_a_branch_that_was_managed_is_shown_as_no_longer_managed() -> None:
    story = Story()
    never = story.begin("a b c")
    story.do(SetMode(at=1, branch=never.branch, mode=Mode.BYPASS, why="no answer in time"))
    other = story.begin("z")
    story.do(SetMode(at=2, branch=other.branch, mode=Mode.MANAGE, why="asked for"))
    fork = story.begin("z y", who=attrs.evolve(origin(agent="x"), conversation=MAIN))
    again = story.begin("a x c")
    for branch in (other.branch, fork.branch, again.branch):
        story.do(SetMode(at=3, branch=branch, mode=Mode.BYPASS, why="off"))
    shown = {name: each.mode for name, each in mode_decisions(story.events).items()}
    managed_before = {other.branch: Mode.BYPASS, fork.branch: Mode.BYPASS}
    assert shown == managed_before | {never.branch: Mode.OBSERVE, again.branch: Mode.OBSERVE}
    assert modes_by_branch(story.events)[MAIN] is Mode.BYPASS, "what is sent does not change"


def test_branch_that_waits_for_its_memory_tools_is_shown_as_managed_and_then_as_no_longer_managed() -> None:
    story = Story()
    branch = story.begin("a b c").branch
    for mode, why, shown in (
        (Mode.OBSERVE, "its first request could not wait", Mode.OBSERVE),
        (Mode.OBSERVE, UNTIL_EVICTED, Mode.MANAGE),
        (Mode.BYPASS, "off", Mode.BYPASS),
    ):
        story.do(SetMode(at=1, branch=branch, mode=mode, why=why, late=why == UNTIL_EVICTED))
        assert (mode_decisions(story.events)[branch].mode, modes_by_branch(story.events)[MAIN]) == (shown, mode)
