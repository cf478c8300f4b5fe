"""The log in the order of its positions, for who follows it: no event is missed that was committed late.

Servers append beside each other, so of two appends the one with the lower positions may commit last. A reader that
would pass it waits until it has ended (0009_append_beside_others.sql). So it is for readers as if events were committed
in the order of their positions, and one number says how far one has come.
"""

from collections.abc import Iterable, Sequence
from typing import LiteralString
from uuid import UUID

from mnemosyne.adapters.postgres.database import Connection

SELECT: LiteralString = (
    "select originator_id, originator_version, topic, state, notification_id from mnemosyne.stored_events where "
)
"""The fields of the library's Notification, in their order."""

_TAIL: LiteralString = SELECT + (
    "notification_id > %s and notification_id <= least(%s, %s) and (%s::text[] is null or topic = any(%s))"
    " order by notification_id limit %s"
)


def read_tail(
    connection: Connection, after: int, limit: int, stop: int | None = None, topics: Sequence[str] = ()
) -> Iterable[tuple[UUID, int, str, bytes, int]]:
    """Up to ``limit`` events after a position, in order: all that were committed, where they are fewer; up to the
    position ``stop``, and only those with one of the ``topics``, where these are given.

    Raises what ``Database.run`` tells as LogUnavailable where an append before them takes longer than a lock may.
    """
    # Two statements: the second must see what was committed before the first had its answer.
    (settled,) = connection.execute("select mnemosyne.settle(%s)", (after,)).fetchone() or (0,)
    chosen = [*topics] or None
    return connection.execute(_TAIL, (after, settled, stop, chosen, chosen, limit), binary=True)


def last_position(connection: Connection) -> int:
    """The position of the last event that was committed; 0 for an empty log."""
    row = connection.execute("select max(notification_id) from mnemosyne.stored_events").fetchone()
    return int(row[0] or 0) if row else 0


def wait_seconds(connection: Connection) -> float:
    """For how long an append has been under way that what was committed after it waits for; 0 if none."""
    row = connection.execute(
        "select extract(epoch from clock_timestamp() - min(xact_start))::float"
        " from mnemosyne.appends_under_way() join pg_stat_activity on pid = process"
        " where beyond < (select max(notification_id) from mnemosyne.stored_events)"
    ).fetchone()
    return max(0.0, float(row[0] or 0)) if row else 0.0
