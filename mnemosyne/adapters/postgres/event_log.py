"""The event log in PostgreSQL: reads, and group commits through the recorder (recorder.py)."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, LiteralString
from uuid import UUID

import attrs
import trio
from eventsourcing.persistence import IntegrityError, StoredEvent

from mnemosyne.adapters.postgres.batches import Assessment, Committed, EncodedAppend, assess
from mnemosyne.adapters.postgres.content_store import (
    ARCHIVED,
    STATEMENT_BYTES,
    erase_contents,
    hold_sessions,
    pack_contents,
    slices,
)
from mnemosyne.adapters.postgres.database import Connection, Database, server_of
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.recorder import EventMapper, SessionRecorder, SharedDatastore
from mnemosyne.adapters.postgres.tail import SELECT, last_position, read_tail
from mnemosyne.bounded import Lru
from mnemosyne.domain.knowledge.events import OPENED
from mnemosyne.domain.ports import Recorded, StreamSizes
from mnemosyne.domain.session.events import EventLost, SessionForgotten, SessionImported, SessionStarted, names_of
from mnemosyne.domain.session.input_events import HelperWorked
from mnemosyne.domain.session.round_events import ManagingSwitched
from mnemosyne.errors import LogFailed

# Rows of one read.
_PAGE = 1_000

_FORGETTING_SECONDS = 120.0

_MEASURING_SECONDS = 3600.0

HELD_EVENTS = 50_000
"""Cached events of all streams; a single stream may be longer."""

HELD_TIPS = 10_000
"""Streams whose last confirmed append is remembered."""

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A complete id of a stream."""


