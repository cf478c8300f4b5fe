"""Services that a decision needs beyond the log, each with a time limit.

Their results are collected so that they can be recorded with the decision.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import attrs
import trio

from mnemosyne.actors.owners import MemoryClient
from mnemosyne.actors.patience import USUAL, Patience
from mnemosyne.actors.plug_ins import PlugInRunner
from mnemosyne.domain.knowledge.block import MemoryBlock
from mnemosyne.domain.recall.object_search import SearchResult
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decision_inputs import question_of
from mnemosyne.domain.session.input_events import Awaited, FoundPassage, IndexFound, InputsSoFar
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.planning import NoRewrite, Plan, Situation
from mnemosyne.domain.window.policies import PolicyFailed
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)

T = TypeVar("T")

Find = Callable[[str, Collection[str], int, float], Awaitable[SearchResult]]
"""``ObjectIndex.search`` in one session."""


SelectKnowledge = Callable[[MemoryClient, str | None, str, int, int], Awaitable[MemoryBlock | None]]
"""``KnowledgeSource.select_knowledge`` for one tenant: client, folder, prompt, request bytes and time."""


class ActorServices:
    """The services of one session. ``find`` searches its object index, if there is one; ``select_knowledge`` reads the
    memory beyond sessions; ``plug_in`` runs the operator's own policy.
    """

    def __init__(
        self,
        find: Find | None = None,
        patience: Patience = USUAL,
        select_knowledge: SelectKnowledge | None = None,
        plug_in: PlugInRunner | None = None,
    ) -> None:
        self.patience = patience
        self._select_knowledge = select_knowledge
        self._plug_in = plug_in
        self.noted = InputsSoFar()
        """The inputs collected since ``begin``."""
        self._find = find

    def begin(self) -> None:
        """Start another decision, with no inputs yet."""
        self.noted = InputsSoFar()

    async def in_time(self, wait: Awaited, seconds: float, do: Callable[[], Awaitable[T]]) -> T | None:
        """The result of ``do``; None, recorded as late, if it takes longer."""
        with trio.move_on_after(seconds):
            return await do()
        self.note_late(wait)
        return None

    async def call_in_time(self, call: str, answer: Callable[[], Awaitable[T]]) -> T | None:
        """The answer to a hidden call; None if the quoted content is late. Inputs collected for a call without an
        answer are dropped. Raises ContentForgotten and LogFailed.
        """
        before, name = self.noted, sanitize.text(call)
        try:
            return await answer()
        except trio.TooSlowError:
            self.noted = attrs.evolve(before, late_calls=(*before.late_calls, name))
            return None
        except (ContentForgotten, LogFailed):
            self.noted = attrs.evolve(before, unread_calls=(*before.unread_calls, name))
            raise

    async def select_knowledge(
        self, client: MemoryClient, folder: str | None, prompt: str, size: int, at: int
    ) -> MemoryBlock | None:
        """The memory block for a session that begins with a prompt, in a request of ``size`` bytes; None if there is
        none, or it is late.
        """
        if self._select_knowledge is None:
            return None
        block: MemoryBlock | None = None
        with trio.move_on_after(self.patience.knowledge) as scope:
            try:
                block = await self._select_knowledge(client, folder, prompt, size, at)
            except LogFailed as error:
                log.info("the memory beyond sessions cannot be read: %s", error)
            except Exception:
                log.exception("a session begins without the memory beyond sessions")
        if scope.cancelled_caught:
            log.info("the memory beyond sessions did not answer within %g s", self.patience.knowledge)
        return block

    async def ask_policy(self, name: str, situation: Situation, objects: Sequence[Candidate]) -> Plan | NoRewrite:
        """The plan of a policy that is not built in, as far as the guard allows it. Raises PolicyFailed."""
        if self._plug_in is None or self._plug_in.policy.name != name:
            raise PolicyFailed("this server does not have it")
        return await self._plug_in.plan(situation, objects, self.patience.policy)

    def note_policy(self, failure: PolicyFailed) -> None:
        """Record why a policy gave no usable plan; the log, which outlives an erased session, gets no quote."""
        log.warning("the policy gave no usable plan: %s", failure.brief)
        self.noted = attrs.evolve(self.noted, policy=sanitize.text(str(failure)))

    def note_late(self, wait: Awaited) -> None:
        """Record that an input was not available in time."""
        self.noted = attrs.evolve(self.noted, late=(*self.noted.late, wait))

    async def search(self, question: str, among: Collection[str], limit: int, least: float) -> SearchResult | None:
        """The index's passages of the given objects; None if there is no index, it fails, or it is late."""
        if self._find is None:
            return None
        found: SearchResult | None = None
        with trio.move_on_after(self.patience.index) as scope:
            try:
                found = await self._find(question, among, limit, least)
            except LogFailed as error:
                log.info("the object index cannot be searched: %s", error)
        if scope.cancelled_caught:
            log.info("the object index did not answer within %g s", self.patience.index)
        answer = _describe_hits(question_of(question, among, limit), found)
        self.noted = attrs.evolve(self.noted, found=(*self.noted.found, answer))
        return found


def _describe_hits(question: bytes, found: SearchResult | None) -> IndexFound:
    if found is None:
        return IndexFound(question=question, passages=None, missing=0)
    passages = tuple(
        FoundPassage(object=hit.object, start=hit.passage.start, end=hit.passage.end, score=round(100 * hit.score))
        for hit in found.passages
    )
    return IndexFound(question=question, passages=passages, missing=found.missing)
