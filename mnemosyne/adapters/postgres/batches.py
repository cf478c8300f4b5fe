"""Appends on their way into the log, as bytes: one encoded, several as a batch, and how a batch meets what is there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import attrs
from eventsourcing.persistence import StoredEvent

from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.domain.ports import Append, Content
from mnemosyne.errors import LogFailed, VersionConflict

# What an append weighs in the queue beyond its bytes, so that many empty ones are bounded too.
_WEIGHT_OF_ONE = 256


@attrs.frozen(eq=False)
class EncodedAppend:
    """An append whose events are encoded."""

    stream: UUID
    expected: int
    events: tuple[StoredEvent, ...]
    contents: tuple[Content, ...]

    @property
    def version(self) -> int:
        """The stream's version once this is committed."""
        return self.expected + len(self.events)

    @property
    def size(self) -> int:
        """The bytes of its events and contents."""
        return sum(len(event.state) for event in self.events) + sum(len(content.data) for content in self.contents)

    @property
    def weight(self) -> int:
        """The bytes that it takes up while it waits, about."""
        return self.size + _WEIGHT_OF_ONE


@attrs.frozen
class Committed:
    """What became of a batch: for each append its error, or None if it is durable, and the log's last position."""

    errors: tuple[LogFailed | None, ...]
    position: int


class Committer(Protocol):
    """Where the journal commits to."""

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        """Make the appends of the batch durable, in order, together; a conflict fails only the appends concerned.

        Raises LogUnavailable if the database did not answer (and then it may be committed or not: committing the same
        batch again must find its own events and be content), another error if it refuses the batch.
        """
        ...


def prepare(append: Append, codec: EventCodec) -> EncodedAppend:
    """Encode an append. Raises ValueError if it holds no event, or one that cannot be stored."""
    if not append.envelopes:
        raise ValueError("an append needs at least one event: content that no event names could never be found")
    events = tuple(
        StoredEvent(append.stream, version, *codec.encode(envelope))
        for version, envelope in enumerate(append.envelopes, start=append.expected + 1)
    )
    return EncodedAppend(append.stream, append.expected, events, append.contents)


@attrs.frozen
class Assessment:
    """What a batch meets in the log, by the appends' places: conflicts, what is durable already, and what fits."""

    conflicts: Mapping[int, VersionConflict]
    durable: frozenset[int]
    fits: tuple[int, ...]


def assess(
    batch: Sequence[EncodedAppend], versions: Mapping[UUID, int], is_stored: Callable[[EncodedAppend], bool]
) -> Assessment:
    """How a batch fits streams that are at ``versions`` (none: 0), each append seeing those before it.

    ``is_stored`` tells whether the log holds exactly the events of an append at its versions. A commit whose answer got
    lost, tried again, meets its own events, and that is no conflict. Once an append of a stream fails, those that build
    on it fail too, even where another writer's events happen to have brought the stream to the version they expect.
    """
    now = dict(versions)
    failed: dict[UUID, int] = {}
    conflicts: dict[int, VersionConflict] = {}
    durable: set[int] = set()
    fits: list[int] = []
    for place, append in enumerate(batch):
        version = now.get(append.stream, 0)
        if append.expected > failed.get(append.stream, append.expected):
            conflicts[place] = make_conflict(append)
        elif append.expected == version:
            fits.append(place)
            now[append.stream] = append.version
        elif append.version <= versions.get(append.stream, 0) and is_stored(append):
            durable.add(place)
        else:
            conflicts[place] = conflict(append, version)
            failed[append.stream] = append.expected
    return Assessment(conflicts, frozenset(durable), tuple(fits))


def conflict(append: EncodedAppend, version: int) -> VersionConflict:
    """The error for an append to a stream that is at ``version``."""
    return VersionConflict(
        f"session {append.stream} is at version {version}, and the append expected {append.expected}"
    )


def make_conflict(append: EncodedAppend) -> VersionConflict:
    """The error for an append whose predecessor failed."""
    return VersionConflict(f"session {append.stream}: an append before the one at version {append.expected} failed")