class PostgresEventLog:
    """The log in a prepared ``Database`` (ports.EventLog, batches.Committer). Reads of a stream raise UnknownEvent."""

    def __init__(
        self, database: Database, codec: EventCodec, *, tenant: str | None = None, commit_deadline: float = 30.0
    ) -> None:
        """``tenant`` limits the listed sessions, None lists all. ``commit_deadline`` is in seconds."""
        self._database = database
        self._codec = codec
        self._mapper = EventMapper(codec)
        self._datastore = SharedDatastore()
        self._recorder = SessionRecorder(self._datastore)
        self._tenant = tenant
        self._deadline = commit_deadline
        self._lost = codec.names_of((EventLost,))
        # The writer does not queue behind readers.
        self._writer = trio.CapacityLimiter(1)
        self._tips: Lru[UUID, tuple[str, int, int]] = Lru(HELD_TIPS)
        """The server that confirmed our last append to a stream, the version that it led to, and a hash of its end."""

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        """See batches.Committer. A conflict costs a second transaction with the appends that fit."""
        errors: dict[int, LogFailed] = {}
        position = 0
        pending = list(range(len(batch)))
        while pending:
            some = [batch[index] for index in pending]
            try:
                position, server = await self._append(some)
                for append in some:
                    self._tips.put(append.stream, (server, append.version, hash(append.events[-1].state)))
                break
            except IntegrityError:
                found = await self._database.run(self._assess, some, deadline=self._deadline, limiter=self._writer)
                errors |= {pending[place]: error for place, error in found.conflicts.items()}
                pending = [pending[place] for place in found.fits]
                if found.durable and not pending:
                    position = await self.last_position()
        return Committed(tuple(errors.get(index) for index in range(len(batch))), position)

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Any]]:
        return await self._database.run(self._read, stream, after, upto, alone=True)

    async def pick(self, stream: UUID, versions: Collection[int]) -> Sequence[Recorded[Any]]:
        return await self._database.run(self._find, stream, "originator_version", list(versions), alone=True)

    async def select(self, stream: UUID, classes: Collection[type]) -> Sequence[Recorded[Any]]:
        return await self._database.run(self._find, stream, "topic", self._codec.names_of(classes), alone=True)

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[Any]]:
        return await self._database.run(self._tail, after, limit)

    async def pick_first(self) -> Sequence[Recorded[Any]]:
        return await self._database.run(self._firsts, "")

    async def pick_last(self, classes: Collection[type]) -> Sequence[Recorded[Any]]:
        return await self._database.run(self._pick_last, self._codec.names_of(classes))

    async def streams(self, beginning: str = "") -> Sequence[UUID]:
        return await self._database.run(self._streams, beginning)

    async def knowledge_streams(self) -> Sequence[UUID]:
        return await self._database.run(_knowledge_streams)

    async def sizes(self, stream: UUID | None = None) -> Mapping[UUID, StreamSizes]:
        """See ports.EventLog. Without a stream it reads both tables completely."""
        return await self._database.run(_sizes, stream, deadline=_MEASURING_SECONDS)

    async def forget(self, stream: UUID, redacted: Callable[[Any], object]) -> int:
        """See ports.EventLog. A vacuum removes the old bytes from the disk."""
        return await self._database.run(self._forget, stream, redacted, deadline=_FORGETTING_SECONDS)

    async def version(self, stream: UUID) -> int:
        """The version of a stream's last event; 0 for an unknown stream."""
        return (await self._database.run(_versions, (stream,), alone=True)).get(stream, 0)

    async def last_position(self) -> int:
        return await self._database.run(last_position)

    async def _append(self, batch: Sequence[EncodedAppend]) -> tuple[int, str]:
        """Append all of the batch, or raise IntegrityError; return the last position, and the server."""
        heads = _heads(batch)
        small = sum(len(content.data) for append in batch for content in append.contents) <= STATEMENT_BYTES
        return await self._database.run(
            self._append_all, batch, heads, alone=small, deadline=self._deadline, limiter=self._writer
        )

    def _append_all(
        self, connection: Connection, batch: Sequence[EncodedAppend], heads: Mapping[UUID, int]
    ) -> tuple[int, str]:
        """See ``_append``. Hashing and compression precede any lock."""
        *parts, last = slices(pack_contents(batch))
        if self._find_diverged(connection, heads):
            raise IntegrityError("a stream has another history")
        with self._datastore.lend(connection):
            for part in parts:
                self._recorder.insert_events((), contents=part)
            events = [event for append in batch for event in append.events]
            positions = self._recorder.insert_events(events, contents=last, heads=heads)
        assert positions is not None
        return positions[-1], server_of(connection)

    def _assess(self, connection: Connection, batch: Sequence[EncodedAppend]) -> Assessment:
        """Compare a batch that does not fit with the log."""
        streams = {append.stream for append in batch}
        versions = _versions(connection, streams)
        for stream in self._find_diverged(connection, streams):
            versions[stream] = -1  # no append to our history fits
            self._tips.pop(stream)
        with self._datastore.lend(connection):
            found = assess(batch, versions, self._is_stored)
        if found.durable:  # perhaps only here: as its own commit did, this one waits for a synchronous standby
            connection.execute("select pg_logical_emit_message(true, 'mnemosyne', '')")
        return found

    def _find_diverged(self, connection: Connection, streams: Iterable[UUID]) -> list[UUID]:
        """The streams in which another server confirmed an append that is not in this log. A primary that goes on
        beside its successor, or a restored copy, may have reached the same version with other events.
        """
        server = server_of(connection)
        moved = {each: tip for each in streams if (tip := self._tips.get(each)) is not None and tip[0] != server}
        if not moved:
            return []
        rows = connection.execute(
            "select originator_id, state from mnemosyne.stored_events join unnest(%b::uuid[], %b::bigint[])"
            " as tip (stream, version) on originator_id = stream and originator_version = version",
            (list(moved), [version for _, version, _ in moved.values()]),
            binary=True,
        )
        here = {stream: hash(state) for stream, state in rows}
        return [stream for stream, (_, _, end) in moved.items() if here.get(stream) != end]

    def _is_stored(self, append: EncodedAppend) -> bool:
        stored = self._recorder.select_events(append.stream, gt=append.expected, lte=append.version)
        return [(each.topic, each.state) for each in stored] == [(each.topic, each.state) for each in append.events]

    def _read(self, connection: Connection, stream: UUID, after: int, upto: int | None) -> list[Recorded[Any]]:
        recorded: list[Recorded[Any]] = []
        while True:
            with self._datastore.lend(connection):
                page = self._recorder.select_events(stream, gt=after, lte=upto, limit=_PAGE)
            recorded += map(self._mapper.to_domain_event, page)
            if len(page) < _PAGE:
                return recorded
            after = recorded[-1].version

    def _find(
        self, connection: Connection, stream: UUID, column: LiteralString, values: Sequence[object]
    ) -> list[Recorded[Any]]:
        with self._datastore.lend(connection):
            found = self._recorder.select_where(stream, column + " = any(%s) order by originator_version", (values,))
        return [*map(self._mapper.to_domain_event, found)]

    def _streams(self, connection: Connection, beginning: str) -> list[UUID]:
        return [each.stream for each in self._firsts(connection, beginning)]

    def _pick_last(self, connection: Connection, names: Sequence[str]) -> list[Recorded[Any]]:
        rows = connection.execute(_LAST, (self._streams(connection, ""), names), binary=True)
        return [*starmap(self._mapper.to_readable_event, rows)]

    def _firsts(self, connection: Connection, beginning: str) -> list[Recorded[Any]]:
        """The first event of each session of the tenant whose id has the prefix, unreadable ones included."""
        begins: LiteralString = "starts_with(first.originator_id::text, %s)"
        asked: str | UUID = beginning
        if _ID.fullmatch(beginning):  # a comparison as text reads the first event of every session
            begins, asked = "first.originator_id = %s", UUID(beginning)
        rows = connection.execute(_FIRST.format(begins), (*_STARTS, list(NO_SESSIONS), asked), binary=True)
        first = starmap(self._mapper.to_readable_event, rows)
        return [each for each in first if self._is_ours(each.envelope.event)]

    def _is_ours(self, began: object) -> bool:
        return self._tenant is None or not isinstance(began, SessionStarted) or began.tenant == self._tenant

    def _tail(self, connection: Connection, after: int, limit: int) -> list[Recorded[Any]]:
        return [*starmap(self._mapper.to_readable_event, read_tail(connection, after, limit))]

    def _forget(self, connection: Connection, stream: UUID, redacted: Callable[[Any], object]) -> int:
        """Erase contents before events, the order of commits, which avoids deadlocks."""
        hold_sessions(connection, (stream,), "update")
        rows = connection.execute(SELECT + "originator_id = %s order by originator_version", (stream,), binary=True)
        changed = list(self._find_redactions(starmap(self._mapper.to_readable_event, rows), redacted))
        erased = erase_contents(connection, stream)
        _erase_index(connection, stream)  # words and vectors reveal content
        connection.execute(
            "update mnemosyne.stored_events as held set topic = new.topic, state = new.state"
            " from unnest(%b::bigint[], %b::text[], %b::bytea[]) as new (version, topic, state)"
            " where held.originator_id = %b and held.originator_version = new.version",
            (
                [each.originator_version for each in changed],
                [each.topic for each in changed],
                [each.state for each in changed],
                stream,
            ),
        )
        _record_losses(connection, stream, [each.originator_version for each in changed if each.topic in self._lost])
        return erased

    def _find_redactions(
        self, recorded: Iterable[Recorded[Any]], redacted: Callable[[Any], object]
    ) -> Iterator[StoredEvent]:
        """The redacted events that replace others."""
        for each in recorded:
            event = redacted(each.envelope.event)
            if event != each.envelope.event:
                envelope = attrs.evolve(each.envelope, event=event)
                yield self._mapper.to_stored_event(attrs.evolve(each, envelope=envelope))


