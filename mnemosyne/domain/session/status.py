"""The status of a session, from recorded facts: no client says when a session ends, but a person may."""

from enum import Enum

from mnemosyne.domain.wire.reply import is_whole

IDLE_AFTER = 5 * 60 * 1_000_000
"""µs without activity after which a session is idle: the shortest lifetime of a provider's cache."""

ENDED_AFTER = 24 * 60 * 60 * 1_000_000
"""µs without activity after which a session has ended."""


class SessionStatus(Enum):
    """Whether a session is in use or has ended. An ended session can be resumed, and is then active again."""

    ACTIVE = "active"
    IDLE = "idle"
    COMPLETED = "completed"
    """It ended after a reply that the model ended by itself."""
    ABANDONED = "abandoned"
    """It ended with a turn that was interrupted, failed, or waits for the result of a call."""
    ARCHIVED = "archived"
    """It ended, and its contents were moved into a file."""


def find_status(
    quiet: int, state: str | None, stop_reason: str | None, *, closed: bool = False, archived: bool = False
) -> SessionStatus:
    """The status after ``quiet`` µs without activity. ``state`` and ``stop_reason`` are those of the conversation's
    last turn, None if there is none; a turn under way keeps its session active. A ``closed`` session has ended at once.
    """
    if quiet <= ENDED_AFTER and not closed:
        return SessionStatus.ACTIVE if quiet <= IDLE_AFTER or state == "open" else SessionStatus.IDLE
    if archived:
        return SessionStatus.ARCHIVED
    return SessionStatus.COMPLETED if state == "finished" and is_whole(stop_reason) else SessionStatus.ABANDONED
