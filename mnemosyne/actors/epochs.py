"""Begins epochs: asks the planner before a request leaves, fetches what the new history shows, has it rendered.

No turn waits long for that: what cannot be had in time is shown as its stub, and whatever else goes wrong, the history
goes on as it was.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs
import trio

from mnemosyne.actors.bodies import Bodies
from mnemosyne.actors.outside import Outside
from mnemosyne.domain.session.ground_events import Awaited
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import epochs
from mnemosyne.domain.window.epochs import Decision, Rewritten
from mnemosyne.domain.window.situation import PendingRequest, Sizes
from mnemosyne.errors import ContentForgotten, LogFailed

T = TypeVar("T")

log = logging.getLogger(__name__)

LARGE = 1 << 18
"""Bytes of a request from which on it is read and rendered in a thread."""


class Epochs:
    """The epochs of one session."""

    def __init__(self, bodies: Bodies, outside: Outside) -> None:
        self._outside = outside
        self._bodies = bodies
        self._sizes = Sizes()

    async def begin_epoch(self, asked: PendingRequest, session: Session) -> Rewritten | None:
        """The epoch that this request begins; None if it goes on as it was."""
        until = trio.current_time() + self._outside.patience.planner
        try:
            planned = await self._outside.in_time(Awaited.PLANNER, until, lambda: self._planned(asked, session))
        except Exception:
            log.exception("turn %d of branch %s goes on as it was: no epoch could be begun", asked.turn, asked.branch)
            return None
        if planned is None:
            log.warning("turn %d of branch %s goes on unplanned: that took too long", asked.turn, asked.branch)
            return None
        return planned.rewritten

    async def _planned(self, asked: PendingRequest, session: Session) -> "_Planned":
        decision = await _calmly(asked, lambda: epochs.decided(asked, session, self._sizes))
        return _Planned(await self._rewritten(decision, asked, session) if decision is not None else None)

    async def begin_again(self, asked: PendingRequest, session: Session, decision: Decision) -> Rewritten | None:
        """The epoch of a request that cannot go on as it was; None if it cannot be rendered."""
        try:
            return await self._rewritten(decision, asked, session)
        except Exception:
            log.exception("turn %d of branch %s begins with all that its client says", asked.turn, asked.branch)
            return None

    async def _rewritten(self, decision: Decision, asked: PendingRequest, session: Session) -> Rewritten | None:
        texts = await self._texts(epochs.texts_of(decision, asked, session))
        return await _calmly(asked, lambda: epochs.rewritten(decision, asked, session, texts, self._sizes))

    async def _texts(self, wanted: Mapping[str, bytes]) -> Mapping[str, str]:
        """The renditions by object, as far as they can be had in time."""
        if not wanted:
            return {}
        until = trio.current_time() + self._outside.patience.summaries
        try:
            found = await self._outside.in_time(
                Awaited.SUMMARIES, until, lambda: self._bodies.contents(wanted.values())
            )
        except (ContentForgotten, LogFailed) as error:
            log.warning("%d summaries cannot be read, and stubs stand for them: %s", len(wanted), error)
            self._outside.note_late(Awaited.SUMMARIES)
            return {}
        if found is None:
            log.warning("%d summaries did not come in time, and stubs stand for them", len(wanted))
            return {}
        return {key: found[digest].decode() for key, digest in wanted.items()}


@attrs.frozen
class _Planned:
    """What the planner said in time: an epoch, or none."""

    rewritten: Rewritten | None


async def _calmly(asked: PendingRequest, work: Callable[[], T]) -> T:
    """Do some work, in a thread where it may take long."""
    if len(asked.read.raw) < LARGE:
        return work()
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
