"""Restores objects that a person asked for, or that a goal needs, in the next request of their branch.

The request waits ``Patience.restores`` for their contents. Late contents are shown in a later request.
"""

import logging
from collections.abc import Callable, Sequence

import attrs

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.texts import ObjectTexts
from mnemosyne.domain.objects.fidelity import Cause, Fidelity
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.recall import show_again
from mnemosyne.domain.recall.memory_calls import GrantedRestore
from mnemosyne.domain.recall.show_again import PendingRestore, ShownAgain
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.input_events import Awaited
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)


class ShowAgain:
    """Restores requested objects for the branches of one session."""

    def __init__(self, texts: ObjectTexts, outside: ActorServices) -> None:
        self._texts = texts
        self._outside = outside

    async def restore(
        self,
        session: Session,
        began: TurnBegan,
        read: Transcript,
        history: UpstreamHistory,
        find_room: Callable[[], int],
        *,
        strict: bool,
    ) -> ShownAgain:
        """The history with the requested objects and their restores; if none is requested, with the predicted ones, as
        far as there is room. Unchanged, without restores, if there is no object, the request has no place for them, or
        their contents are late. ``strict`` as in SettingsTaken.
        """
        unchanged = ShownAgain(history=history)
        branch, cause = session.branches[began.branch], Cause.PREFETCH
        if began.attempt > 1 or began.turn < branch.turns or not branch.kind.is_agent_context:
            return unchanged
        granted = show_again.find_requested(session, began.branch)
        if not granted and show_again.awaits_prediction(session, began, read):
            granted, cause = show_again.find_predicted(session, began.branch, find_room()), Cause.GOAL
        if not granted:
            return unchanged
        place = show_again.find_place(read, history, began.kept)
        if place is None:
            return unchanged
        restores = await self._read_in_time(granted, session.memory, began.at)
        if not restores:
            log.info("turn %d of branch %s continues without the objects to restore", began.turn, began.branch)
            return unchanged
        if cause is Cause.GOAL:  # their images and documents were not counted
            restores = [attrs.evolve(each, attached=()) for each in restores]
        return show_again.show_again(history, place, restores, session, began, cause=cause, strict=strict)

    async def _read_in_time(
        self, granted: Sequence[GrantedRestore], known: Memory, at: int
    ) -> Sequence[PendingRestore]:
        seconds = self._outside.patience.restores
        try:
            return await self._outside.in_time(Awaited.RESTORES, seconds, lambda: self._read(granted, known, at)) or ()
        except (ContentForgotten, LogFailed) as error:
            self._outside.note_late(Awaited.RESTORES)
            log.warning("objects to show again cannot be read: %s", error)
            return ()

    async def _read(self, granted: Sequence[GrantedRestore], known: Memory, at: int) -> Sequence[PendingRestore]:
        restores = [await self._read_one(each, known, at) for each in granted]
        return [each for each in restores if each is not None]

    async def _read_one(self, granted: GrantedRestore, known: Memory, at: int) -> PendingRestore | None:
        """A restore with its text. An L1 without a rendition is made now; None if the object can have no L1."""
        if granted.after is Fidelity.DETAILED and granted.after not in granted.object.renditions:
            form = await self._texts.extract(granted.object.id, known, at)
            return None if form is None else PendingRestore(granted=granted, text=form.text, form=form)
        text, attached = await self._texts.read_at(granted.object, granted.after)
        return PendingRestore(granted=granted, text=text, attached=[part.block for part in attached])
