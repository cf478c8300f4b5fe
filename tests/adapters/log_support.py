"""Shared parts of the tests of the log: sample events, a log of each kind with its journal, a wire that can be cut."""

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID

import attrs
import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mnemosyne.adapters.postgres.batches import prepare
from mnemosyne.adapters.postgres.content_store import PostgresContentStore, pack_contents
from mnemosyne.adapters.postgres.database import Connection, Database, Timeouts
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.adapters.postgres.recorder import SessionRecorder, SharedDatastore
from mnemosyne.domain.ports import Append, Content, ContentStore, Envelope, EventLog, Recorded
from tests.plain.log import PlainLog
from tests.waiting import DEADLINE

PLAIN, INLINE, POSTGRES = "plain objects", "plain objects without a journal", "postgres"


@attrs.frozen
class SampleEvent:
    text: str


CODEC = EventCodec({"thing.said.v1": SampleEvent})


def stream(number: int) -> UUID:
    """A session's stream; the same number is the same stream."""
    return UUID(int=number)


def content(data: bytes) -> Content:
    """Content under its hash."""
    return Content(hashlib.sha256(data).digest(), data)


def make_append(owner: UUID, expected: int, *texts: str, contents: Iterable[Content] = ()) -> Append:
    """An append of one event for each text."""
    return Append(owner, expected, tuple(Envelope(SampleEvent(text), "c") for text in texts), tuple(contents))


def hushed(event: SampleEvent) -> SampleEvent:
    """The redacted event: the text before a colon."""
    return SampleEvent(event.text.partition(":")[0])


def texts(recorded: Iterable[Recorded[object]]) -> list[str]:
    """The texts of the events, in order."""
    return [each.envelope.event.text for each in recorded if isinstance(each.envelope.event, SampleEvent)]


@attrs.frozen
class World:
    """A log, its content, and the journal that writes both."""

    journal: GroupJournal | PlainLog
    log: EventLog[object]
    contents: ContentStore


@asynccontextmanager
async def open_world(kind: str, dsn: str) -> AsyncIterator[World]:
    """Open a log of that kind; only PostgreSQL needs the DSN."""
    if kind == POSTGRES:
        async with open_postgres(dsn) as world:
            yield world
        return
    log = PlainLog(CODEC)
    if kind == INLINE:
        yield World(log, log, log)
        return
    async with running(GroupJournal(log, CODEC)) as journal:
        yield World(journal, log, log)


@asynccontextmanager
async def open_postgres(
    dsn: str, *, commit_deadline: float = 30, timeouts: Timeouts | None = None
) -> AsyncIterator[World]:
    """PostgreSQL behind the real journal."""
    async with open_database(dsn, timeouts) as database, open_on(database, commit_deadline=commit_deadline) as world:
        yield world


@asynccontextmanager
async def open_on(database: Database, *, commit_deadline: float = 30) -> AsyncIterator[World]:
    log = PostgresEventLog(database, CODEC, commit_deadline=commit_deadline)
    async with running(GroupJournal(log, CODEC, JournalLimits(longest_pause=0.1))) as journal:
        yield World(journal, log, PostgresContentStore(database))


@asynccontextmanager
async def open_database(dsn: str, timeouts: Timeouts | None = None) -> AsyncIterator[Database]:
    database = Database(dsn, timeouts=timeouts)
    try:
        await database.prepare()
        yield database
    finally:
        database.close()


@asynccontextmanager
async def running(journal: GroupJournal) -> AsyncIterator[GroupJournal]:
    """Run the journal; at the end it writes the rest."""
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        yield journal
        await journal.close(within=DEADLINE)


def begin_append(connection: Connection, append: Append) -> int:
    """Append in a transaction that the test ends, like a server that stalls before its commit; return the last
    position.
    """
    prepared, datastore = prepare(append, CODEC), SharedDatastore()
    contents, heads = pack_contents([prepared]), {append.stream: append.expected}
    with datastore.lend(connection):
        positions = SessionRecorder(datastore).insert_events(prepared.events, contents=contents, heads=heads)
    return positions[-1] if positions else 0


def query(dsn: str, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    """The rows of a query on a separate connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []


def waiting_for_a_lock(dsn: str) -> int:
    """How many sessions wait for a lock in a database."""
    ((number,),) = query(
        dsn, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    )
    return int(number)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, and fail if it does not in time."""
    with trio.fail_after(DEADLINE):
        while not condition():  # noqa: ASYNC110 - it changes in a thread or in the server, which know no trio.Event
            await trio.sleep(0.005)


COMMIT, APPEND = b"COMMIT", b"mnemosyne.append("
"""Statements that commit: a transaction's last one, and an append, which is its own transaction."""


class Wire:
    """A TCP connection to the database that a test can cut, stall, or cut just after a commit took hold."""

    def __init__(self, dsn: str) -> None:
        self._target = conninfo_to_dict(dsn)
        self._whole = True
        self._flowing = trio.Event()
        self._flowing.set()
        self._cut_after = b""
        self._swallow = False
        self._scopes: set[trio.CancelScope] = set()
        self.dsn = ""
        self.lost_answers = 0

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Take connections until cancelled."""
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        self.dsn = make_conninfo(
            "", **{**self._target, "host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
        )
        task_status.started()
        async with trio.open_nursery() as nursery:
            await trio.serve_listeners(self._carry, [listener], handler_nursery=nursery)

    def cut(self) -> None:
        """End all connections and refuse new ones."""
        self._whole = False
        for scope in self._scopes:
            scope.cancel()

    def stall(self) -> None:
        """Drop all bytes but leave the connections open, like a network that loses packets."""
        self._flowing = trio.Event()

    def mend(self) -> None:
        """Carry everything again."""
        self._whole = True
        self._flowing.set()

    def cut_after_next(self, committing: bytes) -> None:
        """Pass the next statement that contains these bytes, and cut before its answer comes back."""
        self._cut_after = committing

    async def _carry(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope, suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            self._scopes.add(scope)
            try:
                async with client:
                    if self._whole:
                        await self._carry_both_ways(client)
            finally:
                self._scopes.discard(scope)

    async def _carry_both_ways(self, client: trio.SocketStream) -> None:
        async with await self._connect() as server, trio.open_nursery() as nursery:
            nursery.start_soon(self._pump_to_server, client, server, nursery.cancel_scope)
            await self._pump(server, client)
            nursery.cancel_scope.cancel()

    async def _connect(self) -> trio.SocketStream:
        host, port = str(self._target["host"]), int(self._target.get("port") or 5432)
        if host.startswith("/"):
            return await trio.open_unix_socket(f"{host}/.s.PGSQL.{port}")
        return await trio.open_tcp_stream(host, port)

    async def _pump_to_server(
        self, client: trio.SocketStream, server: trio.SocketStream, both: trio.CancelScope
    ) -> None:
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in client:
                await self._flowing.wait()
                if self._cut_after and self._cut_after in chunk:
                    # Set before the bytes leave: the answer, the proof that the commit took hold, ends in _pump.
                    self._cut_after, self._swallow = b"", True
                await server.send_all(chunk)
        both.cancel()

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        async for chunk in source:
            if self._swallow:
                self._swallow = False
                self.lost_answers += 1
                return
            await self._flowing.wait()
            await sink.send_all(chunk)


@asynccontextmanager
async def open_wire(dsn: str) -> AsyncIterator[Wire]:
    """A wire to the database of ``dsn``."""
    wire = Wire(dsn)
    async with trio.open_nursery() as nursery:
        await nursery.start(wire.serve)
        yield wire
        nursery.cancel_scope.cancel()
