"""The awake sessions of a registry as a curator sees them (``curator.CuratedSessions``), and the questions of their
turns as a helper does (``composing.WaitingQuestions``).
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import cast

import trio

from mnemosyne.actors.messages import Due, Identity, Owed, SummaryMade
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session import SessionActor
from mnemosyne.domain.objects.work import OwedSummary, Target
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.recall.composing import HelperQuestion
from mnemosyne.domain.session.grounds import HelperAnswer
from mnemosyne.errors import ActorStopped, VersionConflict


class AwakeSessions:
    """See CuratedSessions and WaitingQuestions. A summary reaches its session as a command to its actor, who alone
    decides and appends.
    """

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry

    def again(self) -> None:
        """Let every session be looked at again: whoever took one off the list may not have come to it."""
        self._registry.note_all()

    async def wait_for_change(self) -> Identity:
        return await self._registry.changes.next()

    async def due(self, identity: Identity, limit: int, given_up: Set[Target]) -> Sequence[OwedSummary]:
        if not self._registry.is_awake(identity.stream):
            return ()
        actor, asked = self._registry.ask_behind(identity, Owed(limit=limit, given_up=given_up))
        with self._discarding(identity, actor):
            due = await asked.wait()
            assert isinstance(due, Due)
            if due.ticket is not None:
                await due.ticket.durable()  # only then are the contents there
            return due.summaries

    async def tell(self, identity: Identity, made: SummaryMade) -> bool:
        actor, asked = self._registry.ask_behind(identity, made)
        with self._discarding(identity, actor):
            ticket = cast("Ticket | None", await asked.wait())
            if ticket is not None:
                await ticket.durable()
            return ticket is not None

    async def wait_for_question(self) -> tuple[int, HelperQuestion]:
        if self._registry.questions is None:
            await trio.sleep_forever()
        return await self._registry.questions.wait_for_question()

    async def tell_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        questions = self._registry.questions
        return questions is not None and questions.answer(number, answer)

    @contextmanager
    def _discarding(self, identity: Identity, actor: SessionActor) -> Iterator[None]:
        """Let go of an actor whose state turns out not to be the log's: the next one reads it again."""
        try:
            yield
        except (VersionConflict, ActorStopped):
            self._registry.discard(identity.stream, actor)
            raise
