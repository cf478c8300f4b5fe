"""Projections in PostgreSQL: rows and checkpoint in one transaction, and an atomic switch to rebuilt tables.

A writer first locks the row of the checkpoint, so that projectors take turns. A reader locks the tables (``reading``),
so that no switch happens while it reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import UUID

import attrs
import orjson

from mnemosyne.adapters.postgres import projection_tables as tables
from mnemosyne.adapters.postgres.database import Connection, Database, is_shared
from mnemosyne.domain.ports import EventLog
from mnemosyne.domain.session.budget import DaySpending
from mnemosyne.projections.daily_spending import BUDGET, CACHED, ON_DAY
from mnemosyne.projections.projection import Folded, Projection, Query, SetAside, fold
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.store import Mark, Portion, ProjectionStatus, Switch, mark_of
from mnemosyne.projections.usage import USAGE

REBUILD_SECONDS = 15
"""A rebuild without progress for this time counts as dead."""

Rows = list[dict[str, Any]]


@attrs.frozen
class Report:
    """The state of a projection for display; ``lag`` counts pending events."""

    status: ProjectionStatus | None
    lag: int

    def state_of(self, projection: Projection) -> str:
        """``none``, ``rebuilding``, ``stale``, ``stopped``, ``behind`` or ``current``."""
        if self.status is None:
            return "none"
        if self.status.rebuilding:
            return "rebuilding"
        if self.status.damage or self.status.version != projection.version:
            return "stale"
        if self.status.error:
            return "stopped"
        return "behind" if self.lag else "current"


class PostgresProjections:
    """The tables in a prepared ``Database`` (projections.ProjectionStore), and queries over them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self, projection: Projection) -> ProjectionStatus | None:
        return await self._database.run(_status, projection)

    async def create(self, projection: Projection) -> None:
        await self._database.run(_create, projection)

    async def apply(self, portions: Sequence[Portion]) -> list[ProjectionStatus | None]:
        return await self._database.run(_apply, portions)

    async def stop(self, projection: Projection, error: str, *, after: Mark) -> ProjectionStatus | None:
        return await self._database.run(_stop, projection, error, after)

    async def begin_side(self, projection: Projection) -> int:
        return await self._database.run(_begin_side, projection)

    async def switch(self, projection: Projection, side: int, *, unless_beyond: int) -> Switch:
        return await self._database.run(_switch, projection, side, unless_beyond)

    async def drop_side(self, projection: Projection, side: int) -> None:
        await self._database.run(_drop_side, projection, side)

    async def behind(self, projections: Sequence[Projection]) -> list[Projection]:
        """Those of the projections that lack an event of the log, or that only their projector can judge."""
        return await self._database.run(_behind, projections)

    async def report(self, projection: Projection) -> Report:
        """Its state and lag."""
        return await self._database.run(_report, projection)

    async def select(
        self, projections: Sequence[Projection], questions: Sequence[tuple[Query, Mapping[str, object]]]
    ) -> list[Rows]:
        """The results of queries about these projections, from one snapshot."""
        return await self._database.run(_select, projections, questions)


# Checkpoints

_Place = tuple[str, bool]
"""The key of a checkpoint: the projection's name, and whether it is of the side tables."""

_ROWS = (
    "select name, side, number, version, position, stream, stream_version, error,"
    " array(select aside.position from mnemosyne.set_aside as aside"
    " where (aside.name, aside.side) = (held.name, held.side) order by aside.position),"
    " moved_at > now() - make_interval(secs => %s) from mnemosyne.projections as held"
    " where (name, side) in (select name, side from json_to_recordset(%s::json) as asked (name text, side boolean))"
    " order by name, side"
)


@attrs.frozen
class _Checkpoint:
    number: int
    version: int
    position: int
    stream: UUID | None
    stream_version: int
    error: str | None
    set_aside: Sequence[int]
    is_moving: bool

    @property
    def mark(self) -> Mark:
        return Mark(self.position, self.stream, self.stream_version)

    @property
    def status(self) -> ProjectionStatus:
        return ProjectionStatus(version=self.version, mark=self.mark, error=self.error, set_aside=tuple(self.set_aside))


class PostgresSpending:
    """See domain.session.budget.Spending and actors.helper_work.HelperCache: from the projection, which is brought up
    to date before each answer.
    """

    def __init__(self, database: Database, event_log: EventLog[Any]) -> None:
        self._store = PostgresProjections(database)
        self._log = event_log
        self._projectors = [Projector(each, event_log, self._store) for each in (BUDGET, USAGE)]

    async def on_day(self, day: int) -> DaySpending:
        """See Spending. Zero if the projection stopped, which leaves no budget for helpers."""
        rows = await self._select(ON_DAY, {"day": day})
        return DaySpending(day, **rows[0]) if rows else DaySpending(day)

    async def find(self, key: bytes) -> str | None:
        """See HelperCache. None if the projection stopped, or the session of the answer was forgotten."""
        rows = await self._select(CACHED, {"key": key.hex()})
        found = await self._log.pick(rows[0]["stream"], [rows[0]["version"]]) if rows else ()
        return found[0].envelope.event.record or None if found else None

    async def _select(self, query: Query, parameters: Mapping[str, object]) -> Rows:
        for projector in self._projectors:
            if (await projector.catch_up()).error is not None:
                return []
        (rows,) = await self._store.select((BUDGET, USAGE), [(query, parameters)])
        return rows


