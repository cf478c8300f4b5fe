"""Protected objects are kept, and each further fault protects an object for longer."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.aggregate import MemoryObject, Pinned, evolve, make_object
from mnemosyne.domain.objects.events import BlockPlace, ObjectPinned
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.followed_plan import LARGEST
from mnemosyne.domain.objects.kinds import REFERENCED
from mnemosyne.domain.objects.memory import Measure, fork
from mnemosyne.domain.objects.protection import (
    FAULT_PROTECTION,
    Now,
    Resident,
    find_no_room,
    is_kept,
    last_protected_turn,
)
from tests.domain.remembered import BRANCH, created, faulted, made, remembered
from tests.domain.session_events import assessed

PLAIN = make_object(made("o", 1, tokens=1_000))
NOW = Now(turn=100, message_count=200, last_user_messages=(100, 150))


def test_followed_plan_is_kept_unless_it_is_too_large() -> None:
    followed = attrs.evolve(NOW, plan=frozenset({"o"}))
    assert is_kept(Resident(PLAIN, Fidelity.FULL), NOW) is None
    assert is_kept(Resident(PLAIN, Fidelity.FULL), followed) == "part of the plan that is being followed"
    large = attrs.evolve(PLAIN, tokens=LARGEST + 1)
    assert is_kept(Resident(large, Fidelity.FULL), followed) is None


TURNS = st.integers(0, 120)
OBJECTS = st.builds(
    attrs.evolve, st.just(PLAIN), faults=st.integers(0, 5), last_use=TURNS, last_fault=st.none() | TURNS
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tags": ("reminder", "system")}, "the operator's words"),
        ({"tags": ("definitions",), "released": True}, "the operator's words"),
        ({"pin": Pinned("goal", None)}, "pinned"),
        ({"pin": Pinned("goal", 100)}, "pinned"),
        ({"pin": Pinned("goal", 99)}, None),
        ({"places": (BlockPlace(150, 0),)}, "among the user's last messages"),
        ({"places": (BlockPlace(151, 0),)}, None),
        ({"places": (BlockPlace(194, 0),)}, "in the exchange's recent rounds"),
        ({"places": (BlockPlace(193, 0), BlockPlace(194, 1))}, "in the exchange's recent rounds"),
        ({"places": (BlockPlace(193, 0),)}, None),
        ({"last_fault": 92, "faults": 1}, "needed again lately"),
        ({"last_fault": 91, "faults": 1}, None),
        ({"last_fault": 84, "faults": 2}, "needed again lately"),
        ({"last_fault": 99, "faults": 1, "released": True}, None),
        ({"last_fault": 99, "faults": 1, "superseded_by": "x"}, None),
    ],
)
def test_kept_objects_have_a_reason(changes: dict[str, Any], reason: str | None) -> None:
    assert is_kept(Resident(attrs.evolve(PLAIN, **changes), Fidelity.FULL), NOW) == reason


def test_rounds_of_an_earlier_exchange_are_not_recent() -> None:
    now = attrs.evolve(NOW, last_user_messages=(198,))
    assert is_kept(Resident(attrs.evolve(PLAIN, places=(BlockPlace(197, 0),)), Fidelity.FULL), now) is None


@given(OBJECTS, st.integers(0, 200))
def test_fault_protects_and_further_faults_never_shorten_protection(each: MemoryObject, turn: int) -> None:
    fault = faulted("o", turn)
    once = evolve(each, fault)
    twice = evolve(once, fault)
    first, second = last_protected_turn(once), last_protected_turn(twice)
    assert first is not None
    assert second is not None
    assert turn + FAULT_PROTECTION <= first <= second <= turn + 8 * FAULT_PROTECTION


def test_object_referenced_by_the_provider_is_kept_at_any_age() -> None:
    old = Resident(PLAIN, Fidelity.FULL)
    assert is_kept(old, NOW) is None
    referenced = attrs.evolve(PLAIN, tags=(REFERENCED,))
    assert is_kept(Resident(referenced, Fidelity.FULL), NOW) == "known to the provider by a reference"


def test_pins_hold_at_most_half_of_the_window_of_every_branch_that_has_the_object() -> None:
    memory = remembered(*(created(each, 1 + 2 * number, tokens=4_000) for number, each in enumerate(OBJECTS_PINNED)))
    memory = fork(memory, "fork", BRANCH, 9, 9)
    for name, usable in ((BRANCH, 20_000), ("fork", 10_000)):
        shown, full = memory.view_of(name), attrs.evolve(assessed(9), branch=name, usable=usable)
        memory = memory.with_view(name, attrs.evolve(shown, measure=attrs.evolve(shown.measure, assessed=full)))
    first, second, third = (ObjectPinned(at=1, object=each, reason="r", until_turn=None) for each in OBJECTS_PINNED)
    assert find_no_room(memory, first.object, None, estimated) is None
    memory = remembered(first, before=memory)
    assert str(find_no_room(memory, second.object, None, estimated)).startswith(
        f"#{second.object} has about 4,000 tokens. In bra"
    )
    assert find_no_room(memory, second.object, BRANCH, estimated) is None
    memory = remembered(attrs.evolve(second, branch=BRANCH), before=memory)
    assert find_no_room(memory, third.object, BRANCH, estimated) == (
        f"#{third.object} has about 4,000 tokens. In branch main, pins may take 10,000 tokens, half of its window;"
        f" those there take 8,000, the largest: #{first.object} (4,000), #{second.object} (4,000). Unpin others first."
    )
    assert find_no_room(memory, second.object, BRANCH, estimated) is None  # renewing a pin takes no more room
    shown = memory.view_of(BRANCH)
    evicted = memory.with_view(BRANCH, attrs.evolve(shown, fidelity=dict.fromkeys(OBJECTS_PINNED, Fidelity.EVICTED)))
    assert find_no_room(evicted, third.object, BRANCH, estimated) is not None  # a restore would bring it back in full
    new = memory.with_view(BRANCH, attrs.evolve(shown, measure=Measure()))
    assert "may take 5,000 tokens" in str(
        find_no_room(new, third.object, BRANCH, estimated)
    )  # the limit of the last request in another branch


def estimated(each: MemoryObject) -> MemoryObject:
    return each


OBJECTS_PINNED = ("abc2345", "def2345", "ghj2345")
