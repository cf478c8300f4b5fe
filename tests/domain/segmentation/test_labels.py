"""Segmentation compared with objects that were labeled by hand in recorded sessions."""

import pytest

from benchmarks.segmentation import agreement, recorded_sessions
from mnemosyne.domain.objects.kinds import ObjectKind


@pytest.mark.release
def test_segmentation_agrees_with_the_labels() -> None:
    """Kinds and boundaries of over 300 objects, chosen at random and labeled before the code was run on them."""
    sessions = recorded_sessions()
    if not sessions:
        pytest.skip("recorded inputs are not here: ../shared/data/sessions")
    measured = agreement(sessions)
    assert measured.labelled.total() >= 300
    assert measured.boundaries >= 0.95
    for kind in (
        ObjectKind.CONVERSATION_PHASE,
        ObjectKind.FILE_CONTEXT,
        ObjectKind.TOOL_RESULT,
        ObjectKind.ERROR_CONTEXT,
    ):
        assert measured.precision(kind) >= 0.95, kind
        assert measured.recall(kind) >= 0.95, kind
