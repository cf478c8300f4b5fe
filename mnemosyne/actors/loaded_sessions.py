"""The loaded sessions of a registry as a helper model serves them: their orders
(``helper_work.WaitingOrders``) and the questions of their turns (``composing.WaitingQuestions``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.helper_work import HelperRequest
from mnemosyne.actors.messages import CompleteDeferred, HelperDone, Identity
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session import SessionActor
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.helper.credential import ClientKey
from mnemosyne.domain.ports import Ticket
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.errors import ActorStopped, VersionConflict


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
        return attrs.evolve(request, key=self._find_key(request.identity.stream))

    async def tell(self, identity: Identity, done: HelperDone) -> bool:
        return await self._send(identity, done)

    async def flush(self, identity: Identity) -> None:
        """Wait until the deferred work of a session is done and durable. Raises ActorStopped if the session is not
        loaded.
        """
        await self._send(identity, CompleteDeferred())

    async def _send(self, identity: Identity, message: HelperDone | CompleteDeferred) -> bool:
        """Send a message to a session's actor; return whether it led to an append, which is durable then."""
        actor, asked = self._registry.ask_behind(identity, message)
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
