"""Segmentation against objects that were labelled by hand in recorded sessions."""

import pytest

from benchmarks.segmentation import agreement, recorded_sessions
from mnemosyne.domain.objects.kinds import ObjectKind


def test_it_agrees_with_the_labels() -> None:
    """Kinds and boundaries of over 300 objects, chosen at random and labelled before the code was tried on them."""
    sessions = recorded_sessions()
    if not sessions:
        pytest.skip("recorded inputs are not here: ../shared/data/sessions")
    found = agreement(sessions)
    assert found.labelled.total() >= 300
    assert found.boundaries >= 0.97
    for kind in (
        ObjectKind.CONVERSATION_PHASE,
        ObjectKind.FILE_CONTEXT,
        ObjectKind.TOOL_RESULT,
        ObjectKind.ERROR_CONTEXT,
    ):
        assert found.precision(kind) >= 0.95, kind
        assert found.recall(kind) >= 0.95, kind
    assert found.precision(ObjectKind.DESIGN_DECISION) == 1.0
