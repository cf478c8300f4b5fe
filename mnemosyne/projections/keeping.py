"""Keeps projections up to date together: one reading of the log and one transaction for all that are in order.

Each projection is brought up by its own projector first, which creates, rebuilds or stops it (``projector.py``). Then
it joins the others. Whatever is out of the ordinary with one of them afterwards lets it leave, and its projector looks
at it again: what stops or rebuilds one disturbs no other.
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
from mnemosyne.projections.store import Mark, Portion, ProjectionStanding, ProjectionStore, Tail

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts while the database is away."""

GATHER_SECONDS = 0.05
"""How long more events may come after the first: a busy log shall not cost a transaction for each."""


@attrs.define
class _Member:
    """A projection that is in order, and how far it has come."""

    projection: Projection
    mark: Mark
    left: trio.Event = attrs.field(factory=trio.Event)


class Keeping:
    """Keeps some projections. ``say`` gets a sentence about whatever is out of the ordinary."""

    def __init__(
        self,
        projections: Sequence[Projection],
        event_log: Tail,
        store: ProjectionStore,
        *,
        say: Callable[[str], None] = log.warning,
        page: int = PAGE,
    ) -> None:
        self._projectors = [Projector(each, event_log, store, say=say, page=page) for each in projections]
        self._log = event_log
        self._store = store
        self._say = say
        self._page = page
        self._members: dict[str, _Member] = {}
        self._heard = 0
        self._work = trio.Event()

    async def run(self, progress: Progress) -> None:
        """Keep them for as long as this runs, woken by ``progress``."""
        async with trio.open_nursery() as nursery:
            for projector in self._projectors:
                nursery.start_soon(self._keep, projector, progress)
            nursery.start_soon(self._hear, progress)
            nursery.start_soon(self._follow)

    # One of them

    async def _keep(self, projector: Projector, progress: Progress) -> None:
        """Bring a projection up, let it join, and again when it has left."""
        name, away = projector.projection.name, False
        pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                standing = await projector.catch_up()
                pauses, away = backoff(FIRST_PAUSE, LONGEST_PAUSE), False
                if standing.error is None:
                    await self._join(projector.projection, standing.mark)
                else:
                    self._say(f"The projection {name} has stopped: {standing.error}.")
                    await self._wait_for_change(projector.projection, standing, progress)
                continue
            except LogUnavailable as error:
                if not away:
                    away = True
                    self._say(f"The projection {name} waits: {error}.")
            except Exception:
                log.exception("the projector of %s failed; it starts again", name)
            await trio.sleep(next(pauses))

    async def _join(self, projection: Projection, mark: Mark) -> None:
        """Let a projection join that was brought up to a mark, until it leaves."""
        member = self._members[projection.name] = _Member(projection, mark)
        self._work.set()  # the others may have come further meanwhile
        await member.left.wait()

    async def _wait_for_change(self, projection: Projection, stopped: ProjectionStanding, progress: Progress) -> None:
        """Wait until somebody has rebuilt a projection, or got beyond where it stopped."""
        seen = 0
        while True:
            seen = await progress.beyond(seen)
            await trio.sleep(GATHER_SECONDS)
            now = await self._store.standing(projection)
            if now is None or (now.version, now.mark) != (stopped.version, stopped.mark):
                return

    # All of them

    async def _hear(self, progress: Progress) -> None:
        while True:
            self._heard = await progress.beyond(self._heard)
            self._work.set()

    async def _follow(self) -> None:
        while True:
            await self._work.wait()
            self._work = trio.Event()
            await trio.sleep(GATHER_SECONDS)
            try:
                while await self._step():
                    pass
            except LogFailed:  # whose fault it is, each projector finds out for itself
                self._part(self._members)
            except Exception:
                log.exception("the projections failed together; each is looked at by itself")
                self._part(self._members)

    async def _step(self) -> bool:
        """Let all take in the next events; whether any did.

        The last event that was taken in is read again: where it is not there, the log is another.
        """
        members = list(self._members.values())
        least = min((each.mark.position for each in members), default=self._heard)
        if least >= self._heard:
            return False
        again = 1 if least else 0
        found = await self._log.tail(after=least - again, limit=self._page + again)
        portions, left = [], []
        for member in members:
            events = _next(found, member.mark)
            if events is None:
                left.append(member.projection.name)
            elif events:
                portions.append(Portion(projection=member.projection, events=events, after=member.mark))
        self._part(left)
        taken = await self._store.apply(portions) if portions else []
        for portion, standing in zip(portions, taken, strict=True):
            self._note_move(portion.projection, standing)
        return bool(portions)

    def _note_move(self, projection: Projection, standing: ProjectionStanding | None) -> None:
        """Note how far a projection has come; it leaves where its projector has to look at it."""
        if standing is None or standing.error is not None or standing.version != projection.version:
            self._part((projection.name,))
        elif member := self._members.get(projection.name):
            member.mark = standing.mark

    def _part(self, names: Sequence[str] | dict[str, _Member]) -> None:
        for name in list(names):
            self._members.pop(name).left.set()


def _next(events: Sequence[Recorded[object]], mark: Mark) -> Sequence[Recorded[object]] | None:
    """Those after a mark; None where they do not hold the event that it names."""
    first = next((place for place, each in enumerate(events) if each.position >= mark.position), len(events))
    if mark.position == 0 or first == len(events):
        return events[first:]
    return events[first + 1 :] if mark.names(events[first]) else None
