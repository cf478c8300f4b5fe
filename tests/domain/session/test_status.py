"""The status of a session."""

import pytest

from mnemosyne.domain.session.status import ENDED_AFTER, IDLE_AFTER, find_status


@pytest.mark.parametrize(
    ("quiet", "state", "stop_reason", "status"),
    [
        (IDLE_AFTER, "finished", "end_turn", "active"),
        (IDLE_AFTER + 1, "finished", "end_turn", "idle"),
        (ENDED_AFTER, "open", None, "active"),
        (ENDED_AFTER, "finished", "tool_use", "idle"),
        (ENDED_AFTER + 1, "finished", "end_turn", "completed"),
        (ENDED_AFTER + 1, "finished", "tool_use", "abandoned"),
        (ENDED_AFTER + 1, "interrupted", "end_turn", "abandoned"),
        (ENDED_AFTER + 1, "open", None, "abandoned"),
        (ENDED_AFTER + 1, None, None, "abandoned"),
    ],
)
def test_a_session_is_idle_after_five_minutes_and_ends_after_a_day(
    quiet: int, state: str | None, stop_reason: str | None, status: str
) -> None:
    assert find_status(quiet, state, stop_reason).value == status


@pytest.mark.parametrize(
    ("quiet", "closed", "archived", "status"),
    [
        (1, True, False, "completed"),
        (1, True, True, "archived"),
        (ENDED_AFTER, False, True, "idle"),
        (ENDED_AFTER + 1, False, True, "archived"),
    ],
)
def test_a_closed_session_has_ended_at_once_and_an_archived_one_only_if_it_ended(
    quiet: int, closed: bool, archived: bool, status: str
) -> None:
    assert find_status(quiet, "finished", "end_turn", closed=closed, archived=archived).value == status
