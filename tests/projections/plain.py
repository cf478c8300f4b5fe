"""Projections in memory, for tests: they satisfy the same contract as PostgreSQL's."""

from collections.abc import Iterator, Sequence

import attrs
import trio

from mnemosyne.projections.projection import Key, Projection, Row, Table, fold
from mnemosyne.projections.store import Mark, Portion, ProjectionStatus, Switch, mark_of

REBUILD_SECONDS = 15
"""A rebuild that has made no progress for this long counts as dead."""


@attrs.define
class Tables:
    """One set of a projection's tables: rows by table and key, and the checkpoint."""

    version: int
    rows: dict[str, dict[Key, Row]]
    number: int = 0
    mark: Mark = attrs.field(factory=Mark)
    error: str | None = None
    moved_at: float = 0.0
    set_aside: list[int] = attrs.field(factory=list)

    @property
    def status(self) -> ProjectionStatus:
        return ProjectionStatus(version=self.version, mark=self.mark, error=self.error, set_aside=tuple(self.set_aside))


class PlainProjections:
    """Tables in memory (projections.ProjectionStore). ``live`` and ``side`` hold them by the projection's name."""

    def __init__(self) -> None:
        self.live: dict[str, Tables] = {}
        self.side: dict[str, Tables] = {}
        self._numbers = 0

    async def status(self, projection: Projection) -> ProjectionStatus | None:
        await trio.lowlevel.checkpoint()
        live, side = self.live.get(projection.name), self.side.get(projection.name)
        if live is None:
            return None
        missing = [table.name for table in projection.tables if table.name not in live.rows]
        damage = f"its table {projection.name}_{missing[0]} is missing" if missing else None
        return attrs.evolve(
            live.status,
            damage=damage if live.version == projection.version else None,
            rebuilding=side is not None and trio.current_time() < side.moved_at + REBUILD_SECONDS,
        )

    async def create(self, projection: Projection) -> None:
        await trio.lowlevel.checkpoint()
        self.live.setdefault(projection.name, self._empty(projection))

    async def apply(self, portions: Sequence[Portion]) -> list[ProjectionStatus | None]:
        await trio.lowlevel.checkpoint()
        return [self._apply(portion) for portion in portions]

    def _apply(self, portion: Portion) -> ProjectionStatus | None:
        projection = portion.projection
        tables = (self.live if portion.side is None else self.side).get(projection.name)
        if tables is None or (portion.side is not None and tables.number != portion.side):
            return None
        if tables.mark != portion.after or tables.version != projection.version:
            return tables.status
        folded = fold(projection, portion.events)
        for name, merged in folded.rows.items():
            empty: Row = dict.fromkeys(projection.by_name[name].columns)
            for key, row in merged.items():
                tables.rows[name].setdefault(key, dict(empty)).update(row)
        tables.mark = mark_of(portion.events[-1]) if portion.events else portion.after
        tables.set_aside += [aside.recorded.position for aside in folded.set_aside]
        tables.error, tables.moved_at = None, trio.current_time()
        return tables.status

    async def stop(self, projection: Projection, error: str, *, after: Mark) -> ProjectionStatus | None:
        await trio.lowlevel.checkpoint()
        live = self.live.get(projection.name)
        if live is not None and live.mark == after:
            live.error = error
        return live.status if live is not None else None

    async def begin_side(self, projection: Projection) -> int:
        await trio.lowlevel.checkpoint()
        self.side[projection.name] = side = self._empty(projection)
        return side.number

    async def switch(self, projection: Projection, side: int, *, unless_beyond: int) -> Switch:
        await trio.lowlevel.checkpoint()
        new, live = self.side.get(projection.name), self.live.get(projection.name)
        if new is None or new.number != side:
            return Switch.LOST
        if live is not None and live.mark.position > unless_beyond:
            return Switch.BEHIND
        new.error = None
        self.live[projection.name] = self.side.pop(projection.name)
        return Switch.DONE

    async def drop_side(self, projection: Projection, side: int) -> None:
        await trio.lowlevel.checkpoint()
        if projection.name in self.side and self.side[projection.name].number == side:
            del self.side[projection.name]

    def rows(self, projection: Projection) -> Iterator[tuple[Table, Row]]:
        """Every row, table by table in key order."""
        for table in projection.tables:
            rows = self.live[projection.name].rows[table.name]
            for key in sorted(rows):  # a key contains no null, and each of its columns has one type
                yield table, {**dict(zip(table.key, key, strict=True)), **rows[key]}

    def _empty(self, projection: Projection) -> Tables:
        self._numbers += 1
        rows: dict[str, dict[Key, Row]] = {table.name: {} for table in projection.tables}
        return Tables(projection.version, rows, self._numbers, moved_at=trio.current_time())
