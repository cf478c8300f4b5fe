"""An actor's services while decisions are replayed. They write nothing, never wait, and return recorded results."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import attrs
import trio

from mnemosyne.actors.actor_services import ActorServices
from mnemosyne.actors.owners import MemoryClient
from mnemosyne.actors.patience import Patience
from mnemosyne.actors.plug_ins import PlugInRunner
from mnemosyne.domain.knowledge.block import MemoryBlock
from mnemosyne.domain.ports import Append, Ticket
from mnemosyne.domain.recall.object_search import PassageHit, SearchResult
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decision_inputs import question_of
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.input_events import Awaited, IndexFound, InputsSoFar
from mnemosyne.domain.session.round_events import KnowledgeTold
from mnemosyne.domain.text.passages import Passage
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.planning import NoRewrite, Plan, Situation
from mnemosyne.domain.window.policies import PolicyFailed
from mnemosyne.errors import LogFailed

T = TypeVar("T")

ENDLESS = Patience(**dict.fromkeys(attrs.fields_dict(Patience), float("inf")))
"""Results that came in time do so again."""


class RecordedServices(ActorServices):
    """External results as ``noted`` with a decision. The index answers only recorded questions; a policy whose failure
    is not recorded is asked again.
    """

    def __init__(
        self, noted: InputsSoFar, knowledge: KnowledgeTold | None = None, plug_in: PlugInRunner | None = None
    ) -> None:
        super().__init__(patience=ENDLESS, plug_in=plug_in)
        self.lacked_policy = False
        """Whether a policy was asked that is not known here."""
        self._then = noted
        self._knowledge = knowledge
        self._answers: list[IndexFound] = []

    def begin(self) -> None:
        super().begin()
        self._answers = list(self._then.found)

    async def select_knowledge(
        self, client: MemoryClient, folder: str | None, prompt: str, size: int, at: int
    ) -> MemoryBlock | None:
        knowledge = self._knowledge
        return None if knowledge is None else MemoryBlock(knowledge.text, knowledge.entries, knowledge.tokens)

    async def in_time(self, wait: Awaited, seconds: float, do: Callable[[], Awaitable[T]]) -> T | None:
        if wait in self._then.late:
            self.note_late(wait)
            return None
        return await super().in_time(wait, seconds, do)

    async def ask_policy(self, name: str, situation: Situation, objects: Sequence[Candidate]) -> Plan | NoRewrite:
        if self._then.policy is not None:
            raise PolicyFailed(self._then.policy)
        self.lacked_policy = self._plug_in is None
        return await super().ask_policy(name, situation, objects)

    async def call_in_time(self, call: str, answer: Callable[[], Awaitable[T]]) -> T | None:
        async def then() -> T:
            if sanitize.text(call) in self._then.unread_calls:
                raise LogFailed("it could not be read at the time")
            if sanitize.text(call) in self._then.late_calls:
                raise trio.TooSlowError
            return await answer()

        return await super().call_in_time(call, then)

    async def search(self, question: str, among: Collection[str], limit: int, least: float) -> SearchResult | None:
        key = question_of(question, among, limit)
        found = next((each for each in self._answers if each.question == key), None)
        if found is None:
            return None
        self._answers.remove(found)
        self.noted = attrs.evolve(self.noted, found=(*self.noted.found, found))
        if found.passages is None:
            return None
        passages = [
            PassageHit(each.object, Passage(each.start, each.end), (each.score or 0) / 100) for each in found.passages
        ]
        return SearchResult(passages=passages, missing=found.missing)


@attrs.frozen
class _KeptTicket:
    """A ticket that is already durable (ports.Ticket)."""

    version: int
    settled: bool = True

    async def durable(self) -> int:
        return self.version


@attrs.define
class CollectingJournal:
    """A journal that collects appends and writes nothing (ports.Journal)."""

    events: tuple[Event, ...] = ()
    commit_seconds: float = 0.0

    def submit(self, append: Append) -> Ticket:
        self.events += tuple(envelope.event for envelope in append.envelopes)  # type: ignore[misc]
        return _KeptTicket(append.expected + len(append.envelopes))

    async def append(self, append: Append) -> int:
        return await self.submit(append).durable()