class CachedEventLog(PostgresEventLog):
    """The log with a cache of whole streams. A second read fetches only new events and the last cached one: if that
    changed, or the session was forgotten, it reads all. It notices an interrupted erasure once that is repeated.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._held: Lru[UUID, Sequence[Recorded[Any]]] = Lru(HELD_EVENTS, len)

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Any]]:
        if after or upto is not None:
            return await super().read(stream, after=after, upto=upto)
        events = await self._read_more(stream) or await super().read(stream)
        if _was_forgotten(events):
            self._held.pop(stream)
            return events
        return self._held.put(stream, events)

    async def _read_more(self, stream: UUID) -> Sequence[Recorded[Any]]:
        """The cached events of a stream with the new ones; empty if there are none or they changed."""
        held = self._held.get(stream)
        if not held:
            return ()
        last, *more = await super().read(stream, after=held[-1].version - 1) or (None,)
        return (*held, *more) if last == held[-1] and not _was_forgotten(more) else ()


_FIRST: LiteralString = (
    "select first.originator_id, first.originator_version, coalesce(later.topic, first.topic),"
    " coalesce(later.state, first.state), first.notification_id"
    " from mnemosyne.stored_events as first left join lateral ("
    " select topic, state from mnemosyne.stored_events where originator_id = first.originator_id and topic = %s"
    " order by originator_version limit 1) as later on first.topic = %s"
    " where first.originator_version = 1 and coalesce(first.topic, '') <> all(%s) and {}"
    " order by first.notification_id"
)
"""A session that lost its first event may have started again."""
_LAST: LiteralString = """
select stream, originator_version, topic, state, notification_id
from unnest(%s::uuid[]) with ordinality as began (stream, place) cross join lateral (
    select originator_version, topic, state, notification_id from mnemosyne.stored_events
    where originator_id = stream and topic = any(%s) order by originator_version desc limit 1) as last
