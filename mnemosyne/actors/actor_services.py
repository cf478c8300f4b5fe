"""What deciding asks of the world beyond the log, and how long it waits for that.

What came of it is noted, so that it can be recorded with the decision.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import attrs
import trio

from mnemosyne.actors.owners import MemoryClient
from mnemosyne.actors.patience import USUAL, Patience
from mnemosyne.domain.knowledge.block import MemoryBlock
from mnemosyne.domain.recall.object_search import SearchResult
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decision_inputs import InputsSoFar, question_of
from mnemosyne.domain.session.input_events import Awaited, FoundPassage, IndexFound
from mnemosyne.errors import ContentForgotten, LogFailed

log = logging.getLogger(__name__)

T = TypeVar("T")

Find = Callable[[str, Collection[str], int], Awaitable[SearchResult]]
"""``ObjectIndex.search`` in one session."""


SelectKnowledge = Callable[[MemoryClient, str | None, str, int, int], Awaitable[MemoryBlock | None]]
"""``KnowledgeSource.select_knowledge`` for one tenant: client, folder, prompt, request bytes and time."""


class ActorServices:
    """Asks for one session. ``find`` asks its index of objects, if there is one; ``recollect`` what is known beyond
    sessions.
    """

    def __init__(
        self, find: Find | None = None, patience: Patience = USUAL, select_knowledge: SelectKnowledge | None = None
    ) -> None:
        self.patience = patience
        self._select_knowledge = select_knowledge
        self.noted = InputsSoFar()
        """What came of it since ``begin``."""
        self._find = find

    def begin(self) -> None:
        """Another decision begins: nothing is noted for it yet."""
        self.noted = InputsSoFar()

    async def in_time(self, wait: Awaited, until: float, do: Callable[[], Awaitable[T]]) -> T | None:
        """What doing something gives; None where it is not done ``until`` then, on trio's clock."""
        with trio.move_on_at(until):
            return await do()
        self.note_late(wait)
        return None

    async def call_in_time(self, call: str, answer: Callable[[], Awaitable[T]]) -> T | None:
        """The answer to a hidden call; None where what it quotes does not come in time. What was found for a call
        without an answer counts for nothing, and is not noted. Raises ContentForgotten and LogFailed.
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
        """What a session is told that begins with a prompt, in a request of so many bytes; None for nothing, or where
        that is not known in time.
        """
        if self._select_knowledge is None:
            return None
        block: MemoryBlock | None = None
        with trio.move_on_after(self.patience.knowledge) as scope:
            try:
                block = await self._select_knowledge(client, folder, prompt, size, at)
            except LogFailed as error:
                log.info("what is known beyond sessions cannot be read: %s", error)
            except Exception:
                log.exception("a session begins without what is known beyond sessions")
        if scope.cancelled_caught:
            log.info("what is known beyond sessions did not come within %g s", self.patience.knowledge)
        return block

    def note_late(self, wait: Awaited) -> None:
        """This cannot be had now."""
        self.noted = attrs.evolve(self.noted, late=(*self.noted.late, wait))

    async def search(self, question: str, among: Collection[str], limit: int, seconds: float) -> SearchResult | None:
        """What the index finds among some objects; None where it does not say, or not in time."""
        if self._find is None:
            return None
        found: SearchResult | None = None
        with trio.move_on_after(seconds) as scope:
            try:
                found = await self._find(question, among, limit)
            except LogFailed as error:
                log.info("the index of objects cannot be asked: %s", error)
        if scope.cancelled_caught:
            log.info("the index of objects gave no answer within %g s", seconds)
        answer = _tell(question_of(question, among, limit), found)
        self.noted = attrs.evolve(self.noted, found=(*self.noted.found, answer))
        return found


def _tell(question: bytes, found: SearchResult | None) -> IndexFound:
    if found is None:
        return IndexFound(question=question, passages=None, missing=0)
    passages = tuple(
        FoundPassage(object=hit.object, start=hit.passage.start, end=hit.passage.end) for hit in found.hits
    )
    return IndexFound(question=question, passages=passages, missing=found.missing)
