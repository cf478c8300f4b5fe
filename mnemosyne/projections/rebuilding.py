"""Fills new tables from the log's beginning, beside the old ones, and lets them take their place at once.

Readers see the old tables or the new ones. A projector that keeps the old ones up to date goes on with the new ones:
both know by the checkpoint where they are.
"""

from collections.abc import Callable

import attrs
import trio

from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import LogFailed, LogUnavailable, UnknownEvent
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.store import Mark, Portion, ProjectionStanding, ProjectionStore, Switch, Tail

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
    side = await store.begin_side(projection)
    try:
        return await _Rebuild(projection, log, store, side, report, page).run()
    except LogFailed:
        with trio.move_on_after(CLEANUP_SECONDS, shield=True):
            await store.drop_side(projection, side)
        raise


@attrs.define
class _Rebuild:
    projection: Projection
    log: Tail
    store: ProjectionStore
    side: int
    report: Report
    page: int
    mark: Mark = attrs.field(factory=Mark)

    async def run(self) -> Mark | None:
        live = 0
        while True:
            if not await self._fill():
                return None
            # The log was read to its end after the live tables were seen at ``live``. If they are beyond that end,
            # they come from another log, and there is nothing to wait for.
            match await self._switch(max(self.mark.position, live)):
                case Switch.DONE:
                    return self.mark
                case Switch.LOST:
                    return None
                case Switch.BEHIND:
                    standing = await self.store.standing(self.projection)
                    live = standing.mark.position if standing else 0

    async def _fill(self) -> bool:
        """Take in everything up to the log's end. False if the side was taken over."""
        page = await self._read(self.mark.position)
        while page.events:
            taken, page = await self._take_and_read(page)
            if taken is None:
                return False
            self._refuse(taken.error)
            self.mark = taken.mark
            self.report(self.mark.position)
        self._refuse(page.error)
        return True

    async def _read(self, after: int) -> Page:
        return await read_page(self.log, after=after, limit=self.page)

    async def _take_and_read(self, page: Page) -> tuple[ProjectionStanding | None, Page]:
        """Take a page in while the next one is read."""
        following: Page | LogFailed | None = None

        async def read() -> None:
            nonlocal following
            try:
                following = await self._read(page.events[-1].position)
            except LogFailed as error:  # it is ours to raise: a nursery would wrap it
                following = error

        taken: ProjectionStanding | LogFailed | None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            try:
                portion = Portion(projection=self.projection, events=page.events, after=self.mark, side=self.side)
                (taken,) = await self.store.apply((portion,))
            except LogFailed as error:
                taken = error
        if isinstance(taken, LogFailed):
            raise taken
        if isinstance(following, LogFailed):
            raise following
        assert following is not None
        return taken, following

    def _refuse(self, error: str | None) -> None:
        if error is not None:
            raise LogFailed(f"it cannot be rebuilt: {error}")

    async def _switch(self, unless_beyond: int) -> Switch:
        for remaining in reversed(range(SWITCH_ATTEMPTS)):
            try:
                return await self.store.switch(self.projection, self.side, unless_beyond=unless_beyond)
            except LogUnavailable:
                if not remaining:
                    raise
            await trio.sleep(SWITCH_PAUSE)
        raise AssertionError("the last attempt returns or raises")
