"""One process of all that share a database keeps what is derived: whoever holds a lock in it, for as long as it lives.

The lock belongs to a connection, by which it also looks how far the log has come. Where the connection breaks, both are
gone at once, and whoever asks next leads. Behind a pool it belongs to a transaction of half a minute, and then to the
next one. Nothing is wrong where two believe for a moment that they lead: checkpoints keep their order.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
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
"""The advisory lock of whoever leads."""

WATCH_SECONDS = 30.0
"""How long one call watches the log."""

LOOK_SECONDS = 0.25
"""How often it looks where the log is. Whoever appends tells nobody: that would be a lock that all appends share."""

SOON_SECONDS, SOON_LOOKS = 0.05, 20
"""So soon, and so many times, it looks again for pages that are open where the log has just moved: more will follow."""

PAUSE_SECONDS = 1.0
"""How often one that does not lead looks whether it may, and whether the database is back."""

Follow = Callable[[Progress], Awaitable[None]]
"""What whoever leads does for as long as it leads, woken as the log grows."""


class Leader:
    """One process that would lead. ``database`` is its own, of one connection, which nobody else may use."""

    def __init__(self, database: Database, say: Callable[[str], None] = log.warning) -> None:
        self.leads = False
        """Whether it leads now."""
        self._database = database
        self._say = say

    async def run(self, follow: Follow) -> Never:
        """Do ``follow`` whenever no other process does."""
        told = False
        while True:
            try:
                if await self._lead(follow) or not told:
                    told = True
                    self._say("Another worker keeps what is derived from this log; this one waits until that one ends.")
            except LogFailed as error:  # what follows the log meets the same, and says so
                log.debug("nobody can lead now: %s", error)
            await trio.sleep(PAUSE_SECONDS)

    async def _lead(self, follow: Follow) -> bool:
        """Lead until another does; whether it ever led. Raises LogFailed where the database is away."""
        heard, ended = LogProgress(), False
        failure: LogFailed | None = None

        def advance(position: int) -> None:
            if not self.leads and not ended:
                self.leads = True
                nursery.start_soon(follow, heard)
            heard.advance(position)

        async with trio.open_nursery() as nursery:
            led = False
            try:
                while await self._database.run(_hear, advance, deadline=2 * WATCH_SECONDS):
                    led = True
            except LogFailed as error:
                failure = error
            finally:
                led, ended, self.leads = led or self.leads, True, False
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return led


def _hear(connection: Connection, advance: Callable[[int], None]) -> bool:
    """Tell where the log is, for a while, as often as it moves; False where another process leads."""
    if is_shared(connection):
        ask = (
            "select pg_try_advisory_xact_lock(%s)"  # this transaction is as long as the while, and the next one follows
        )
    else:
        ask = "select pg_try_advisory_lock(%s)"
    (leads,) = connection.execute(ask, (LOCK,)).fetchone() or (False,)
    if not leads:
        return False
    _watch(connection, advance)
    return True


async def publish_progress(database: Database, progress: LogProgress) -> Never:
    """Tell where the log is as often as it moves, whoever leads. ``database`` is as in ``Leader``. Raises LogFailed
    where it is away.
    """
    pace = LivelyPace()
    while True:
        await database.run(_watch, progress.advance, pace.pause_at, deadline=2 * WATCH_SECONDS)


@attrs.define
class LivelyPace:
    """How long to wait until the next look: a while as always, and less while the log moves."""

    _position: int | None = None
    _soon: int = 0

    def pause_at(self, position: int) -> float:
        """Seconds, after a look that found the log at a position."""
        moved = self._position is not None and position > self._position
        self._position = position
        self._soon = SOON_LOOKS if moved else max(0, self._soon - 1)
        return SOON_SECONDS if self._soon else LOOK_SECONDS


def _pause_always(position: int) -> float:  # what is derived takes in much at once, and nobody looks at it come
    return LOOK_SECONDS


def _watch(
    connection: Connection, advance: Callable[[int], None], pause_at: Callable[[int], float] = _pause_always
) -> None:
    """Tell where the log is, for a while, as often as it moves. That is no transaction: what is erased meanwhile would
    stay in its table's file for as long as this one goes on, and whoever writes that anew would wait for it.
    """
    if not is_shared(connection):
        connection.commit()
    end = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < end:
        position = _look(connection)
        trio.from_thread.run_sync(advance, position)
        time.sleep(pause_at(position))  # in the thread that has the connection: its lock is held while that lives


def _look(connection: Connection) -> int:
    """Where the log is. In a transaction that goes on no lock on the table is kept: whoever rewrites it would wait for
    that, and all others for them.
    """
    with connection.transaction(force_rollback=True) if is_shared(connection) else nullcontext():
        return last_position(connection)


# How far whoever leads has come


@attrs.frozen(kw_only=True)
class Lag:
    """How far what is derived is behind the log: ``events``, and ``seconds`` since the oldest of them.

    ``led`` says whether any process leads; ``still``, for how many seconds nothing was taken in though there was
    something; ``held``, for how many an append has been under way that what came after it waits for. ``damaged`` counts
    the sessions of which something was set aside.
    """

    led: bool
    events: int
    seconds: float
    still: float
    held: float
    damaged: int


async def lag(database: Database) -> Lag:
    """How it stands now. What stopped by itself (``mnemosyne projections``) does not count."""
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
    """How long ago the first event after a position happened; 0 where it does not say."""
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
