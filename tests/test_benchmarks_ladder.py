"""The ladder's swaps change the step that they name and no other, and never to a form that frees nothing."""

import pytest

from benchmarks import ladder
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.window.keeping import Candidate


def candidate(kind: ObjectKind, detailed: int | None = 300) -> Candidate:
    """An object in full, of 1,000 tokens."""
    return Candidate(
        key="a",
        kind=kind,
        role=Role.TRANSCRIPT,
        tags=(),
        source_key=None,
        fidelity=Fidelity.FULL,
        tokens=(1000, detailed, 60, 30, 10),
        thinking=0,
        born=1,
        last_use=1,
        last_fault=None,
        stale=False,
        kept=False,
    )


@pytest.mark.parametrize(
    ("kind", "planned", "tried"),
    [
        (ObjectKind.TOOL_RESULT, Fidelity.EVICTED, Fidelity.DETAILED),
        (ObjectKind.TOOL_RESULT, Fidelity.STUB, Fidelity.STUB),
        (ObjectKind.PLAN, Fidelity.EVICTED, Fidelity.EVICTED),
        (ObjectKind.CONVERSATION_PHASE, Fidelity.COMPACT, Fidelity.COMPACT),
    ],
)
def test_only_what_a_tool_brought_is_kept_longer(kind: ObjectKind, planned: Fidelity, tried: Fidelity) -> None:
    """An eviction of anything else, and any other step, stays as planned."""
    assert ladder.fetched_at(Fidelity.DETAILED)(candidate(kind), planned) is tried


def test_what_has_no_smaller_form_is_evicted_as_planned() -> None:
    """No rendition, or one as large as the whole: there is nothing to show instead."""
    swap = ladder.fetched_at(Fidelity.DETAILED)
    for detailed in (None, 1000):
        assert swap(candidate(ObjectKind.TOOL_RESULT, detailed), Fidelity.EVICTED) is Fidelity.EVICTED


def test_only_what_was_to_be_compact_is_said_otherwise() -> None:
    """The swap for what was said leaves evictions alone."""
    swap = ladder.said_at(Fidelity.STUB)
    said = candidate(ObjectKind.CONVERSATION_PHASE)
    assert swap(said, Fidelity.COMPACT) is Fidelity.STUB
    assert swap(said, Fidelity.EVICTED) is Fidelity.EVICTED
