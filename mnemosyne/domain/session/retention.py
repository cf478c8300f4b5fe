"""Which sessions are to be forgotten because they are old, or because together they take up too much."""

from collections.abc import Iterable
from uuid import UUID

import attrs

DAY = 24 * 60 * 60 * 1_000_000
IN_USE = 2 * 60 * 60 * 1_000_000
"""A session that was active within the last two hours (µs) is never forgotten: somebody may be working in it, at a
server whose clock is an hour behind.
"""


@attrs.frozen
class RetainedSession:
    """A session with what it holds: bytes of content as they are stored, and when it was last active (µs of UTC)."""

    session: UUID
    last_active_at: int
    stored_bytes: int


@attrs.frozen
class Victim:
    """A session to be forgotten, and why."""

    candidate: RetainedSession
    reason: str


def is_old(last_active_at: int, *, now: int, days: int | None) -> bool:
    """Whether a session was not active for more than so many days. None: no session is too old."""
    return days is not None and now - last_active_at > days * DAY


def victims(
    candidates: Iterable[RetainedSession], *, now: int, days: int | None, stored_bytes: int | None
) -> tuple[Victim, ...]:
    """The sessions to be forgotten, oldest first: those not active for ``days``, then as many as it takes to come down
    to ``stored_bytes``. None sets no limit; a session without content has nothing left to forget.
    """
    left = sorted(
        (each for each in candidates if each.stored_bytes > 0), key=lambda each: (each.last_active_at, each.session)
    )
    total = sum(each.stored_bytes for each in left)
    chosen: list[Victim] = []
    for each in left:
        age = now - each.last_active_at
        if age < IN_USE:
            break
        if is_old(each.last_active_at, now=now, days=days):
            chosen.append(Victim(each, f"not active for {age // DAY} days"))
        elif stored_bytes is not None and total > stored_bytes:
            chosen.append(Victim(each, f"the sessions hold {total} bytes, and {stored_bytes} are allowed"))
        else:
            break
        total -= each.stored_bytes
    return tuple(chosen)
