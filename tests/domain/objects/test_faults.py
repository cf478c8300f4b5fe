"""Faults: when a branch evicted an object, and implicit faults."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.decide import decide_all
from mnemosyne.domain.objects.events import (
    FaultKind,
    ObjectCreated,
    ObjectEvent,
    ObjectFaulted,
    ObjectRestored,
    Supersession,
)
from mnemosyne.domain.objects.faults import EvictionTurns, implicit
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.memory import Memory
from tests.domain.remembered import BRANCH, created, degraded, remembered, superseded

# EvictionTurns


def test_latest_eviction_counts_until_the_object_is_restored_in_full() -> None:
    restored = ObjectRestored(
        at=0, object="abc2345", branch=BRANCH, turn=15, before=Fidelity.STUB, after=Fidelity.FULL, cause=Cause.FAULT
    )
    left = EvictionTurns()
    turns = []
    for event in (
        degraded("abc2345", Fidelity.COMPACT, turn=10),
        degraded("abc2345", Fidelity.STUB, turn=12, before=Fidelity.COMPACT),
        restored,
        degraded("abc2345", Fidelity.STUB, turn=18),
    ):
        left = left.after(event, Memory())
        turns.append(left.find_turn(BRANCH, "abc2345"))
    assert turns == [10, 10, None, 18]
    fork = left.fork("fork", BRANCH)
    assert fork.find_turn("fork", "abc2345") == 18
    assert fork.find_turn("agent", "abc2345") is None


# Implicit faults

READ = created("old2345", 3)
LEFT = degraded("old2345", Fidelity.STUB)
AGAIN = created("new2345", 41, tokens=900)


def missed(state: Memory, *events: ObjectEvent) -> list[ObjectFaulted]:
    commands = list(implicit(events, state, EvictionTurns().after(LEFT, state), at=7, branch=BRANCH, turn=21))
    decided, _ = decide_all(commands, remembered(*events, before=state))
    records = [each for each in decided if isinstance(each, ObjectFaulted)]
    assert len(records) == len(commands)
    return records


def test_reread_of_an_evicted_file_is_an_implicit_fault() -> None:
    (record,) = missed(remembered(READ, LEFT), AGAIN, superseded("old2345", Supersession.REREAD, "new2345"))
    assert (record.object, record.kind, record.turn, record.at) == ("old2345", FaultKind.IMPLICIT, 21, 7)
    assert (record.distance, record.tokens, record.avoided_tokens) == (11, 900, 100)
    assert record.reason == "fetched again as #new2345"


def test_reread_is_an_implicit_fault_after_an_edit_of_another_file() -> None:
    edit = created("edi2345", 21, source_key="b.py", tags=("edit",))
    assert len(missed(remembered(READ, LEFT, edit), AGAIN)) == 1


def ran(object_id: str, message: int) -> ObjectCreated:
    return created(
        object_id, message, kind=ObjectKind.TOOL_RESULT, source_tool="Bash", source_key="Bash git log", tags=()
    )


def test_rerun_of_a_command_is_an_implicit_fault_unless_a_file_was_edited() -> None:
    state = remembered(ran("old2345", 3), LEFT)
    assert [each.object for each in missed(state, ran("new2345", 41))] == ["old2345"]
    edit = created("edi2345", 21, source_key="b.py", tags=("edit",))
    assert not missed(remembered(edit, before=state), ran("new2345", 41))
    assert not missed(state, edit, ran("new2345", 41))
    earlier = created("edi2345", 1, source_key="b.py", tags=("edit",))
    assert missed(remembered(earlier, before=state), ran("new2345", 41))


@pytest.mark.parametrize(
    ("why", "before", "now"),
    [
        ("it is in the window", [READ], [AGAIN]),
        ("it was edited since", [READ, LEFT, superseded("old2345", Supersession.EDITED)], [AGAIN]),
        ("it was edited in this turn", [READ, LEFT], [superseded("old2345", Supersession.EDITED), AGAIN]),
        ("it was read again before, and that is in the window",
         [READ, LEFT, created("mid2345", 21), superseded("old2345", Supersession.REREAD, "mid2345")], [AGAIN]),
        ("it was read again before, though not all of it, and that is in the window",
         [READ, LEFT, created("mid2345", 21, tags=("read", "lines:1-9"))], [AGAIN]),
        ("it is another file", [READ, LEFT], [created("new2345", 41, source_key="src/b.py")]),
        ("it is another part", [created("old2345", 3, tags=("read", "lines:1-50")), LEFT],
         [created("new2345", 41, tags=("read", "lines:60-90"))]),
        ("it is written, not read", [READ, LEFT], [created("new2345", 41, tags=("write", "whole"))]),
        ("it has no source", [created("old2345", 3, source_key=None), LEFT], [created("new2345", 41, source_key=None)]),
        ("it comes from before", [READ, LEFT], [created("new2345", 1)]),
    ],
)  # fmt: skip
def test_refetch_is_not_a_fault_when(why: str, before: list[ObjectEvent], now: list[ObjectEvent]) -> None:
    assert not missed(remembered(*before), *now)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("read", "whole"), ("read", "lines:60-90")),
        (("read", "lines:1-50"), ("read", "lines:40-60")),
        (("read", "lines:1-50"), ("read",)),
        (("write", "whole"), ("read", "whole")),
    ],
)
def test_reread_of_a_part_is_a_fault(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    state = remembered(created("old2345", 3, tags=old), LEFT)
    assert len(missed(state, created("new2345", 41, tags=new))) == 1


KEYS = st.sampled_from(["a.py", "b.py", None])
TAGS = st.sampled_from([("read", "whole"), ("read", "lines:1-9"), ("edit",), ("write", "whole"), ()])
KINDS = st.sampled_from([ObjectKind.FILE_CONTEXT, ObjectKind.TOOL_RESULT, ObjectKind.CONVERSATION_PHASE])
LOOKS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.fixed_dictionaries({"source_key": KEYS, "tags": TAGS, "kind": KINDS}), max_size=5
)


@given(LOOKS, st.lists(st.sampled_from(Fidelity), min_size=5, max_size=5), LOOKS)
def test_every_implicit_fault_is_for_an_object_not_shown_in_full(
    before: list[dict[str, Any]], fidelities: list[Fidelity], now: list[dict[str, Any]]
) -> None:
    olds = [created(f"old{number}", 1 + 2 * number, **looks) for number, looks in enumerate(before)]
    downs = [degraded(old.object, low) for old, low in zip(olds, fidelities, strict=False) if low]
    state = remembered(*olds, *downs)
    news = [created(f"new{number}", 41 + 2 * number, **looks) for number, looks in enumerate(now)]
    found = missed(state, *news)
    assert len(found) <= len(news)
    for each in found:
        assert state.view_of(BRANCH).fidelity_of(each.object) is not Fidelity.FULL
        assert state.objects[each.object].source_key is not None


def test_an_object_that_reads_no_file_is_compared_with_no_other() -> None:
    """Otherwise, to load a long session takes twice as long."""
    blind = attrs.evolve(remembered(READ, LEFT), objects={})
    assert EvictionTurns().after(ran("new2345", 41), blind) == EvictionTurns()
