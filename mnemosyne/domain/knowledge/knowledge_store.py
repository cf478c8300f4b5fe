"""Reads and writes what is known, over the log alone: whoever writes meanwhile is heard first.

What was read is kept, and only what came since is read again.
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
"""How often it is decided anew because somebody else wrote meanwhile."""


def knowledge_stream(place: Place) -> UUID:
    """The stream of a place. No session and no other place has it."""
    return uuid5(NAMESPACE, "\0".join((place.tenant, "", "knowledge", place.scope.value, place.key)))


class KnowledgeStore:
    """What is known in the places of a log. One for a process; every call raises what the log raises."""

    def __init__(self, events: EventLog[object], journal: Journal) -> None:
        self._log = events
        self._journal = journal
        self._known: dict[Place, Knowledge] = {}
        self._index: tuple[tuple[tuple[Place, int], ...], EntryIndex] | None = None

    async def read(self, place: Place) -> Knowledge:
        """What is known of a place by now."""
        known = self._known.get(place, Knowledge())
        recorded = await self._log.read(knowledge_stream(place), after=known.version)
        if recorded:
            known = self._known[place] = fold(map(_event_of, recorded), known)
        return known

    async def read_all(self, places: Sequence[Place]) -> list[tuple[Place, Knowledge]]:
        """What is known of several places, in their order."""
        return [(place, await self.read(place)) for place in places]

    async def list_places(self, tenant: str) -> list[Place]:
        """Every place of a tenant of which anything was ever known, in the order in which they began."""
        places = []
        for stream in await self._log.knowledge_streams():
            (first,) = await self._log.read(stream, upto=1)
            opened = cast("KnowledgeOpened", first.envelope.event)
            if opened.tenant == tenant:
                places.append(Place(opened.tenant, opened.scope, opened.key))
        return places

    async def read_events(self, place: Place) -> list[KnowledgeEvent]:
        """All that was ever recorded of a place, in order."""
        return [_event_of(each) for each in await self._log.read(knowledge_stream(place))]

    async def index(self, places: Sequence[Place]) -> EntryIndex:
        """An index over the entries of places, made anew where any of them changed."""
        known = await self.read_all(places)
        versions = tuple((place, each.version) for place, each in known)
        if self._index is None or self._index[0] != versions:
            self._index = versions, EntryIndex(known)
        return self._index[1]

    async def write(self, place: Place, command: KnowledgeCommand, correlation_id: str) -> WriteOutcome:
        """Decide a command and record what happens. Also raises what ``decide`` raises."""
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
        """Take the words of these entries out of the log itself, wherever they stand in this stream."""
        await self._log.forget(knowledge_stream(place), lambda event: redact_entries(event, entries))
        self._known.pop(place, None)
        self._index = None


def _event_of(recorded: Recorded[object]) -> KnowledgeEvent:
    return cast("KnowledgeEvent", recorded.envelope.event)
