"""Rebuilds projections: fills new tables from the beginning of the log and then replaces the old ones at once. Several
projections are filled in one pass, because reading the events takes most of the time.

Readers see either the old tables or the new ones. A projector that keeps the old ones up to date continues with the new
ones: both use the checkpoint.
"""

from collections.abc import Callable, Sequence

import attrs
import trio

from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import LogFailed, LogUnavailable
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.store import Mark, Portion, ProjectionStore, Switch, Tail, mark_of

PAGE = 1_000
"""How many events are applied at once while there are many."""

SWITCH_ATTEMPTS, SWITCH_PAUSE = 60, 0.2
"""How often to wait for readers of the old tables, and the seconds in between."""

CLEANUP_SECONDS = 5


Report = Callable[[int], None]
"""Receives the position that was reached."""


def ignore_progress(position: int) -> None:
    """Do nothing, for callers that do not show progress."""


async def rebuild(
    projection: Projection, log: Tail, store: ProjectionStore, report: Report = ignore_progress, *, page: int = PAGE
) -> Mark | None:
    """Rebuild a projection from scratch. Return the last mark; None if a later rebuild replaced this one.

    Raises LogFailed if the database refuses its rows; the old tables are then kept.
    """
    marks = await rebuild_all((projection,), log, store, report, page=page)
    return marks[projection.name]


async def rebuild_all(
    projections: Sequence[Projection],
    log: Tail,
    store: ProjectionStore,
    report: Report = ignore_progress,
    *,
    page: int = PAGE,
) -> dict[str, Mark | None]:
    """Rebuild projections from scratch in one pass over the log; return the result of ``rebuild`` for each by name.

    Raises LogFailed if the database refuses rows of one of them; all unfinished projections then keep their old tables.
    """
    work = _Rebuild(log, store, report, page)
    try:
        for projection in projections:
            work.sides[projection.name] = _Side(projection, await store.begin_side(projection))
        return await work.run()
    except LogFailed:
        with trio.move_on_after(CLEANUP_SECONDS, shield=True):
            for side in work.sides.values():
                await store.drop_side(side.projection, side.number)
        raise


@attrs.define
class _Side:
    """The side tables of a projection, until they replace the live ones or belong to another rebuild. ``live`` is the
    position of the live tables when last read.
    """

    projection: Projection
    number: int
    live: int = 0


@attrs.define
class _Rebuild:
    log: Tail
    store: ProjectionStore
    report: Report
    page: int
    sides: dict[str, _Side] = attrs.field(factory=dict)
    mark: Mark = attrs.field(factory=Mark)
    ended: dict[str, Mark | None] = attrs.field(factory=dict)

    async def run(self) -> dict[str, Mark | None]:
        while self.sides:
            await self._fill()
            for side in list(self.sides.values()):
                await self._settle(side)
        return self.ended

    async def _settle(self, side: _Side) -> None:
        """Replace the live tables by the side tables, unless the live ones are further."""
        # The log was read to its end after the live tables were seen at ``live``. If they are beyond that end, they
        # come from another log, and there is nothing to wait for.
        match await self._switch(side, max(self.mark.position, side.live)):
            case Switch.DONE:
                self._end(side, self.mark)
            case Switch.LOST:
                self._end(side, None)
            case Switch.BEHIND:
                status = await self.store.status(side.projection)
                side.live = status.mark.position if status else 0

    def _end(self, side: _Side, mark: Mark | None) -> None:
        del self.sides[side.projection.name]
        self.ended[side.projection.name] = mark

    async def _fill(self) -> None:
        """Apply everything up to the end of the log."""
        events = await self._read(self.mark.position)
        while events and self.sides:
            events = await self._take_and_read(events)
            self.report(self.mark.position)

    async def _read(self, after: int) -> Sequence[Recorded[object]]:
        return await self.log.tail(after=after, limit=self.page)

    async def _take_and_read(self, events: Sequence[Recorded[object]]) -> Sequence[Recorded[object]]:
        """Apply events while the next ones are read."""
        following: Sequence[Recorded[object]] | LogFailed | None = None

        async def read() -> None:
            nonlocal following
            try:
                following = await self._read(events[-1].position)
            except LogFailed as error:  # raised below: the nursery would wrap it
                following = error

        failed: LogFailed | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            try:
                await self._take(events)
            except LogFailed as error:
                failed = error
        if failed is not None:
            raise failed
        if isinstance(following, LogFailed):
            raise following
        assert following is not None
        return following

    async def _take(self, events: Sequence[Recorded[object]]) -> None:
        sides = list(self.sides.values())
        portions = [
            Portion(projection=side.projection, events=events, after=self.mark, side=side.number) for side in sides
        ]
        for side, taken in zip(sides, await self.store.apply(portions), strict=True):
            if taken is None:
                self._end(side, None)
        self.mark = mark_of(events[-1])

    async def _switch(self, side: _Side, unless_beyond: int) -> Switch:
        for remaining in reversed(range(SWITCH_ATTEMPTS)):
            try:
                return await self.store.switch(side.projection, side.number, unless_beyond=unless_beyond)
            except LogUnavailable:
                if not remaining:
                    raise
            await trio.sleep(SWITCH_PAUSE)
        raise AssertionError("the last attempt returns or raises")
