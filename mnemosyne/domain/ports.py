"""The external services that the application needs, as protocols; the adapters implement them.

No protocol names a library. Every method that may fail for external reasons raises a ``LogFailed``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import attrs

E = TypeVar("E", covariant=True)
"""What a log's events are: those that its codec reads."""


@attrs.frozen
class Content:
    """Bytes that events name by hash. ``digest`` is the SHA-256 (32 bytes) of ``data``."""

    digest: bytes
    data: bytes


@attrs.frozen
class Envelope(Generic[E]):
    """An event with what caused it.

    ``correlation_id`` is the same for everything that one client request set off; ``causation_id`` names the command or
    event that directly led here.
    """

    event: E
    correlation_id: str
    causation_id: str | None = None


@attrs.frozen
class Recorded(Generic[E]):
    """An event as the log holds it: ``version`` counts within its stream from 1, ``position`` over the whole log."""

    stream: UUID
    version: int
    position: int
    envelope: Envelope[E]


@attrs.frozen
class UnreadableEvent:
    """Replaces an event whose row is damaged or whose kind this version does not know, for readers of the whole log or
    of many streams. ``why`` quotes nothing of it.
    """

    why: str


@attrs.frozen
class Append:
    """One atomic addition to a stream: all of it becomes durable, or nothing.

    ``expected`` is the stream's version before it (0: a new stream); there is at least one envelope. ``contents`` are
    stored with the events that name them, and those already held are left as they are. No caller waits for
    one that ``may_wait``; it may become durable together with a later one.
    """

    stream: UUID
    expected: int
    envelopes: tuple[Envelope[object], ...]
    contents: tuple[Content, ...] = ()
    may_wait: bool = False


@attrs.frozen
class StreamSizes:
    """The size of a stream; bytes are those of the values, without the overhead of rows.

    ``contents`` counts the pieces held, ``raw_bytes`` their original bytes, ``stored_bytes`` the compressed ones;
    ``forgotten`` counts the tombstones, and ``archived`` the pieces in a file.
    """

    events: int = 0
    event_bytes: int = 0
    contents: int = 0
    forgotten: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    archived: int = 0

    def __add__(self, other: "StreamSizes") -> "StreamSizes":
        """Both together."""
        mine, theirs = attrs.astuple(self), attrs.astuple(other)
        return StreamSizes(*(a + b for a, b in zip(mine, theirs, strict=True)))


class Ticket(Protocol):
    """The promise of one append: it is queued, in order, and becomes durable as soon as the database allows."""

    @property
    def version(self) -> int:
        """The stream's version once the append is durable."""

    @property
    def settled(self) -> bool:
        """Whether the outcome is known, so that ``durable`` would not wait."""

    async def durable(self) -> int:
        """Wait until the append is durable; return the stream's new version. Cancelling the wait changes nothing.

        Raises VersionConflict if the stream was not at ``expected``, or if an append that this one builds on failed;
        LogUnavailable if the journal stopped before the outcome was known.
        """


class Progress(Protocol):
    """How far the log has come by this process's appends: what wakes the readers that follow it."""

    @property
    def position(self) -> int:
        """The position of the last event committed here; 0 before the first."""

    async def beyond(self, position: int) -> int:
        """Wait until an event after ``position`` is committed here; return the last position."""


class Journal(Protocol):
    """The write side of the log: appends of all sessions, made durable in the order in which they came."""

    @property
    def commit_seconds(self) -> float:
        """Seconds that the last commit of little took; infinite while the database is unreachable or hangs."""

    def submit(self, append: Append) -> Ticket:
        """Queue an addition without waiting. It stays queued while the database is away.

        Raises LogUnavailable if the queue is full or the journal has stopped, ValueError if it cannot be stored.
        """

    async def append(self, append: Append) -> int:
        """Submit, and wait until it is durable; return the stream's new version. Raises what both raise."""


class StreamReader(Protocol[E]):
    """Streams of events, each totally ordered."""

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[E]]:
        """The stream's events with ``after < version <= upto``, in order; none for a stream that does not exist."""


class EventLog(StreamReader[E], Protocol[E]):
    """Streams of events, each totally ordered, and one order over all of them that readers can follow without gaps.

    This is the read side; ``Journal`` is the only way to add, and ``forget`` the only way to take away.
    """

    async def pick(self, stream: UUID, versions: Collection[int]) -> Sequence[Recorded[E]]:
        """The stream's events of these versions, in order; none for a version that does not exist."""

    async def select(self, stream: UUID, classes: Collection[type]) -> Sequence[Recorded[E]]:
        """The stream's events of these classes, in order. The others are not even decoded."""

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[E | UnreadableEvent]]:
        """Up to ``limit`` events of the whole log with ``position > after``, in order, never skipping a late commit."""

    async def pick_first(self) -> Sequence[Recorded[E | UnreadableEvent]]:
        """The first event of every session's stream, in order of position."""

    async def pick_last(self, classes: Collection[type]) -> Sequence[Recorded[E | UnreadableEvent]]:
        """The last event of these classes of every session's stream that has one, in the order in which they began."""

    async def streams(self, beginning: str = "") -> Sequence[UUID]:
        """Every session's stream whose id begins so, in order of its first event's position. Streams of operators
        (``session/directory.py``) are excluded.
        """

    async def knowledge_streams(self) -> Sequence[UUID]:
        """Every stream of knowledge beyond sessions (``KnowledgeStore``), in order of its first event."""

    async def sizes(self, stream: UUID | None = None) -> Mapping[UUID, StreamSizes]:
        """The sizes of this stream, or of every stream; an empty stream is not listed."""

    async def forget(self, stream: UUID, redacted: Callable[[Any], object]) -> int:
        """Erase the stream's content, leaving a tombstone for each piece, and put what ``redacted`` leaves of each
        event, which may be ``UnreadableEvent``, in its place, both at once; return how many pieces were erased.

        Versions and positions stay. The same bytes appended again later are stored again, in the tombstone's place.
        """


class ContentStore(Protocol):
    """Content by hash, per session and its forks; written only through ``Append``."""

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """The bytes for each digest, checked against it.

        Raises ContentForgotten if any was erased, ContentMissing if any was never there or is damaged.
        """
