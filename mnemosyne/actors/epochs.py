"""Begins epochs: asks the planner before a request is sent, reads the content that the new history shows, and renders
it.

The planner looks at each message and object in the window once, so planning is fast however long the session is. Only
reading summaries is waited for, and briefly: a late one is shown as its stub. On any error the history continues
unchanged.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.bodies import Bodies
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.session.decide import NoteFilled
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import Awaited
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.window import epochs, policies, rereads
from mnemosyne.domain.window.epochs import Decision, Forms, Rewritten
from mnemosyne.domain.window.planning import NoRewrite, Plan, Situation
from mnemosyne.domain.window.policies import PolicyFailed
from mnemosyne.domain.window.predictions import find_room
from mnemosyne.domain.window.situation import PendingRequest, Sizes, candidates_of
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.errors import ContentForgotten, LogFailed

T = TypeVar("T")

log = logging.getLogger(__name__)

LARGE = 1 << 18
"""Size in bytes above which a request is rendered in a thread, so that other sessions keep running."""


class Epochs:
    def __init__(self, bodies: Bodies, outside: ActorServices) -> None:
        self._outside = outside
        self._bodies = bodies
        self.sizes = Sizes()
        self._planned: tuple[PendingRequest, Situation] | None = None

    async def begin_epoch(self, asked: PendingRequest, session: Session) -> tuple[Rewritten | None, NoteFilled | None]:
        """The epoch that this request begins, None if it continues the current one; and the note to record if the
        request fills its window nevertheless.
        """
        try:
            situation = epochs.situate(rereads.expect(asked, session), session, self.sizes)
            if situation is None:
                return None, None
            self._planned = asked, situation
            planned = await self._decide(asked, session, situation)
            if isinstance(planned, NoRewrite):
                return None, epochs.note_filled(asked, situation, planned.reason)
            rewritten = await self._rewrite(planned, asked, session)
            freed = rewritten.freed if rewritten is not None else 0
            return rewritten, epochs.note_filled(asked, situation, epochs.REST_STAYS, freed)
        except Exception:
            log.exception("turn %d of branch %s continues unchanged: the compaction failed", asked.turn, asked.branch)
            return None, None

    def list_leaving(self, session: Session) -> list[tuple[MemoryObject, Fidelity]]:
        """The objects that will soon be degraded, with their fidelities, once for each planned request whose turn has
        ended; empty otherwise.
        """
        if self._planned is None or session.running:
            return []
        asked, situation = self._planned
        branch = session.branches.get(asked.branch)
        if branch is None or branch.turns < asked.turn:  # the turn has not begun
            return []
        self._planned = None
        try:
            return epochs.list_leaving(asked, session, situation, self.sizes)
        except Exception:
            log.exception("the objects that branch %s will evict soon cannot be predicted", asked.branch)
            return []

    async def fit(
        self, asked: PendingRequest, session: Session, tokens: int
    ) -> tuple[Rewritten, NoteFilled | None] | None:
        """The epoch that replaces a request of at least ``tokens`` tokens, which its provider refused as too long; None
        if no epoch makes it fit.
        """
        try:
            situation = epochs.situate(asked, session, self.sizes)
            if situation is None:
                return None
            situation = attrs.evolve(situation, prompt=max(situation.prompt, tokens))
            planned = await self._decide(asked, session, situation)
            rewritten = None if isinstance(planned, NoRewrite) else await self._rewrite(planned, asked, session)
            if rewritten is None or situation.prompt - rewritten.freed > situation.limit:
                return None
            return rewritten, epochs.note_filled(asked, situation, epochs.REST_STAYS, rewritten.freed)
        except Exception:
            log.exception("turn %d of branch %s could not be made to fit", asked.turn, asked.branch)
            return None

    def judge_unplanned(self, asked: PendingRequest, session: Session) -> NoteFilled | None:
        """The note to record for a request that was sent unplanned, if it fills its window."""
        situation = epochs.situate(asked, session, self.sizes)
        return epochs.note_filled(asked, situation, epochs.UNPLANNED) if situation is not None else None

    def answer_rereads(self, asked: PendingRequest, session: Session) -> tuple[UpstreamHistory, tuple[Event, ...]]:
        """The history of a request, with evicted content restored where the client refers to its own copy of it."""
        try:
            return rereads.answer(asked, session, self.sizes)
        except Exception:
            log.exception("turn %d of branch %s continues without evicted content", asked.turn, asked.branch)
            return asked.history, ()

    def find_room(self, asked: PendingRequest, session: Session) -> int:
        """The tokens that objects for a predicted need may add to a request."""
        return find_room(asked, session, self.sizes)

    async def begin_again(self, asked: PendingRequest, session: Session, decision: Decision) -> Rewritten | None:
        """The epoch of a request that cannot continue the current one; None if it cannot be rendered."""
        try:
            return await self._rewrite(decision, asked, session)
        except Exception:
            log.exception("turn %d of branch %s begins with the client's whole history", asked.turn, asked.branch)
            return None

    async def _decide(self, asked: PendingRequest, session: Session, situation: Situation) -> Decision | NoRewrite:
        """Decide whether this request begins an epoch; a policy that is not built in is asked first."""
        planned: Plan | NoRewrite | None = None
        if asked.settings.policy not in policies.BUILT_IN and epochs.may_begin(asked):
            objects = candidates_of(asked, session, self.sizes)
            try:
                planned = await self._outside.ask_policy(asked.settings.policy, situation, objects)
            except PolicyFailed as failure:
                self._outside.note_policy(failure)
                planned = policies.plan_without(situation, objects, "the policy gave no usable plan")
        return epochs.decide_epoch(asked, session, situation, self.sizes, planned)

    async def _rewrite(self, decision: Decision, asked: PendingRequest, session: Session) -> Rewritten | None:
        texts = epochs.texts_of(decision, asked, session)
        forms = await self._read_forms(texts, epochs.list_to_extract(decision, asked, session))
        return await _run_by_size(asked, lambda: epochs.rewrite(decision, asked, session, forms, self.sizes))

    async def _read_forms(self, texts: Mapping[str, bytes], contents: Mapping[str, bytes]) -> Forms:
        """The recorded renditions, and the contents from which others are made, as far as they are read in time."""
        count = len(texts) + len(contents)
        if not count:
            return Forms()

        async def read() -> Forms:
            found = await self._bodies.contents(texts.values()) if texts else {}
            stored = await self._bodies.read_all_stored(contents.values())
            return Forms(
                texts={key: found[digest].decode() for key, digest in texts.items()},
                contents={key: stored[change] for key, change in contents.items()},
            )

        try:
            forms = await self._outside.in_time(Awaited.SUMMARIES, self._outside.patience.summaries, read)
        except (ContentForgotten, LogFailed) as error:
            log.warning("%d short forms cannot be read or made and are shown as stubs: %s", count, error)
            self._outside.note_late(Awaited.SUMMARIES)
            return Forms()
        if forms is None:
            log.warning("%d short forms were late and are shown as stubs", count)
        return forms or Forms()


async def _run_by_size(asked: PendingRequest, work: Callable[[], T]) -> T:
    """Do the work, in a thread if the request is large."""
    return work() if len(asked.read.raw) < LARGE else await trio.to_thread.run_sync(work)
