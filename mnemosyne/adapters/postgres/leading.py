"""The processes of a database: which of them leads, and which are connected. The holder of an advisory lock leads: it
updates the projections.

The lock belongs to the connection that polls the log, and is released with it. Behind a pool it belongs to successive
transactions of a minute. Two leaders for a moment do no harm, because checkpoints are ordered.
"""

import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import datetime
from typing import Never

import attrs
import orjson
import trio

from mnemosyne.adapters.postgres.database import Connection, Database, is_shared
from mnemosyne.adapters.postgres.journal import LogProgress
from mnemosyne.adapters.postgres.tail import last_position, wait_seconds
from mnemosyne.domain.ports import Progress
from mnemosyne.errors import LogFailed
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.timeline import TIMELINE

log = logging.getLogger(__name__)

LOCK = int.from_bytes(b"mnemosyn")
"""The advisory lock of the leader."""

WATCH_SECONDS = 60.0
"""The duration of one call that polls the log, and the longest lag of derived data."""

LOOK_SECONDS = 5.0
"""The interval of the leader's polls. New data is derived once two polls find the same position, so that many turns
cost little more than one; readers first update their read models themselves. If appends sent notifications, they would
all share a lock.
"""

PAGE_LOOK_SECONDS = 0.25
"""The interval of polls for open pages."""

PAUSE_SECONDS = 1.0
"""The interval of attempts to lead."""

Follow = Callable[[Progress], Awaitable[None]]
"""The work of the leader, woken as the log grows."""


class Leader:
    """A candidate for leader. ``database`` is its own, with one connection."""

    def __init__(self, database: Database, report: Callable[[str], None] = log.warning) -> None:
        self.leads = False
        """Whether it is the leader."""
        self._database = database
        self._report = report

    async def run(self, follow: Follow) -> Never:
        """Run ``follow`` whenever no other process leads."""
        reported = False
        while True:
            try:
                if await self._lead(follow) or not reported:
                    reported = True
                    self._report("Another worker updates the projections of this log; this one waits until it ends.")
            except LogFailed as error:  # the followers of the log report it
                log.debug("no process can lead now: %s", error)
            await trio.sleep(PAUSE_SECONDS)

    async def _lead(self, follow: Follow) -> bool:
        """Try to lead until the lock is lost; return whether it led. Raises LogFailed."""
        progress, ended = LogProgress(), False
        failure: LogFailed | None = None

        def advance(position: int) -> None:
            if not self.leads and not ended:
                self.leads = True
                nursery.start_soon(follow, progress)
            progress.advance(position)

        async with trio.open_nursery() as nursery:
            led = False
            try:
                while await self._database.run(_watch_as_leader, advance, deadline=2 * WATCH_SECONDS):
                    led = True
            except LogFailed as error:
                failure = error
            finally:
                led, ended, self.leads = led or self.leads, True, False
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return led


def _watch_as_leader(connection: Connection, advance: Callable[[int], None]) -> bool:
    """Report the position of the log for a while; return False if another process leads."""
    if is_shared(connection):
        ask = "select pg_try_advisory_xact_lock(%s)"  # for this transaction; the next call follows at once
    else:
        ask = "select pg_try_advisory_lock(%s)"
    (leads,) = connection.execute(ask, (LOCK,)).fetchone() or (False,)
    if not leads:
        return False
    _watch(connection, advance, LOOK_SECONDS, waits=True)
    return True


async def publish_progress(database: Database, progress: LogProgress) -> Never:
    """Report the position of the log, without leading. ``database`` is as in ``Leader``. Raises LogFailed."""
    while True:
        await database.run(_watch, progress.advance, PAGE_LOOK_SECONDS, deadline=2 * WATCH_SECONDS)


def _watch(connection: Connection, advance: Callable[[int], None], pause: float, *, waits: bool = False) -> None:
    """Report the position of the log for WATCH_SECONDS: at once, and whenever it has changed; with ``waits``, only once
    two polls find the same. Uses no transaction, which would delay a rewrite of the tables.
    """
    if not is_shared(connection):
        connection.commit()
    end, seen, reported = time.monotonic() + WATCH_SECONDS, -1, -1
    while time.monotonic() < end:
        before, seen = seen, _look(connection)
        if seen != reported and (not waits or before in (-1, seen)):
            trio.from_thread.run_sync(advance, reported := seen)
        time.sleep(pause)  # in this thread: the connection holds the lock


