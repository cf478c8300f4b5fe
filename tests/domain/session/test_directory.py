"""What is known of a session before it is loaded is what is known of it once it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.session.decide import SetMode
from mnemosyne.domain.session.directory import decided_modes, is_off, lane_modes, operator_stream, stream_of
from mnemosyne.domain.session.round_events import ManagingSwitched, Mode
from mnemosyne.domain.wire.identity import MAIN, Caller, Kind
from tests.domain.stories import Story, caller

HISTORIES = st.sampled_from(["a b c", "a b c d e", "a x c", "z"])
CALLERS = st.sampled_from([caller(), caller(agent="a1"), caller(kind=Kind.SIDE)])
MODES = st.sampled_from([None, *Mode])


@given(st.lists(st.tuples(HISTORIES, CALLERS, MODES), max_size=6))
def test_the_few_events_that_are_looked_at_say_what_the_whole_session_says(
    steps: list[tuple[str, Caller, Mode | None]],
) -> None:
    story = Story()
    for history, who, mode in steps:
        began = story.begin(history, who=who)
        if mode is not None:
            story.do(SetMode(at=9, branch=began.branch, mode=mode, why="w"))
    ours = {lane: mode for lane, mode in decided_modes(story.events).items() if mode is not Mode.OBSERVE}
    assert ours == {lane: mode for lane, mode in lane_modes(story.state).items() if mode is not Mode.OBSERVE}


def test_beside_a_managed_conversation_a_request_that_is_not_changes_nothing() -> None:
    story = Story()
    managed = story.begin("a")
    story.do(SetMode(at=1, branch=managed.branch, mode=Mode.MANAGE, why="w"))
    story.begin("z")
    assert lane_modes(story.state)[MAIN] is Mode.MANAGE


@pytest.mark.parametrize(("switches", "off"), [((), False), ((False,), True), ((False, True), False)])
def test_the_operator_s_last_word_counts(switches: tuple[bool, ...], off: bool) -> None:
    assert is_off([ManagingSwitched(at=1, on=on, why="w") for on in switches]) == off


def test_streams_of_tenants_and_operators_never_meet() -> None:
    streams = {stream_of("t", "s"), stream_of("u", "s"), stream_of("t", ""), operator_stream("t"), operator_stream("u")}
    assert len(streams) == 5
    assert stream_of("t", "s") == stream_of("t", "s")
