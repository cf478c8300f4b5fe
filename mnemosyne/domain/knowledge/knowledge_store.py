"""Read and write knowledge through the log, with optimistic concurrency: concurrent writes are read before deciding.

States are cached; only new events are read.
"""

from collections.abc import Sequence
from typing import cast
from uuid import UUID, uuid5

from mnemosyne.domain.knowledge.decide import KnowledgeCommand, Place, WriteOutcome, decide
from mnemosyne.domain.knowledge.events import KnowledgeEvent, KnowledgeOpened, redact_entries
from mnemosyne.domain.knowledge.recalling import EntryIndex
from mnemosyne.domain.knowledge.state import Knowledge, fold
from mnemosyne.domain.ports import Append, Envelope, EventLog, Journal, Recorded
from mnemosyne.domain.session.directory import NAMESPACE
from mnemosyne.errors import VersionConflict

ATTEMPTS = 32
"""Maximum number of decisions for one command when concurrent writes conflict with it."""


def knowledge_stream(place: Place) -> UUID:
    """The stream of a place, distinct from all sessions' and other places' streams."""
    return uuid5(NAMESPACE, "\0".join((place.tenant, "", "knowledge", place.scope.value, place.key)))


class KnowledgeStore:
    """The knowledge in a log, one instance per process. Every method raises the errors of the log."""

    def __init__(self, events: EventLog[object], journal: Journal) -> None:
        self._log = events
        self._journal = journal
        self._known: dict[Place, Knowledge] = {}
        self._index: tuple[tuple[tuple[Place, int], ...], EntryIndex] | None = None

    async def read(self, place: Place) -> Knowledge:
        """The current knowledge of a place."""
        known = self._known.get(place, Knowledge())
        recorded = await self._log.read(knowledge_stream(place), after=known.version)
        if recorded:
            known = self._known[place] = fold(map(_event_of, recorded), known)
        return known

    async def read_all(self, places: Sequence[Place]) -> list[tuple[Place, Knowledge]]:
        """The current knowledge of several places, in their order."""
        return [(place, await self.read(place)) for place in places]

    async def list_places(self, tenant: str) -> list[Place]:
        """All places of a tenant that ever had an entry, in the order of their first event."""
        places = []
        for stream in await self._log.knowledge_streams():
            (first,) = await self._log.read(stream, upto=1)
            opened = cast("KnowledgeOpened", first.envelope.event)
            if opened.tenant == tenant:
                places.append(Place(opened.tenant, opened.scope, opened.key))
        return places

    async def find_session(self, stream: UUID) -> str | None:
        """The client's name of a session; None if it is not recorded."""
        recorded = await self._log.read(stream, upto=1)
        return getattr(recorded[0].envelope.event, "external_id", None) if recorded else None

    async def read_events(self, place: Place) -> list[KnowledgeEvent]:
        """All events of a place, in order."""
        return [_event_of(each) for each in await self._log.read(knowledge_stream(place))]

    async def index(self, places: Sequence[Place]) -> EntryIndex:
        """An index over the entries of places, rebuilt if any of them changed."""
        known = await self.read_all(places)
        versions = tuple((place, each.version) for place, each in known)
        if self._index is None or self._index[0] != versions:
            self._index = versions, EntryIndex(known)
        return self._index[1]

    async def write(self, place: Place, command: KnowledgeCommand, correlation_id: str) -> WriteOutcome:
        """Decide a command and record its events. Also raises the errors of ``decide``."""
        for remaining in reversed(range(ATTEMPTS)):
            known = await self.read(place)
            outcome = decide(command, known, place)
            if not outcome.events:
                return outcome
            envelopes = tuple(Envelope(each, correlation_id, type(command).__name__) for each in outcome.events)
            try:
                await self._journal.append(Append(knowledge_stream(place), known.version, envelopes))
            except VersionConflict:
                if not remaining:
                    raise
            else:
                return outcome
        raise AssertionError("the last attempt returns or raises")

    async def erase(self, place: Place, entries: frozenset[str]) -> None:
        """Erase the text of these entries from all events of this stream in the log."""
        await self._log.forget(knowledge_stream(place), lambda event: redact_entries(event, entries))
        self._known.pop(place, None)
        self._index = None


def _event_of(recorded: Recorded[object]) -> KnowledgeEvent:
    return cast("KnowledgeEvent", recorded.envelope.event)
