"""Encoded appends, and the comparison of a batch of them with the log."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count, repeat
from typing import Protocol
from uuid import UUID

import attrs
from eventsourcing.persistence import StoredEvent

from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.domain.ports import Append, Content
from mnemosyne.errors import LogFailed, VersionConflict

# The overhead of an append in the queue, which limits empty ones too.
_WEIGHT_OF_ONE = 256


@attrs.frozen(eq=False)
class EncodedAppend:
    stream: UUID
    expected: int
    events: tuple[StoredEvent, ...]
    contents: tuple[Content, ...]
    size: int = attrs.field(init=False)
    """The bytes of its events and contents."""

    @property
    def version(self) -> int:
        """The stream's version once this is committed."""
        return self.expected + len(self.events)

    @size.default
    def _count_bytes(self) -> int:
        return sum(len(event.state) for event in self.events) + sum(len(content.data) for content in self.contents)

    @property
    def weight(self) -> int:
        """Its approximate bytes in the queue."""
        return self.size + _WEIGHT_OF_ONE


@attrs.frozen
class Committed:
    """The outcome of a batch: for each append its error, None if durable; and the last position of the log."""

    errors: tuple[LogFailed | None, ...]
    position: int


class Committer(Protocol):
    """The log that a journal commits to."""

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        """Commit the appends of the batch in order, in one transaction; a conflict fails only its appends.

        Raises LogUnavailable if the database did not answer: the batch may be committed or not, and another commit of
        it must recognize its own events. Raises another error if the database refuses the batch.
        """


def prepare(append: Append, codec: EventCodec) -> EncodedAppend:
    """Encode an append. Raises ValueError if it has no event, or one that cannot be stored."""
    if not append.envelopes:
        raise ValueError("an append needs at least one event: content that no event names could never be found")
    topics, states = zip(*[codec.encode(envelope) for envelope in append.envelopes], strict=True)
    events = tuple(map(StoredEvent, repeat(append.stream), count(append.expected + 1), topics, states))
    return EncodedAppend(append.stream, append.expected, events, append.contents)


@attrs.frozen
class Assessment:
    """The indexes of a batch's appends by state: conflicting, already durable, or fitting."""

    conflicts: Mapping[int, VersionConflict]
    durable: frozenset[int]
    fits: tuple[int, ...]


def assess(
    batch: Sequence[EncodedAppend], versions: Mapping[UUID, int], is_stored: Callable[[EncodedAppend], bool]
) -> Assessment:
    """Compare a batch with streams at ``versions`` (none: 0); each append follows those before it.

    ``is_stored`` returns whether the log has exactly the events of an append at its versions: a retried commit finds
    its own events, which is no conflict. After a failed append, later ones of the stream fail too, even if another
    writer brought the stream to their version.
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
            conflicts[place] = _conflict(append, version)
            failed[append.stream] = append.expected
    return Assessment(conflicts, frozenset(durable), tuple(fits))


def _conflict(append: EncodedAppend, version: int) -> VersionConflict:
    """The error for an append to a stream that is at ``version``."""
    return VersionConflict(
        f"session {append.stream} is at version {version}, and the append expected {append.expected}"
    )


def make_conflict(append: EncodedAppend) -> VersionConflict:
    """The error for an append whose predecessor failed."""
    return VersionConflict(f"session {append.stream}: an append before the one at version {append.expected} failed")
