"""Choose the sessions to forget: those that were long enough in the trash, then by age and by total size."""

from collections.abc import Iterable
from uuid import UUID

import attrs

DAY = 24 * 60 * 60 * 1_000_000
IN_USE = 2 * 60 * 60 * 1_000_000
"""A session that was active within the last two hours (µs) is never forgotten: it may be in use on a server whose clock
is an hour behind.
"""

TRASH_DAYS = 30
"""How long the trash keeps what a person put there."""


@attrs.frozen
class RetainedSession:
    """A session with the stored size of its content in bytes, the time of its last activity (µs of UTC), and since when
    it is in the trash.
    """

    session: UUID
    last_active_at: int
    stored_bytes: int
    trashed_at: int | None = None


@attrs.frozen
class Victim:
    """A session to forget, and the reason."""

    candidate: RetainedSession
    reason: str


def is_old(last_active_at: int, *, now: int, days: int | None) -> bool:
    """Whether a session was inactive for more than ``days``. None: no session is too old."""
    return days is not None and now - last_active_at > days * DAY


def has_expired(trashed_at: int | None, now: int) -> bool:
    """Whether the trash has kept something since ``trashed_at`` for too long. None: it is not in the trash."""
    return trashed_at is not None and now - trashed_at > TRASH_DAYS * DAY


def victims(
    candidates: Iterable[RetainedSession], *, now: int, days: int | None, stored_bytes: int | None
) -> tuple[Victim, ...]:
    """The sessions to forget, oldest first: those whose time in the trash is over; those inactive for more than
    ``days``; then as many as needed to reduce the total to ``stored_bytes``. None sets no limit; sessions without
    content are skipped then.
    """
    ordered = sorted(candidates, key=lambda session: (session.last_active_at, session.session))
    expired = [session for session in ordered if has_expired(session.trashed_at, now)]
    chosen = [Victim(session, f"in the trash for {TRASH_DAYS} days") for session in expired]
    by_age = [session for session in ordered if session.stored_bytes > 0 and session not in expired]
    total = sum(session.stored_bytes for session in by_age)
    for session in by_age:
        age = now - session.last_active_at
        if age < IN_USE:
            break
        if is_old(session.last_active_at, now=now, days=days):
            chosen.append(Victim(session, f"not active for {age // DAY} days"))
        elif stored_bytes is not None and total > stored_bytes:
            chosen.append(Victim(session, f"the sessions hold {total} bytes, and {stored_bytes} are allowed"))
        else:
            break
        total -= session.stored_bytes
    return tuple(chosen)
