"""The recorder and the mapper of the library eventsourcing, over our codec, append and tail.

Values and contracts are the library's (StoredEvent, Notification, ApplicationRecorder); its own test cases run against
this recorder. The append is a function of the database that locks no table (0009_append_beside_others.sql), and the
tail waits for late commits.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from eventsourcing.persistence import IntegrityError, Mapper, Notification, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore

from mnemosyne.adapters.postgres.content_store import Packed
from mnemosyne.adapters.postgres.database import DOES_NOT_FIT, SCHEMA, Connection
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.tail import SELECT, last_position, read_tail
from mnemosyne.domain.ports import Recorded
from mnemosyne.errors import UnknownEvent

_LAST_VERSION = 2**63 - 1
"""The largest bigint."""

_APPEND: LiteralString = (
    "select mnemosyne.append(%b::uuid[], %b::bytea[], %b::integer[], %b::smallint[], %b::bytea[],"
    " %b::uuid[], %b::bigint[], %b::uuid[], %b::bigint[], %b::text[], %b::bytea[])"
)
_PAGE_OF: LiteralString = "originator_version > %s and originator_version <= %s order by originator_version"


class EventMapper(Mapper[UUID]):
    """Maps ``Recorded`` events to stored events and back, in the format of an ``EventCodec``."""

    def __init__(self, codec: EventCodec) -> None:
        """Create a mapper without the library's transcoder, compressor and cipher."""
        self.codec = codec

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        """Encode a ``Recorded`` event. Raises ValueError if that is impossible."""
        return StoredEvent(domain_event.stream, domain_event.version, *self.codec.encode(domain_event.envelope))

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """Decode a stored event to its current class. Raises UnknownEvent with session and version."""
        try:
            envelope = self.codec.decode(stored_event.topic, stored_event.state)
        except UnknownEvent as error:
            where = f"event {stored_event.originator_version} of session {stored_event.originator_id}"
            raise UnknownEvent(f"{where}: {error}") from None
        stream: Any = stored_event.originator_id
        position = stored_event.id if isinstance(stored_event, Notification) else 0
        return Recorded(stream, stored_event.originator_version, position, envelope)

    def to_readable_event(self, stream: UUID, version: int, topic: str, state: bytes, position: int) -> Recorded[Any]:
        """Decode a row, to an ``UnreadableEvent`` if that fails. It needs no Notification, which would slow
        a reader of the whole log.
        """
        return Recorded(stream, version, position, self.codec.decode_anyway(topic, state))


def _expect(events: Sequence[StoredEvent]) -> dict[UUID | str, int]:
    """The versions of streams before events; in the library's test cases, a stream begins at version 0 or 1."""
    firsts = {event.originator_id: event.originator_version for event in reversed(events)}
    return {stream: max(0, first - 1) for stream, first in firsts.items()}


class SharedDatastore(PostgresDatastore):
    """The library's datastore with connections of a ``Database``: each thread lends its own."""

    def __init__(self) -> None:
        """Create it; the library's own pool is never opened."""
        super().__init__("", "", "", "", "", schema=SCHEMA)
        self._lent = threading.local()

    @contextmanager
    def lend(self, connection: Connection) -> Iterator[None]:
        """Let this thread's calls of the recorder use ``connection``."""
        self._lent.connection = connection
        try:
            yield
        finally:
            del self._lent.connection

    @contextmanager
    def get_connection(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection that this thread lends. ``Database`` translates the server's errors."""
        yield self._lent.connection

    def register_type_adapters(self) -> None:
        """Register nothing: our statements use no composite types."""


class SessionRecorder(PostgresApplicationRecorder):
    """Records the events of sessions, with their contents, in the tables of our migrations."""

    datastore: SharedDatastore

    def insert_events(
        self,
        stored_events: Sequence[StoredEvent],
        *,
        contents: Sequence[Packed] = (),
        heads: Mapping[UUID, int] | None = None,
        **_: Any,
    ) -> Sequence[int] | None:
        """Insert events and ``contents`` in one statement, its own transaction; return the positions.

        ``heads`` are the expected versions of the streams; with ``heads``, only the last position is returned. Raises
        IntegrityError if a stream is at another version, and inserts nothing.
        """
        expected = _expect(stored_events) if heads is None else heads
        values = (
            [content.stream for content in contents],
            [content.digest for content in contents],
            [content.size for content in contents],
            [content.encoding for content in contents],
            [content.data for content in contents],
            list(expected),
            list(expected.values()),
            [event.originator_id for event in stored_events],
            [event.originator_version for event in stored_events],
            [event.topic for event in stored_events],
            [event.state for event in stored_events],
        )
        with self.datastore.get_connection() as connection:
            try:
                last = connection.execute(_APPEND, values, binary=True).fetchone()
            except psycopg.Error as error:
                if error.sqlstate == DOES_NOT_FIT:
                    raise IntegrityError("a stream is at another version") from None
                raise
        if heads is not None:
            return list(last) if last else None
        found = [self.select_events(e.originator_id, gt=e.originator_version - 1, limit=1) for e in stored_events]
        return [each.id for (each,) in found] or None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[Notification]:
        """The events of a stream, with their positions."""
        bounds = (-1 if gt is None else gt, _LAST_VERSION if lte is None else lte, limit)
        return self.select_where(originator_id, _PAGE_OF + (" desc" if desc else "") + " limit %s", bounds)

    def select_where(
        self, stream: UUID | str, condition: LiteralString, values: Sequence[object]
    ) -> list[Notification]:
        """The events of a stream that meet a condition with these values."""
        with self.datastore.get_connection() as connection:
            rows = connection.execute(SELECT + "originator_id = %s and " + condition, (stream, *values), binary=True)
            return [Notification(*row) for row in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Events in the order of their positions; an append that may still add earlier ones is waited for."""
        after = 0 if start is None else start - inclusive_of_start
        with self.datastore.get_connection() as connection:
            return [Notification(*row) for row in read_tail(connection, after, limit, stop, topics)]

    def max_notification_id(self) -> int | None:
        """The position of the last event; None for an empty log."""
        with self.datastore.get_connection() as connection:
            return last_position(connection) or None