def _checkpoints(connection: Connection, places: Sequence[_Place], *, held: bool) -> dict[_Place, _Checkpoint]:
    """The existing checkpoints; ``held`` locks them until the transaction ends."""
    sql = f"{_ROWS} for update" if held else _ROWS
    asked = orjson.dumps([{"name": name, "side": side} for name, side in places]).decode()
    rows = connection.execute(sql.encode(), (REBUILD_SECONDS, asked))
    return {(name, side): _Checkpoint(*rest) for name, side, *rest in rows}


def _checkpoint(connection: Connection, projection: Projection, *, side: bool, held: bool) -> _Checkpoint | None:
    place = projection.name, side
    return _checkpoints(connection, [place], held=held).get(place)


def _move(connection: Connection, moves: Mapping[_Place, tuple[Mark, str | None]]) -> None:
    """Move checkpoints, each with the error that stopped it, if any."""
    new = [
        {"name": name, "side": side, "error": error, **attrs.asdict(mark)}
        for (name, side), (mark, error) in moves.items()
    ]
    connection.execute(
        "update mnemosyne.projections as held set position = new.position, stream = new.stream,"
        " stream_version = new.version, error = new.error, moved_at = clock_timestamp()"
        " from json_to_recordset(%s::json)"
        " as new (name text, side boolean, position bigint, stream uuid, version bigint, error text)"
        " where held.name = new.name and held.side = new.side",
        (orjson.dumps(new).decode(),),
    )


def _insert(connection: Connection, projection: Projection, *, side: bool) -> int | None:
    """Insert a checkpoint before the first event; return None if one exists, after its transaction ended."""
    row = connection.execute(
        "insert into mnemosyne.projections (name, side, number, version, position, stream_version)"
        " values (%s, %s, nextval('mnemosyne.projection_numbers'), %s, 0, 0) on conflict do nothing returning number",
        (projection.name, side, projection.version),
    ).fetchone()
    return row[0] if row else None


# The operations of the store, each in one transaction


def _statuses(connection: Connection, projections: Sequence[Projection]) -> list[ProjectionStatus | None]:
    places = [(projection.name, side) for projection in projections for side in (False, True)]
    checkpoints = _checkpoints(connection, places, held=False)
    names = [name for projection in projections for name in tables.names(projection)]
    found = connection.execute(tables.FOUND, (names,)).fetchall()
    return [
        attrs.evolve(
            live.status,
            # Tables of another version have another shape.
            damage=tables.damage(each, found) if live.version == each.version else None,
            rebuilding=(side := checkpoints.get((each.name, True))) is not None and side.is_moving,
        )
        if (live := checkpoints.get((each.name, False)))
        else None
        for each in projections
    ]


def _status(connection: Connection, projection: Projection) -> ProjectionStatus | None:
    return _statuses(connection, (projection,))[0]


def _behind(connection: Connection, projections: Sequence[Projection]) -> list[Projection]:
    columns = "notification_id, originator_id, originator_version"
    last = f"select {columns} from mnemosyne.stored_events order by notification_id desc limit 1"
    mark = Mark(*(connection.execute(last.encode()).fetchone() or ()))
    statuses = zip(projections, _statuses(connection, projections), strict=True)
    return [each for each, status in statuses if status != ProjectionStatus(version=each.version, mark=mark)]


def _create(connection: Connection, projection: Projection) -> None:
    if _insert(connection, projection, side=False) is not None:
        _execute(connection, tables.create(projection, side=False))


def _apply(connection: Connection, portions: Sequence[Portion]) -> list[ProjectionStatus | None]:
    folded = [fold(each.projection, each.events) for each in portions]  # before the lock
    # Rows that a crash loses are derived again.
    connection.execute("set local synchronous_commit to off")
    held = _checkpoints(connection, [_place(each) for each in portions], held=True)
    found: list[ProjectionStatus | None] = []
    moves: dict[_Place, tuple[Mark, str | None]] = {}
    # A turn takes a dozen statements, whose results are not needed.
    with nullcontext() if is_shared(connection) else connection.pipeline():
        for portion, each in zip(portions, folded, strict=True):
            projection, place = portion.projection, _place(portion)
            checkpoint = held.get(place)
            if checkpoint is None or portion.side not in (None, checkpoint.number):
                found.append(None)
            elif checkpoint.mark != portion.after or checkpoint.version != projection.version:
                found.append(checkpoint.status)
            else:
                _write(connection, projection, each, side=portion.side is not None)
                _set_aside(connection, place, each.set_aside)
                mark = mark_of(portion.events[-1]) if portion.events else portion.after
                moves[place] = mark, None
                aside = (*checkpoint.set_aside, *(one.recorded.position for one in each.set_aside))
                found.append(ProjectionStatus(version=projection.version, mark=mark, set_aside=aside))
        if moves:
            _move(connection, moves)
    return found


