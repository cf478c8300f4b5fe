"""Directives may do what the memory tools may do, and set a limited number of pins."""

from functools import reduce

import attrs

from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.events import ObjectPinned, ObjectReleased
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.protection import Now
from mnemosyne.domain.recall.cleanup_effects import ANCHOR_TURNS, MOST_ANCHORED, Effects, effects
from mnemosyne.domain.tools.cleanup_tags import Anchor, Collapse, Directive, Drop, Ignored, TagSummary
from tests.domain.remembered import BRANCH, created, remembered
from tests.domain.session_events import assessed

NOW = Now(turn=20, message_count=40, last_user_messages=(30, 34))
STATE = remembered(created("old2345", 1), created("mid2345", 5), created("new2345", 38))


def found(directive: Directive | Ignored, state: Memory = STATE) -> Effects:
    return effects(directive, state, BRANCH, NOW, at=1, size=lambda each: each)


def test_dropped_objects_are_released_unless_protected() -> None:
    result = found(Drop(("old2345", "new2345", "gone234")))
    assert [(type(each), each.object) for each in result.events] == [(ObjectReleased, "old2345")]
    assert [each.text for each in result.ignored] == ["new2345", "gone234"]


def test_anchor_pins_with_its_reason_and_expires() -> None:
    (pin,) = found(Anchor(("old2345",), "the plan")).events
    until = 20 + ANCHOR_TURNS
    assert pin == ObjectPinned(at=1, object="old2345", branch=BRANCH, reason="anchor: the plan", until_turn=until)
    state = remembered(pin, before=STATE)
    pinned = state.view_of(BRANCH).own(state.objects["old2345"])
    assert (pinned.is_pinned(until), pinned.is_pinned(until + 1)) == (True, False)
    assert found(Anchor(("old2345",), "still"), state).events  # it can be renewed


def test_anchors_are_limited_and_never_replace_a_persons_pin() -> None:
    ids = [f"obj{number:04}" for number in range(MOST_ANCHORED + 3)]
    state = remembered(*[created(each, 1 + 2 * number) for number, each in enumerate(ids)])
    pins = found(Anchor(tuple(ids), ""), state)
    assert [each.object for each in pins.events] == ids[:MOST_ANCHORED]
    assert len(pins.ignored) == 3
    full = reduce(memory.evolve, pins.events, state)
    assert not found(Anchor((ids[-1],), ""), full).events
    by_hand = remembered(ObjectPinned(at=0, object="old2345", reason="by hand", until_turn=None), before=STATE)
    assert not found(Anchor(("old2345",), ""), by_hand).events


def test_anchors_of_one_tag_hold_at_most_half_of_the_window() -> None:
    shown = STATE.view_of(BRANCH)
    full = attrs.evolve(shown.measure, assessed=attrs.evolve(assessed(20), usable=4_000))
    state = STATE.with_view(BRANCH, attrs.evolve(shown, measure=full))
    pins = found(Anchor(("old2345", "mid2345", "new2345"), ""), state)
    assert [each.object for each in pins.events] == ["old2345", "mid2345"]
    assert ["half of its window" in each.reason for each in pins.ignored] == [True]


def test_summary_is_accepted_only_for_an_object_of_the_branch() -> None:
    summary = TagSummary("old2345", "short", ("the rest",))
    assert found(summary) == Effects()
    assert [each.text for each in found(TagSummary("gone234", "short")).ignored] == ["gone234"]


def test_collapsed_turns_are_released_except_protected_objects() -> None:
    result = found(Collapse(1, 99, "all of it"))
    assert [each.object for each in result.events] == ["old2345", "mid2345"]
    assert [each.text for each in result.ignored] == ["new2345"]
    assert found(Collapse(50, 99, "nothing there")) == Effects()


def test_ignored_directive_has_no_effect() -> None:
    assert found(Ignored("x", "why")) == Effects(ignored=(Ignored("x", "why"),))