order by place
"""


def _erase_index(connection: Connection, stream: UUID) -> None:
    """Delete a session from the index of objects, and its causes of cache misses, which name tools."""
    for table in ("object_texts", "object_passages", "object_words", "object_vectors", "cold_sessions"):
        connection.execute(f"delete from mnemosyne.{table} where stream = %s".encode(), (stream,))


def _record_losses(connection: Connection, stream: UUID, versions: Sequence[int]) -> None:
    """Mark lost events in every projection, so that it is rebuilt without them."""
    connection.execute(
        "insert into mnemosyne.set_aside (name, side, stream, version, position, why)"
        " select name, side, originator_id, originator_version, notification_id, 'it was erased'"
        " from mnemosyne.projections cross join mnemosyne.stored_events"
        " where originator_id = %s and originator_version = any(%s) on conflict do nothing",
        (stream, list(versions)),
    )


def _heads(batch: Sequence[EncodedAppend]) -> dict[UUID, int]:
    """The expected version of each stream. Raises IntegrityError if an append does not follow the last."""
    heads: dict[UUID, int] = {}
    now: dict[UUID, int] = {}
    for append in batch:
        heads.setdefault(append.stream, append.expected)
        if now.get(append.stream, append.expected) != append.expected:
            raise IntegrityError("an append does not follow the last one")
        now[append.stream] = append.version
    return heads


def _versions(connection: Connection, streams: Collection[UUID]) -> dict[UUID, int]:
    rows = connection.execute(
        "select stream, (select max(originator_version) from mnemosyne.stored_events where originator_id = stream)"
        " from unnest(%b::uuid[]) as wanted (stream)",
        (list(streams),),
    )
    return {stream: version for stream, version in rows if version is not None}


_STARTS = (*names_of(SessionStarted), *names_of(EventLost))
"""The stored names of a session's start and of its replacement if that was lost."""

NO_SESSIONS = (*names_of(ManagingSwitched), *names_of(SessionImported), *names_of(HelperWorked), OPENED)
"""The first events of streams that are not sessions: an operator's, and memory."""


def _knowledge_streams(connection: Connection) -> list[UUID]:
    rows = connection.execute(
        "select originator_id from mnemosyne.stored_events"
        " where originator_version = 1 and topic = %s order by notification_id",
        (OPENED,),
        binary=True,
    )
    return [stream for (stream,) in rows]


def _sizes(connection: Connection, stream: UUID | None) -> dict[UUID, StreamSizes]:
    found: dict[UUID, StreamSizes] = {}
    connection.execute("set local statement_timeout = 0")  # all streams take long
    for owner, events, size in connection.execute(
        "select originator_id, count(*), sum(octet_length(state))::bigint from mnemosyne.stored_events"
        " where %(stream)s::uuid is null or originator_id = %(stream)s group by originator_id",
        {"stream": stream},
    ):
        found[owner] = StreamSizes(events=events, event_bytes=size)
    for owner, contents, forgotten, raw, stored, archived in connection.execute(
        "select stream, count(data), count(*) - count(data),"
        " coalesce(sum(size) filter (where data is not null), 0)::bigint, coalesce(sum(octet_length(data)), 0)::bigint,"
        " count(data) filter (where encoding = %(archived)s)"
        " from mnemosyne.content where %(stream)s::uuid is null or stream = %(stream)s group by stream",
        {"stream": stream, "archived": ARCHIVED},
    ):
        contained = StreamSizes(
            contents=contents, forgotten=forgotten, raw_bytes=raw, stored_bytes=stored, archived=archived
        )
        found[owner] = found.get(owner, StreamSizes()) + contained
    return found


def _was_forgotten(events: Sequence[Recorded[Any]]) -> bool:
    return any(isinstance(each.envelope.event, SessionForgotten) for each in events)
