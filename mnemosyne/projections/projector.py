"""Brings one projection up to date from any state: reads the log, applies events, and moves the checkpoint.

Every step depends only on stored data, not on memory, so that several projectors of one projection, in one process or
in many, produce the same tables. A projection that cannot continue stops and gives the reason in one sentence.
``maintenance.py`` keeps projections that are in order together.
"""

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import LogFailed, LogUnavailable
from mnemosyne.projections.projection import Projection, fold
from mnemosyne.projections.rebuilding import PAGE, Report, ignore_progress, rebuild
from mnemosyne.projections.store import Mark, Portion, ProjectionStatus, ProjectionStore, Tail

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""How often to check the progress of another process's rebuild."""

MOST_RETRIED = 32
"""How many of the events that were set aside, from the first on, are retried at each catch-up: it must not read the
whole log again.
"""


class Projector:
    """Brings one projection up to date. ``say`` receives a sentence about anything unusual, ``report`` the progress of
    a rebuild.
    """

    def __init__(
        self,
        projection: Projection,
        event_log: Tail,
        store: ProjectionStore,
        *,
        say: Callable[[str], None] = log.warning,
        report: Report = ignore_progress,
        page: int = PAGE,
    ) -> None:
        self.projection = projection
        self._log = event_log
        self._store = store
        self._say = say
        self._report = report
        self._page = page

    async def catch_up(self) -> ProjectionStatus:
        """Apply all events in the log, after a rebuild if necessary; return the projection's status.

        Events that were set aside are retried, and so is a stopped projection. If it cannot continue, the status has an
        ``error``. Raises LogUnavailable.
        """
        status = await self._fit()
        if status.set_aside and await self._can_apply_any(status.set_aside):
            status = await self._rebuilt(status, "events that were set aside can now be applied")
        return await self._follow(status) if self.is_fit(status) else status

    async def look(self) -> None:
        """Apply all events in the log if the tables are in order; anything slower is left to others. Raises
        LogUnavailable.
        """
        status = await self._store.status(self.projection)
        if status is None:
            await self._store.create(self.projection)
            status = await self._store.status(self.projection)
        if status is not None and status.error is None and self.is_fit(status):
            await self._follow(status)

    async def _can_apply_any(self, positions: Sequence[int]) -> bool:
        """Return whether any event that was set aside can be applied now: it was restored, or this version knows it."""
        for position in positions[:MOST_RETRIED]:
            events = await self._log.tail(after=position - 1, limit=1)
            if not fold(self.projection, events).set_aside:
                return True
        return False

    def is_fit(self, status: ProjectionStatus) -> bool:
        """Return whether the tables have this version and no damage."""
        return status.version == self.projection.version and status.damage is None

    async def _fit(self) -> ProjectionStatus:
        """Return the status with tables of this version, or with the reason in ``error``."""
        while True:
            status = await self._store.status(self.projection)
            if status is None:
                await self._store.create(self.projection)
            elif status.version > self.projection.version:
                return attrs.evolve(status, error=_too_new(status, self.projection))
            elif self.is_fit(status):
                return status
            elif status.rebuilding:
                await trio.sleep(POLL_SECONDS)
            else:
                reason = (
                    status.damage or f"it has version {status.version}, and this program has {self.projection.version}"
                )
                return await self._rebuilt(status, reason)

    async def _follow(self, status: ProjectionStatus) -> ProjectionStatus:
        """Apply all events after this status."""
        while True:
            next_status = await self._step(status)
            if next_status == status or next_status.error is not None or not self.is_fit(next_status):
                return next_status
            status = next_status

    async def _step(self, status: ProjectionStatus) -> ProjectionStatus:
        """Apply the next events. The last applied event is read again: if it is missing, this is a different log."""
        mark = status.mark
        overlap = 1 if mark.position else 0
        read_events = await self._log.tail(after=mark.position - overlap, limit=self._page + overlap)
        if overlap and not (read_events and mark.names(read_events[0])):
            return await self._rebuilt(status, f"the log does not contain the event at position {mark.position}")
        events = read_events[overlap:]
        if not events and status.error is None:
            return status
        return await self._apply(mark, events)

    async def _apply(self, mark: Mark, events: Sequence[Recorded[object]]) -> ProjectionStatus:
        try:
            (taken,) = await self._store.apply((Portion(projection=self.projection, events=events, after=mark),))
            return taken or await self._fit()
        except LogUnavailable:
            raise
        except LogFailed as error:
            # Check whether the tables changed. If so, they are new now; otherwise the database refuses these rows.
            status = await self._fit()
            if status.mark != mark or status.error is not None:
                return status
            return await self._store.stop(self.projection, str(error), after=mark) or status

    async def _rebuilt(self, status: ProjectionStatus, reason: str) -> ProjectionStatus:
        self._say(f"The projection {self.projection.name} is rebuilt: {reason}.")
        try:
            await rebuild(self.projection, self._log, self._store, self._report, page=self._page)
        except LogUnavailable:
            raise
        except LogFailed as error:
            stopped = await self._store.stop(self.projection, str(error), after=status.mark)
            return attrs.evolve(stopped or status, error=str(error))
        return await self._fit()


def _too_new(status: ProjectionStatus, projection: Projection) -> str:
    return (
        f"a newer Mnemosyne created its tables (version {status.version}; this one has {projection.version}); "
        f"use the newer one, or `mnemosyne rebuild {projection.name}`"
    )
