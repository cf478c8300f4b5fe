"""The loaded sessions of a registry as a helper model serves them: their orders
(``helper_work.WaitingOrders``) and the questions of their turns (``composing.WaitingQuestions``).
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.helper_work import KEPT, HelperRequest
from mnemosyne.actors.mailbox import Ask
from mnemosyne.actors.messages import Answer, CompleteDeferred, HelperDone, Identity, Message
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session import SessionActor
from mnemosyne.actors.session_orders import LearnContext
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.helper.background import HelperOrder
from mnemosyne.domain.helper.facts import FACTS
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.knowledge.prompts import LearnedFact
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session.helper_results import SUMMARY
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.errors import ActorStopped, MnemosyneError, VersionConflict

log = logging.getLogger(__name__)


_Ask = Callable[[Identity, Message], tuple[SessionActor, Ask[Message, Answer]]]


class LoadedSessions:
    """See WaitingOrders and WaitingQuestions. Finished work is sent to the session's actor as a command: only the actor
    decides and appends.
    """

    def __init__(self, registry: SessionRegistry) -> None:
        self._registry = registry

    async def wait_for_order(self) -> HelperRequest:
        if self._registry.orders is None:
            await trio.sleep_forever()
        request = await self._registry.orders.take()
        if request.order.task == FACTS:
            request = attrs.evolve(request, order=await self._add_known(request))
        return attrs.evolve(request, key=self._find_key(request.identity.stream))

    async def drop_lost_orders(self) -> None:
        if self._registry.orders is not None:
            self._registry.orders.drop_lost_orders()

    async def tell(self, identity: Identity, done: HelperDone | None) -> bool:
        if done is not None and done.work.task not in KEPT:
            return await self._record(self._registry.ask_behind, identity, done)
        try:
            # What waited for the budget, and the summary of an idle session, may come after the session was unloaded.
            return done is not None and await self._record(self._registry.ask, identity, done)
        finally:
            if self._registry.orders is not None and (done is None or done.work.task == SUMMARY):
                self._registry.orders.note_summary(identity.stream)

    async def _record(self, ask: _Ask, identity: Identity, done: HelperDone) -> bool:
        recorded = await self._send(ask, identity, done)
        if recorded and isinstance(done.effect.context, LearnContext):
            self._learn(identity, done, done.effect.context)
        return recorded

    async def _add_known(self, request: HelperRequest) -> HelperOrder:
        """An order for facts with the entries that they may correct; without any if these cannot be read."""
        source, context = self._registry.knowledge_source, request.order.about.context
        if source is None:
            return request.order
        try:
            known = await source.list_lines(request.identity.tenant, context.folder, context.at)
        except MnemosyneError as error:
            log.info("facts are extracted without the known entries: %s", error)
            return request.order
        return attrs.evolve(request.order, about=attrs.evolve(request.order.about, known=tuple(known)))

    def _learn(self, identity: Identity, done: HelperDone, context: LearnContext) -> None:
        """Give the memory beyond sessions what recorded work found for it."""
        source, work, found = self._registry.knowledge_source, done.work, done.effect.learned
        if source is None or not found:
            return
        if work.task == FACTS and context.prompt is not None:
            facts = [LearnedFact(**attrs.asdict(each) | {"kind": EntryKind(each.kind)}) for each in found]
            source.learn(identity.tenant, context.folder, facts, context.prompt)
        elif work.task == SUMMARY and work.branch is not None and work.turn is not None:
            place = Provenance(session=identity.stream, branch=work.branch, turn=work.turn)
            source.summarize(identity.tenant, context.clients, context.folder, place, context.at, found)

    async def flush(self, identity: Identity) -> None:
        """Wait until the deferred work of a session is done and durable. Raises ActorStopped if the session is not
        loaded.
        """
        await self._send(self._registry.ask_behind, identity, CompleteDeferred())

    async def _send(self, ask: _Ask, identity: Identity, message: HelperDone | CompleteDeferred) -> bool:
        """Send a message to a session's actor; return whether it led to an append, which is durable then."""
        actor, asked = ask(identity, message)
        with self._discarding(identity, actor):
            ticket = cast("Ticket | None", await asked.wait())
            if ticket is not None:
                await ticket.durable()
            return ticket is not None

    async def wait_for_question(self) -> tuple[int, HelperQuestion, ClientKey | None]:
        if self._registry.questions is None:
            await trio.sleep_forever()
        number, question, stream = await self._registry.questions.wait_for_question()
        return number, question, self._find_key(stream)

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        questions = self._registry.questions
        return questions is not None and questions.answer(number, answer)

    def _find_key(self, stream: UUID) -> ClientKey | None:
        """The API key of a session's client, if a helper model may use it."""
        keys = self._registry.client_keys
        return None if keys is None else keys.find(stream)

    @contextmanager
    def _discarding(self, identity: Identity, actor: SessionActor) -> Iterator[None]:
        """Discard an actor whose state turns out to differ from the log; the next one reads the log again."""
        try:
            yield
        except (VersionConflict, ActorStopped):
            self._registry.discard(identity.stream, actor)
            raise