def _set_aside(connection: Connection, place: _Place, events: Sequence[SetAside]) -> None:
    """Record events that could not be processed."""
    if events:
        connection.execute(
            "insert into mnemosyne.set_aside (name, side, stream, version, position, why)"
            " select %s, %s, * from unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::text[])",
            (
                *place,
                [each.recorded.stream for each in events],
                [each.recorded.version for each in events],
                [each.recorded.position for each in events],
                [each.why.replace("\0", "\N{REPLACEMENT CHARACTER}") for each in events],
            ),
        )


def _drop_aside(connection: Connection, projection: Projection, *, side: bool) -> None:
    connection.execute("delete from mnemosyne.set_aside where name = %s and side = %s", (projection.name, side))


def _place(portion: Portion) -> _Place:
    return portion.projection.name, portion.side is not None


def _write(connection: Connection, projection: Projection, folded: Folded, *, side: bool) -> None:
    for table in projection.tables:
        for statement, rows in tables.merges(projection, table, folded.rows[table.name], side=side):
            connection.execute(statement, (rows,))


def _stop(connection: Connection, projection: Projection, error: str, after: Mark) -> ProjectionStatus | None:
    checkpoint = _checkpoint(connection, projection, side=False, held=True)
    if checkpoint is None:
        return None
    if checkpoint.mark != after:
        return checkpoint.status
    _move(connection, {(projection.name, False): (after, error)})
    return attrs.evolve(checkpoint.status, error=error)


def _begin_side(connection: Connection, projection: Projection) -> int:
    connection.execute("delete from mnemosyne.projections where name = %s and side", (projection.name,))
    _drop_aside(connection, projection, side=True)
    number = _insert(connection, projection, side=True)
    while number is None:  # another rebuild began; the later one replaces it
        connection.execute("delete from mnemosyne.projections where name = %s and side", (projection.name,))
        number = _insert(connection, projection, side=True)
    _execute(connection, tables.create(projection, side=True))
    return number


def _switch(connection: Connection, projection: Projection, side: int, unless_beyond: int) -> Switch:
    live = _checkpoint(connection, projection, side=False, held=True)
    new = _checkpoint(connection, projection, side=True, held=True)
    if new is None or new.number != side:
        return Switch.LOST
    if live is not None and live.position > unless_beyond:
        return Switch.BEHIND
    if live is None:
        _insert(connection, projection, side=False)
    # The projector and new readers queue behind this lock: retry often instead of waiting long.
    connection.execute("set local lock_timeout = '500ms'")
    _execute(connection, tables.drop(projection, side=False))
    _execute(connection, tables.rename(projection))
    _drop_aside(connection, projection, side=False)
    connection.execute("update mnemosyne.set_aside set side = false where name = %s", (projection.name,))
    connection.execute("delete from mnemosyne.projections where name = %s and side", (projection.name,))
    connection.execute(
        "update mnemosyne.projections set version = %s where name = %s", (projection.version, projection.name)
    )
    _move(connection, {(projection.name, False): (new.mark, None)})
    return Switch.DONE


def _drop_side(connection: Connection, projection: Projection, side: int) -> None:
    checkpoint = _checkpoint(connection, projection, side=True, held=True)
    if checkpoint is not None and checkpoint.number == side:
        connection.execute("delete from mnemosyne.projections where name = %s and side", (projection.name,))
        _drop_aside(connection, projection, side=True)
        _execute(connection, tables.drop(projection, side=True))


def _execute(connection: Connection, statements: Iterator[bytes]) -> None:
    for statement in statements:
        connection.execute(statement)


# Reading


@contextmanager
def reading(connection: Connection, projections: Sequence[Projection]) -> Iterator[None]:
    """Read the tables from one snapshot.

    The lock precedes the snapshot: tables that are switched while we wait would be empty in an earlier snapshot.
    """
    connection.execute("set transaction isolation level repeatable read")
    connection.execute(tables.lock(projections))
    yield


def _select(
    connection: Connection, projections: Sequence[Projection], questions: Sequence[tuple[Query, Mapping[str, object]]]
) -> list[Rows]:
    answers = []
    with reading(connection, projections):
        for query, parameters in questions:
            cursor = connection.execute(query.sql.encode(), parameters)
            names = [column.name for column in cursor.description or ()]
            answers.append([dict(zip(names, row, strict=True)) for row in cursor])
    return answers


def _report(connection: Connection, projection: Projection) -> Report:
    status = _status(connection, projection)
    row = connection.execute(
        "select count(*) from mnemosyne.stored_events where notification_id > %s",
        (status.mark.position if status else 0,),
    ).fetchone()
    return Report(status, row[0] if row else 0)
