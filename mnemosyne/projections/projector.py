"""Brings one projection up to date, whatever state it is in: tail the log, take events in, move the checkpoint.

Every step goes by what is stored and by nothing that is remembered, so that several projectors of one projection, in
one process or in many, come to the same tables. What cannot go on stops by itself and says why in one sentence.
Many that are in order are kept together: ``keeping.py``.
"""

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import LogFailed, LogUnavailable
from mnemosyne.projections.projection import Projection, fold
from mnemosyne.projections.rebuilding import PAGE, Report, ignore_news, rebuild
from mnemosyne.projections.store import Mark, Portion, ProjectionStanding, ProjectionStore, Tail

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often to look how somebody else's rebuild is doing."""

LOOKED_AT_AGAIN = 32
"""Events that were set aside, the first ones, that each catching up looks at: it shall not read a log again."""


class Projector:
    """Brings up one projection. ``say`` gets a sentence about what is out of the ordinary, ``report`` how far a rebuild
    has come.
    """

    def __init__(
        self,
        projection: Projection,
        event_log: Tail,
        store: ProjectionStore,
        *,
        say: Callable[[str], None] = log.warning,
        report: Report = ignore_news,
        page: int = PAGE,
    ) -> None:
        self.projection = projection
        self._log = event_log
        self._store = store
        self._say = say
        self._report = report
        self._page = page

    async def catch_up(self) -> ProjectionStanding:
        """Take in what the log holds by now, rebuilding first if need be; return how the projection stands then.

        What was set aside is looked at again. If it cannot go on, the standing's ``error`` says why; one that had
        stopped is tried again. Raises LogUnavailable.
        """
        standing = await self._fit()
        if standing.set_aside and await self._can_be_taken_in(standing.set_aside):
            standing = await self._rebuilt(standing, "what had been set aside can be taken in now")
        return await self._follow(standing) if self.is_fit(standing) else standing

    async def look(self) -> None:
        """Take in what the log holds by now, if the tables are in order; what takes longer is left to others. Raises
        LogUnavailable.
        """
        standing = await self._store.standing(self.projection)
        if standing is None:
            await self._store.create(self.projection)
            standing = await self._store.standing(self.projection)
        if standing is not None and standing.error is None and self.is_fit(standing):
            await self._follow(standing)

    async def _can_be_taken_in(self, positions: Sequence[int]) -> bool:
        """Whether any of the events that were set aside can: it was restored, or this is the version that knows it."""
        for position in positions[:LOOKED_AT_AGAIN]:
            events = await self._log.tail(after=position - 1, limit=1)
            if not fold(self.projection, events).set_aside:
                return True
        return False

    def is_fit(self, standing: ProjectionStanding) -> bool:
        """Whether it stands on tables of this version that are as they should be."""
        return standing.version == self.projection.version and standing.damage is None

    async def _fit(self) -> ProjectionStanding:
        """How it stands, with tables of this version, unless the error says why that cannot be."""
        while True:
            standing = await self._store.standing(self.projection)
            if standing is None:
                await self._store.create(self.projection)
            elif standing.version > self.projection.version:
                return attrs.evolve(standing, error=_too_new(standing, self.projection))
            elif self.is_fit(standing):
                return standing
            elif standing.rebuilding:
                await trio.sleep(POLL_SECONDS)
            else:
                reason = standing.damage or f"version {standing.version} made it, and this is {self.projection.version}"
                return await self._rebuilt(standing, reason)

    async def _follow(self, standing: ProjectionStanding) -> ProjectionStanding:
        """Take in all that there is after a standing."""
        while True:
            found = await self._step(standing)
            if found == standing or found.error is not None or not self.is_fit(found):
                return found
            standing = found

    async def _step(self, standing: ProjectionStanding) -> ProjectionStanding:
        """Take in the next events. The last one taken in is read again: if it is not there, the log is another."""
        mark = standing.mark
        again = 1 if mark.position else 0
        found = await self._log.tail(after=mark.position - again, limit=self._page + again)
        if again and not (found and mark.names(found[0])):
            return await self._rebuilt(standing, f"the log does not hold what it knows from position {mark.position}")
        events = found[again:]
        if not events and standing.error is None:
            return standing
        return await self._apply(mark, events)

    async def _apply(self, mark: Mark, events: Sequence[Recorded[object]]) -> ProjectionStanding:
        try:
            (taken,) = await self._store.apply((Portion(projection=self.projection, events=events, after=mark),))
            return taken or await self._fit()
        except LogUnavailable:
            raise
        except LogFailed as error:
            # Are the tables not what they were? Then they are new now; else it is these rows that are refused.
            standing = await self._fit()
            if standing.mark != mark or standing.error is not None:
                return standing
            return await self._store.stop(self.projection, str(error), after=mark) or standing

    async def _rebuilt(self, standing: ProjectionStanding, reason: str) -> ProjectionStanding:
        self._say(f"The projection {self.projection.name} is rebuilt: {reason}.")
        try:
            await rebuild(self.projection, self._log, self._store, self._report, page=self._page)
        except LogUnavailable:
            raise
        except LogFailed as error:
            stopped = await self._store.stop(self.projection, str(error), after=standing.mark)
            return attrs.evolve(stopped or standing, error=str(error))
        return await self._fit()


def _too_new(standing: ProjectionStanding, projection: Projection) -> str:
    return (
        f"a newer Mnemosyne made its tables (version {standing.version}, and this one knows {projection.version}); "
        f"use the newer one, or `mnemosyne rebuild {projection.name}`"
    )