def _look(connection: Connection) -> int:
    """The position of the log. The rollback releases the lock of the table, which a rewrite would wait for."""
    with connection.transaction(force_rollback=True) if is_shared(connection) else nullcontext():
        return last_position(connection)


# The lag of the projections


@attrs.frozen(kw_only=True)
class Lag:
    """The lag of the projections: pending ``events``, and ``seconds`` since the oldest of them.

    ``led`` means that a process leads; ``still`` is the time in seconds without progress, ``held`` the age of an append
    that later events wait for; ``damaged`` counts the sessions with unprocessable events.
    """

    led: bool
    events: int
    seconds: float
    still: float
    held: float
    damaged: int


async def lag(database: Database) -> Lag:
    """The current lag, without stopped projections (``mnemosyne projections``)."""
    return await database.run(_lag)


def _lag(connection: Connection) -> Lag:
    (led,) = connection.execute(
        "select exists (select from pg_locks where locktype = 'advisory' and granted"
        " and database = (select oid from pg_database where datname = current_database())"
        " and (classid::bigint << 32 | objid::bigint) = %s)",
        (LOCK,),
    ).fetchone() or (False,)
    held = connection.execute(
        "select side, position, error is not null, extract(epoch from clock_timestamp() - moved_at)::float"
        " from mnemosyne.projections where name = any(%s)",
        ([each.name for each in ALL],),
    ).fetchall()
    live = [position for side, position, stopped, _ in held if not side and not stopped]
    made = sum(not side for side, *_ in held) == len(ALL)
    position = min(live, default=last_position(connection)) if made else 0
    (events,) = connection.execute(
        "select count(*) from mnemosyne.stored_events where notification_id > %s", (position,)
    ).fetchone() or (0,)
    seconds = _seconds_behind(connection, position) if events else 0.0
    moved = min((seconds_ago for *_, seconds_ago in held), default=seconds)
    held_for = wait_seconds(connection) if events else 0.0
    (damaged,) = connection.execute(
        "select count(distinct stream) from mnemosyne.set_aside where name = %s and not side", (TIMELINE.name,)
    ).fetchone() or (0,)
    return Lag(led=led, events=events, seconds=seconds, still=min(seconds, moved), held=held_for, damaged=damaged)


def _seconds_behind(connection: Connection, position: int) -> float:
    """The age of the first event after a position; 0 if unknown."""
    row = connection.execute(
        "select state, extract(epoch from clock_timestamp())::float from mnemosyne.stored_events"
        " where notification_id > %s order by notification_id limit 1",
        (position,),
        binary=True,
    ).fetchone()
    if row is None:
        return 0.0
    state, now = row
    try:
        return max(0.0, float(now) - float(orjson.loads(state)["data"]["at"]) / 1e6)
    except (ValueError, KeyError, TypeError):
        return 0.0


# The servers and workers that use the database, from PostgreSQL's list of connections

SERVER, WORKER = "server", "worker"

_LONGEST_HOST = 30
"""PostgreSQL limits an application name to 63 bytes."""


@attrs.frozen(kw_only=True)
class Node:
    """A process with open connections: ``what`` is SERVER or WORKER; ``address`` is None for a Unix socket; ``leads``
    means that it updates the projections.
    """

    what: str
    host: str
    pid: int
    address: str | None
    since: datetime
    connections: int
    leads: bool


def name_of(what: str) -> str:
    """The application name of this process's connections."""
    return f"mnemosyne {what} {os.getpid()} {socket.gethostname()[:_LONGEST_HOST]}"


async def list_nodes(database: Database) -> tuple[Node, ...]:
    """List the connected processes, oldest first. Raises LogUnavailable."""
    return await database.run(_list_nodes)


def _list_nodes(connection: Connection) -> tuple[Node, ...]:
    rows = connection.execute(
        "select split_part(application_name, ' ', 2), split_part(application_name, ' ', 4),"
        " split_part(application_name, ' ', 3)::integer, host(client_addr), min(backend_start), count(*),"
        " bool_or(exists (select from pg_locks as held where held.pid = a.pid and held.database = a.datid and granted"
        "   and locktype = 'advisory' and (classid::bigint << 32 | objid::bigint) = %s))"
        " from pg_stat_activity as a where datname = current_database()"
        " and application_name ~ %s group by 1, 2, 3, 4 order by 5, 1",
        (LOCK, f"^mnemosyne ({SERVER}|{WORKER}) [0-9]+ "),
    )
    return tuple(
        Node(what=what, host=host, pid=pid, address=address, since=since, connections=count, leads=leads)
        for what, host, pid, address, since, count, leads in rows
    )
