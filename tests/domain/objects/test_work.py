"""What is due follows from state: nothing is lost by a crash, nothing is due twice, and doing what is due ends."""

from functools import reduce
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects import memory, work
from mnemosyne.domain.objects.aggregate import WORTH_SUMMARIZING
from mnemosyne.domain.objects.decide import Summarize, decide
from mnemosyne.domain.objects.events import (
    Admission,
    BlockPlace,
    Losses,
    ObjectCreated,
    ObjectEvent,
    ObjectForgotten,
    ObjectSummarized,
    ObjectSuperseded,
    Supersession,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.losses import Declared, Loss, Measured, SpotCheck
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.work import (
    SHARE,
    SHORTEST_COMPACT,
    OwedSummary,
    due,
    losses_of,
)
from mnemosyne.domain.ports import Envelope
from mnemosyne.domain.text.entities import SpecificKind

L1, L2 = Fidelity.DETAILED, Fidelity.COMPACT
ALL = 10**6


def created(name: str, *, size: int = 5_000, admitted: bool = True, **changes: Any) -> ObjectCreated:
    event = ObjectCreated(
        at=1,
        object=name,
        branch="main",
        turn=1,
        kind=ObjectKind.FILE_CONTEXT,
        role=Role.TRANSCRIPT,
        source_tool="Read",
        source_key="/a.py",
        tags=(),
        first_turn=1,
        last_turn=1,
        places=(BlockPlace(0, 0),),
        content=b"",
        size=size,
        tokens=size // 3,
        stub="stub",
        stub_tokens=2,
        key_entities=(),
        links=(),
        admission=Admission(type_prior=0, novelty=0, utility=0, recency=0, score=0, admitted=admitted),
    )
    return attrs.evolve(event, **changes)


def done(name: str, fidelity: Fidelity) -> Summarize:
    return Summarize(
        at=2,
        object=name,
        fidelity=fidelity,
        text=b"t" * 32,
        size=9,
        tokens=3,
        helper="h",
        losses=Losses(),
        nanodollars=0,
    )


def fold(*events: ObjectEvent) -> Memory:
    return reduce(memory.evolve, events, Memory())


def targets(state: Memory, limit: int = ALL) -> list[tuple[str, Fidelity]]:
    return [each.target for each in due(state, limit)]


def test_an_l1_is_owed_first_and_then_an_l2_made_of_it() -> None:
    state = fold(created("a"))
    [owed] = due(state, ALL)
    assert (owed.target, owed.detailed, owed.target_chars) == (("a", L1), None, 1_500)
    state = fold(created("a"), *decide(done("a", L1), state))
    [owed] = due(state, ALL)
    assert (owed.target, owed.detailed, owed.target_chars) == (("a", L2), b"t" * 32, 250)
    assert (
        targets(
            fold(created("a"), *[ObjectSummarized(**attrs.asdict(done("a", each), recurse=False)) for each in SHARE])
        )
        == []
    )


def test_an_l2_has_room_for_more_than_a_stub() -> None:
    [owed] = due(fold(created("a", size=WORTH_SUMMARIZING)), ALL)
    assert attrs.evolve(owed, fidelity=L2).target_chars == SHORTEST_COMPACT < owed.target_chars


def test_nothing_is_owed_to_what_is_small_derived_not_admitted_replaced_or_forgotten() -> None:
    replaced = ObjectSuperseded(at=1, object="r", branch="main", by="a", how=Supersession.REREAD)
    edited = ObjectSuperseded(at=1, object="e", branch="main", by=None, how=Supersession.EDITED)
    state = fold(
        created("s", size=WORTH_SUMMARIZING - 1),
        created("d", places=()),
        created("n", admitted=False),
        created("r"),
        created("f"),
        created("e"),
        created("a"),
        replaced,
        edited,
        ObjectForgotten(at=1, object="f", reason="x"),
    )
    assert sorted(targets(state)) == [("a", L1), ("e", L1)]


def test_what_is_large_and_long_unused_comes_first() -> None:
    state = fold(created("small", size=2_000), created("large", size=9_000), created("new", size=9_000, last_turn=9))
    shown = state.view_of("main")
    shown = attrs.evolve(shown, measure=attrs.evolve(shown.measure, turn=9))
    assert targets(state.with_view("main", shown)) == [("large", L1), ("small", L1), ("new", L1)]


def test_only_what_is_asked_for_is_written_out_however_much_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(**fields: Any) -> OwedSummary:
        made.append(fields["object"])
        return OwedSummary(**fields)

    state = fold(*(created(f"o{number}") for number in range(500)))
    monkeypatch.setattr(work, "OwedSummary", counted)
    assert [each.object for each in due(state, 8)] == made
    assert len(made) == 8


def test_what_was_given_up_is_not_owed() -> None:
    state = fold(created("a"), created("b"))
    assert [each.target for each in due(state, ALL, {("a", L1)})] == [("b", L1)]


def test_losses_name_every_kind_before_one_twice() -> None:
    paths, numbers = SpecificKind.PATH, SpecificKind.NUMBER
    measured = Measured(
        (Loss(paths, 9, 9, ("a", "b", "c")), Loss(numbers, 2, 3, ("1",)), Loss(SpecificKind.URL, 0, 1, ()))
    )
    losses = losses_of(Declared(dropped=("d",), fault_when=("w",)), measured)
    assert (losses.dropped, losses.fault_when) == (("d",), ("w",))
    assert losses.lost == {paths.value: 9, numbers.value: 2}
    assert losses.sample == ("a", "1", "b", "c")


OBJECTS = st.lists(
    st.builds(
        lambda size, admitted, last_turn: {"size": size, "admitted": admitted, "last_turn": last_turn},
        st.sampled_from([10, 1_499, 1_500, 4_000, 90_000]),
        st.booleans(),
        st.integers(1, 9),
    ),
    max_size=8,
)
CODEC = event_codec()


def stored(events: list[ObjectEvent]) -> list[ObjectEvent]:
    """The events as a process reads them that begins after a crash."""
    return [CODEC.decode(*CODEC.encode(Envelope(each, "c"))).event for each in events]


@given(OBJECTS, st.integers(1, 3), st.data())
def test_doing_what_is_due_ends_does_nothing_twice_and_survives_a_crash_at_any_point(
    objects: list[dict[str, Any]], limit: int, data: st.DataObject
) -> None:
    events: list[ObjectEvent] = [created(f"o{number}", **each) for number, each in enumerate(objects)]
    state = fold(*events)
    made: list[OwedSummary] = []
    while owed := due(state, limit):
        assert len(owed) <= limit
        each = data.draw(st.sampled_from(owed))
        assert each not in made
        made.append(each)
        new = decide(done(*each.target), state)
        assert len(new) == 1
        events += new
        state = reduce(memory.evolve, new, state)
        assert due(fold(*stored(events)), ALL) == due(state, ALL)
    worth = sum(each["size"] >= WORTH_SUMMARIZING and each["admitted"] for each in objects)
    assert len(made) == 2 * worth


def test_what_an_l1_dropped_its_l2_has_dropped_too_and_says_how_much_it_is_now() -> None:
    before = losses_of(Declared(dropped=("2 of 9 hits", "the licence"), fault_when=("a.py",)), Measured(()))
    losses = losses_of(Declared(dropped=("8 of 9 hits",), fault_when=("b.py",)), Measured(()), before)
    assert losses.dropped == ("8 of 9 hits", "the licence")
    assert losses.fault_when == ("b.py", "a.py")


def test_what_a_spot_check_found_is_recorded_with_the_losses() -> None:
    losses = losses_of(Declared(), Measured(()), None, SpotCheck(3, ("what failed",)))
    assert (losses.asked, losses.failed) == (3, ("what failed",))
