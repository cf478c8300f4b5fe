"""Keeps projections up to date together: one read of the log and one transaction for all that are in order.

Each projection is first brought up to date by its own projector, which creates, rebuilds or stops it
(``projector.py``). Then it joins the group. If anything unusual happens to it, it is removed from the group and its
projector handles it, so that a stopped or rebuilt projection does not disturb the others.
"""

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from mnemosyne.backoff import backoff
from mnemosyne.domain.ports import Progress, Recorded
from mnemosyne.errors import LogFailed, LogUnavailable
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.rebuilding import PAGE
from mnemosyne.projections.store import Mark, Portion, ProjectionStatus, ProjectionStore, Tail

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts while the database is unavailable."""

GATHER_SECONDS = 0.05
"""How long to wait for more events after the first: a busy log must not cost a transaction for each event."""


@attrs.define
class _Member:
    """A projection that is in order, and the last event that it applied."""

    projection: Projection
    mark: Mark
    removed: trio.Event = attrs.field(factory=trio.Event)


class Keeping:
    """Keeps some projections up to date. ``say`` receives a sentence about anything unusual."""

    def __init__(
        self,
        projections: Sequence[Projection],
        event_log: Tail,
        store: ProjectionStore,
        *,
        say: Callable[[str], None] = log.warning,
        page: int = PAGE,
    ) -> None:
        self._projectors = [Projector(projection, event_log, store, say=say, page=page) for projection in projections]
        self._log = event_log
        self._store = store
        self._say = say
        self._page = page
        self._members: dict[str, _Member] = {}
        self._last_known = 0
        self._work = trio.Event()

    async def run(self, progress: Progress) -> None:
        """Keep the projections up to date for as long as this runs, woken by ``progress``."""
        async with trio.open_nursery() as nursery:
            for projector in self._projectors:
                nursery.start_soon(self._keep, projector, progress)
            nursery.start_soon(self._watch, progress)
            nursery.start_soon(self._follow)

    # A single projection

    async def _keep(self, projector: Projector, progress: Progress) -> None:
        """Bring a projection up to date and let it join the group; repeat after each removal."""
        name, unavailable = projector.projection.name, False
        pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                status = await projector.catch_up()
                pauses, unavailable = backoff(FIRST_PAUSE, LONGEST_PAUSE), False
                if status.error is None:
                    await self._join(projector.projection, status.mark)
                else:
                    self._say(f"The projection {name} has stopped: {status.error}.")
                    await self._wait_for_change(projector.projection, status, progress)
                continue
            except LogUnavailable as error:
                if not unavailable:
                    unavailable = True
                    self._say(f"The projection {name} waits: {error}.")
            except Exception:
                log.exception("the projector of %s failed and restarts", name)
            await trio.sleep(next(pauses))

    async def _join(self, projection: Projection, mark: Mark) -> None:
        """Let a projection join the group at a mark, and wait until it is removed."""
        member = self._members[projection.name] = _Member(projection, mark)
        self._work.set()  # the others may have advanced meanwhile
        await member.removed.wait()

    async def _wait_for_change(self, projection: Projection, stopped: ProjectionStatus, progress: Progress) -> None:
        """Wait until a projection has been rebuilt or has advanced beyond the position where it stopped."""
        seen = 0
        while True:
            seen = await progress.beyond(seen)
            await trio.sleep(GATHER_SECONDS)
            now = await self._store.status(projection)
            if now is None or (now.version, now.mark) != (stopped.version, stopped.mark):
                return

    # The group

    async def _watch(self, progress: Progress) -> None:
        while True:
            self._last_known = await progress.beyond(self._last_known)
            self._work.set()

    async def _follow(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            await trio.sleep(GATHER_SECONDS)
            try:
                while await self._step():
                    pass
            except LogFailed:  # each projector finds out for itself whether it is the cause
                self._remove(self._members)
            except Exception:
                log.exception("a joint update of the projections failed; each is updated separately")
                self._remove(self._members)

    async def _step(self) -> bool:
        """Let all projections apply the next events; return whether any did.

        The last applied event is read again: if it is missing, this is a different log.
        """
        members = list(self._members.values())
        least = min((member.mark.position for member in members), default=self._last_known)
        if least >= self._last_known:
            return False
        overlap = 1 if least else 0
        events_read = await self._log.tail(after=least - overlap, limit=self._page + overlap)
        portions, stale = [], []
        for member in members:
            events = _next(events_read, member.mark)
            if events is None:
                stale.append(member.projection.name)
            elif events:
                portions.append(Portion(projection=member.projection, events=events, after=member.mark))
        self._remove(stale)
        taken = await self._store.apply(portions) if portions else []
        for portion, status in zip(portions, taken, strict=True):
            self._update_mark(portion.projection, status)
        return bool(portions)

    def _update_mark(self, projection: Projection, status: ProjectionStatus | None) -> None:
        """Record how far a projection has advanced; remove it if its projector must handle it."""
        if status is None or status.error is not None or status.version != projection.version:
            self._remove((projection.name,))
        elif member := self._members.get(projection.name):
            member.mark = status.mark

    def _remove(self, names: Sequence[str] | dict[str, _Member]) -> None:
        for name in list(names):
            self._members.pop(name).removed.set()


def _next(events: Sequence[Recorded[object]], mark: Mark) -> Sequence[Recorded[object]] | None:
    """Return the events after a mark; None if they do not include the event that it names."""
    first = next((place for place, event in enumerate(events) if event.position >= mark.position), len(events))
    if mark.position == 0 or first == len(events):
        return events[first:]
    return events[first + 1 :] if mark.names(events[first]) else None
