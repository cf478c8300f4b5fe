"""Fills new tables from the log's beginning, beside the old ones, and lets them take their place at once. Those of
several projections are filled in one reading: most of what a rebuild takes is to read an event.

Readers see the old tables or the new ones. A projector that keeps the old ones up to date goes on with the new ones:
both know by the checkpoint where they are.
"""

from collections.abc import Callable, Sequence

import attrs
import trio

from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import LogFailed, LogUnavailable, UnknownEvent
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.store import Mark, Portion, ProjectionStore, Switch, Tail, mark_of

PAGE = 1_000
"""How many events are taken in at once while there are many."""

SWITCH_ATTEMPTS, SWITCH_PAUSE = 60, 0.2
"""How often those who read the old tables are waited for, and the seconds in between."""

CLEANUP_SECONDS = 5


@attrs.frozen
class Page:
    """The next events of the log. ``error`` says why the one after them cannot be read."""

    events: tuple[Recorded[object], ...]
    error: str | None = None


async def read_page(log: Tail, *, after: int, limit: int, at_least: int = 1) -> Page:
    """Up to ``limit`` events after a position: all up to one that this version cannot read.

    An empty page without an error is the log's end. Where an event cannot be read, ever less is asked for, down to
    ``at_least``: so many events that it is among them if those before it are not to be read on their own.
    """
    try:
        return Page(tuple(await log.tail(after=after, limit=limit)))
    except UnknownEvent as error:
        if limit <= at_least:
            return Page((), str(error))
    return await read_page(log, after=after, limit=max(at_least, limit // 2), at_least=at_least)


Report = Callable[[int], None]
"""Hears the position that was reached."""


def ignore_news(position: int) -> None:
    """For those who do not wait for it."""


async def rebuild(
    projection: Projection, log: Tail, store: ProjectionStore, report: Report = ignore_news, *, page: int = PAGE
) -> Mark | None:
    """Rebuild a projection from nothing. Returns the last mark; None if a later rebuild took the place of this one.

    Raises LogFailed if an event cannot be taken in; the old tables stay then.
    """
    found = await rebuild_all((projection,), log, store, report, page=page)
    return found[projection.name]


async def rebuild_all(
    projections: Sequence[Projection],
    log: Tail,
    store: ProjectionStore,
    report: Report = ignore_news,
    *,
    page: int = PAGE,
) -> dict[str, Mark | None]:
    """Rebuild projections from nothing, in one reading of the log; by their names what ``rebuild`` returns of each.

    Raises LogFailed if one of them cannot take an event in; the old tables of all that were not whole stay then.
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
    """The side tables of a projection, until they took the others' place or are another rebuild's; ``live`` is how far
    the others were when last seen.
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
        """Let the side tables take the place of the others, unless those are further."""
        # The log was read to its end after the live tables were seen at ``live``. If they are beyond that end, they
        # come from another log, and there is nothing to wait for.
        match await self._switch(side, max(self.mark.position, side.live)):
            case Switch.DONE:
                self._end(side, self.mark)
            case Switch.LOST:
                self._end(side, None)
            case Switch.BEHIND:
                standing = await self.store.standing(side.projection)
                side.live = standing.mark.position if standing else 0

    def _end(self, side: _Side, mark: Mark | None) -> None:
        del self.sides[side.projection.name]
        self.ended[side.projection.name] = mark

    async def _fill(self) -> None:
        """Take in everything up to the log's end."""
        page = await self._read(self.mark.position)
        while page.events and self.sides:
            page = await self._take_and_read(page)
            self.report(self.mark.position)
        self._refuse(page.error)

    async def _read(self, after: int) -> Page:
        return await read_page(self.log, after=after, limit=self.page)

    async def _take_and_read(self, page: Page) -> Page:
        """Take a page in while the next one is read."""
        following: Page | LogFailed | None = None

        async def read() -> None:
            nonlocal following
            try:
                following = await self._read(page.events[-1].position)
            except LogFailed as error:  # it is ours to raise: a nursery would wrap it
                following = error

        failed: LogFailed | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            try:
                await self._take(page.events)
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
            Portion(projection=each.projection, events=events, after=self.mark, side=each.number) for each in sides
        ]
        for side, taken in zip(sides, await self.store.apply(portions), strict=True):
            if taken is None:
                self._end(side, None)
            else:
                self._refuse(taken.error)
        self.mark = mark_of(events[-1])

    def _refuse(self, error: str | None) -> None:
        if error is not None:
            raise LogFailed(f"it cannot be rebuilt: {error}")

    async def _switch(self, side: _Side, unless_beyond: int) -> Switch:
        for remaining in reversed(range(SWITCH_ATTEMPTS)):
            try:
                return await self.store.switch(side.projection, side.number, unless_beyond=unless_beyond)
            except LogUnavailable:
                if not remaining:
                    raise
            await trio.sleep(SWITCH_PAUSE)
        raise AssertionError("the last attempt returns or raises")
