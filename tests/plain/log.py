"""The log and its content in memory, for tests and replay.

It keeps the contracts of PostgreSQL behind the journal (the same tests check both) without threads, so that trio's mock
clock can jump. ``submit`` commits at once; ``GroupJournal(PlainLog(codec), codec)`` has a queue.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs
import trio
from eventsourcing.popo import POPOApplicationRecorder

from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend, assess, prepare
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import NO_SESSIONS
from mnemosyne.adapters.postgres.journal import JournalTicket, LogProgress
from mnemosyne.adapters.postgres.recorder import EventMapper
from mnemosyne.domain.knowledge.events import OPENED
from mnemosyne.domain.ports import Append, Recorded, StreamSizes
from mnemosyne.errors import ContentForgotten, ContentMissing, LogFailed


class PlainLog:
    """A log in memory (ports.Journal, ports.EventLog, ports.ContentStore, and batches.Committer)."""

    def __init__(self, codec: EventCodec) -> None:
        """``codec`` encodes events, so that an event that cannot be stored fails here too."""
        self._mapper = EventMapper(codec)
        self._table = POPOApplicationRecorder()
        # Decoded once for repeated reads.
        self._events: list[Recorded[Any]] = []
        self._streams: dict[UUID, list[Recorded[Any]]] = {}
        # None is a tombstone.
        self._contents: dict[UUID, dict[bytes, bytes | None]] = {}
        self._committed = LogProgress()

    @property
    def committed(self) -> LogProgress:
        return self._committed

    @property
    def commit_seconds(self) -> float:
        return 0.0

    def submit(self, append: Append) -> JournalTicket:
        """Commit at once; return a settled ticket."""
        prepared = prepare(append, self._mapper.codec)
        ticket = JournalTicket(prepared)
        try:
            (error,) = self._commit([prepared])
        except LogFailed as refused:
            error = refused
        ticket.settle(error)
        self._committed.advance(len(self._events))
        return ticket

    async def append(self, append: Append) -> int:
        return await self.submit(append).durable()

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        await trio.lowlevel.checkpoint()
        return Committed(tuple(self._commit(batch)), len(self._events))

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Any]]:
        await trio.lowlevel.checkpoint()
        return self._streams.get(stream, [])[after:upto]

    async def pick(self, stream: UUID, versions: Collection[int]) -> Sequence[Recorded[Any]]:
        await trio.lowlevel.checkpoint()
        events = self._streams.get(stream, [])
        return [events[version - 1] for version in sorted(set(versions)) if 0 < version <= len(events)]

    async def select(self, stream: UUID, classes: Collection[type]) -> Sequence[Recorded[Any]]:
        await trio.lowlevel.checkpoint()
        return [each for each in self._streams.get(stream, []) if type(each.envelope.event) in classes]

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[Any]]:
        await trio.lowlevel.checkpoint()
        return self._events[after : after + limit]

    async def pick_first(self) -> Sequence[Recorded[Any]]:
        return [self._streams[stream][0] for stream in await self.streams()]

    async def pick_last(self, classes: Collection[type]) -> Sequence[Recorded[Any]]:
        found = [await self.select(stream, classes) for stream in await self.streams()]
        return [events[-1] for events in found if events]

    async def streams(self, beginning: str = "") -> Sequence[UUID]:
        await trio.lowlevel.checkpoint()
        sessions = [stream for stream in self._streams if self._begins_with(stream) not in NO_SESSIONS]
        return [stream for stream in sessions if str(stream).startswith(beginning)]

    async def knowledge_streams(self) -> Sequence[UUID]:
        await trio.lowlevel.checkpoint()
        return [stream for stream in self._streams if self._begins_with(stream) == OPENED]

    async def sizes(self, stream: UUID | None = None) -> Mapping[UUID, StreamSizes]:
        await trio.lowlevel.checkpoint()
        return {each: self._sizes_of(each) for each in self._streams if stream in (None, each)}

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        await trio.lowlevel.checkpoint()
        held = self._contents.get(stream, {})
        found: dict[bytes, bytes] = {}
        for digest in digests:
            if digest not in held:
                raise ContentMissing(f"session {stream}: the store does not hold content {digest.hex()}")
            data = held[digest]
            if data is None:
                raise ContentForgotten(f"content {digest.hex()} of session {stream} was forgotten")
            found[digest] = data
        return found

    async def forget(self, stream: UUID, redacted: Callable[[Any], object]) -> int:
        await trio.lowlevel.checkpoint()
        events = [
            attrs.evolve(each, envelope=attrs.evolve(each.envelope, event=redacted(each.envelope.event)))
            for each in self._streams.get(stream, [])
        ]
        stored = [self._mapper.to_stored_event(each) for each in events]
        for each, replacement in zip(events, stored, strict=True):
            self._table._stored_events[each.position - 1] = replacement  # it cannot replace an event
            self._streams[stream][each.version - 1] = self._events[each.position - 1] = each
        held = self._contents.get(stream, {})
        self._contents[stream] = dict.fromkeys(held)
        return sum(data is not None for data in held.values())

    def _commit(self, batch: Sequence[EncodedAppend]) -> list[LogFailed | None]:
        for append in batch:
            _check_digests(append)
        versions = {append.stream: len(self._streams.get(append.stream, [])) for append in batch}
        found = assess(batch, versions, self._is_stored)
        for place in found.fits:
            self._add(batch[place])
        return [found.conflicts.get(place) for place in range(len(batch))]

    def _is_stored(self, append: EncodedAppend) -> bool:
        return tuple(self._table.select_events(append.stream, gt=append.expected, lte=append.version)) == append.events

    def state_bytes(self, stream: UUID) -> bytes:
        """The concatenated states of a stream's events."""
        return b"".join(each.state for each in self._table.select_events(stream))

    def _begins_with(self, stream: UUID) -> str:
        """The stored name of a stream's first event."""
        (first,) = self._table.select_events(stream, limit=1)
        return first.topic

    def _add(self, append: EncodedAppend) -> None:
        held = self._contents.setdefault(append.stream, {})
        for content in append.contents:
            if held.get(content.digest) is None:
                held[content.digest] = content.data
        events = self._streams.setdefault(append.stream, [])
        for position in self._table.insert_events(append.events) or ():
            (inserted,) = self._table.select_notifications(position, 1)
            recorded = self._mapper.to_domain_event(inserted)
            events.append(recorded)
            self._events.append(recorded)

    def _sizes_of(self, stream: UUID) -> StreamSizes:
        contents = self._contents.get(stream, {}).values()
        held = [len(data) for data in contents if data is not None]
        return StreamSizes(
            events=len(self._streams[stream]),
            event_bytes=len(self.state_bytes(stream)),
            contents=len(held),
            forgotten=len(contents) - len(held),
            raw_bytes=sum(held),
            stored_bytes=sum(held),
        )


def _check_digests(append: EncodedAppend) -> None:
    for content in append.contents:
        if hashlib.sha256(content.data).digest() != content.digest:
            raise LogFailed(
                f"content given as {content.digest.hex()} for session {append.stream} does not have that hash"
            )
