"""The log in the order of its positions, for followers, who miss no event that was committed late.

Servers append concurrently, so an append with lower positions may commit last. A reader waits for such an append
(0009_append_beside_others.sql): it sees events as if they were committed in order, and needs only the last position.
"""

from collections.abc import Iterable, Sequence
from typing import LiteralString
from uuid import UUID

from mnemosyne.adapters.postgres.database import Connection

SELECT: LiteralString = (
    "select originator_id, originator_version, topic, state, notification_id from mnemosyne.stored_events where "
)
"""The fields of the library's Notification, in order."""

_TAIL: LiteralString = SELECT + (
    "notification_id > %s and notification_id <= least(%s, %s) and (%s::text[] is null or topic = any(%s))"
    " order by notification_id limit %s"
)


def read_tail(
    connection: Connection, after: int, limit: int, stop: int | None = None, topics: Sequence[str] = ()
) -> Iterable[tuple[UUID, int, str, bytes, int]]:
    """Up to ``limit`` committed events after a position, in order; optionally up to the position ``stop`` and with one
    of the ``topics``. Raises an error that ``Database.run`` turns into LogUnavailable if an earlier append takes too
    long.
    """
    # Two statements: the second must see commits from before the end of the first.
    (settled,) = connection.execute("select mnemosyne.settle(%s)", (after,)).fetchone() or (0,)
    chosen = [*topics] or None
    return connection.execute(_TAIL, (after, settled, stop, chosen, chosen, limit), binary=True)


def last_position(connection: Connection) -> int:
    """The position of the last committed event; 0 for an empty log."""
    row = connection.execute("select max(notification_id) from mnemosyne.stored_events").fetchone()
    return int(row[0] or 0) if row else 0


def wait_seconds(connection: Connection) -> float:
    """The age in seconds of a pending append that later events wait for; 0 if none."""
    row = connection.execute(
        "select extract(epoch from clock_timestamp() - min(xact_start))::float"
        " from mnemosyne.appends_under_way() join pg_stat_activity on pid = process"
        " where beyond < (select max(notification_id) from mnemosyne.stored_events)"
    ).fetchone()
    return max(0.0, float(row[0] or 0)) if row else 0.0
