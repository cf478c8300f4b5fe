"""Shared by the tests of projections: a sample projection, a log of each kind with a store, and ways to break them."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.adapters.postgres.projection_store import PostgresProjections, reading
from mnemosyne.domain.ports import Append, Envelope, EventLog, Recorded
from mnemosyne.projections.maintenance import Keeping
from mnemosyne.projections.projection import Merge, Projection, Row, Table, Type
from mnemosyne.projections.projector import Projector
from mnemosyne.projections.store import Mark, ProjectionStore, Tail
from tests.adapters.log_support import SampleEvent, make_append, open_database, query, running, stream
from tests.not_none import not_none
from tests.plain.log import PlainLog
from tests.projections.plain import PlainProjections
from tests.waiting import DEADLINE

PLAIN, POSTGRES = "plain objects", "postgres"
KINDS = (PLAIN, POSTGRES)

POISON = "poison"

WORDS = Table(
    "words",
    key={"stream": Type.UUID, "word": Type.TEXT},
    columns={"first": Type.INTEGER, "last": Type.INTEGER, "loud": Type.BOOLEAN, "after": Type.TEXT},
)
STREAMS = Table("streams", key={"stream": Type.UUID}, columns={"latest": Type.TEXT, "version": Type.INTEGER})


@attrs.frozen
class Sung:
    """An event that older versions do not know."""

    text: str


NEWER = EventCodec({"thing.said.v1": SampleEvent, "thing.sung.v1": Sung})


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Merge into a word's row at each occurrence, so that the order of merges is visible."""
    event = recorded.envelope.event
    assert isinstance(event, SampleEvent | Sung)
    if event.text == POISON:
        raise ZeroDivisionError("this must not be quoted")
    columns: dict[str, Any] = {"last": recorded.position, "loud": event.text.isupper()}
    if recorded.version % 2:
        columns["after"] = f"{recorded.version - 1}"
    return (
        Merge("words", (recorded.stream, event.text), columns),
        Merge("streams", (recorded.stream,), {"latest": event.text, "version": recorded.version}),
    )


SAMPLE = Projection("sample", 1, (WORDS, STREAMS), changes)
OTHER = Projection(
    "other", 1, (STREAMS,), lambda recorded: [Merge("streams", (recorded.stream,), {"version": recorded.version})]
)


@attrs.define
class World:
    """A log and a store. ``messages`` collects the projectors' messages."""

    kind: str
    codec: EventCodec
    log: EventLog[object]
    journal: GroupJournal | PlainLog
    store: ProjectionStore
    dsn: str
    in_postgres: Database | None = None
    messages: list[str] = attrs.field(factory=list)

    def projector(
        self,
        projection: Projection = SAMPLE,
        *,
        store: ProjectionStore | None = None,
        log: Tail | None = None,
        page: int = 1000,
    ) -> Projector:
        """Return a projector as another process has it."""
        return Projector(projection, log or self.tail, store or self.store, say=self.messages.append, page=page)

    def keeping(self, *projections: Projection, log: Tail | None = None, page: int = 1000) -> Keeping:
        """Return a keeper of several projections; of the sample, if none is named."""
        return Keeping(projections or (SAMPLE,), log or self.tail, self.store, say=self.messages.append, page=page)

    @property
    def database(self) -> Database:
        """The database of the world in PostgreSQL."""
        return not_none(self.in_postgres)

    @property
    def tables(self) -> PostgresProjections:
        """The store of the world in PostgreSQL."""
        assert isinstance(self.store, PostgresProjections)
        return self.store

    @property
    def tail(self) -> Tail:
        """The log as projectors follow it."""
        return self.reading_with(self.codec)

    async def say(self, number: int, *texts: str) -> None:
        """Append an event for each text to a stream."""
        version = len(await self.log.read(stream(number)))
        if texts:
            await self.journal.append(make_append(stream(number), version, *texts))

    async def sing(self, number: int, text: str) -> None:
        """Append an event that older versions do not know."""
        version = len(await self.log.read(stream(number)))
        await self.journal.append(Append(stream(number), version, (Envelope(Sung(text), "c"),)))

    async def dump(self, projection: Projection = SAMPLE) -> list[str]:
        """Return the canonical dump, one line per row."""
        return await dump_of(self.store, projection)

    async def reached(self, position: int, *projections: Projection) -> None:
        """Wait until projections have applied the log up to a position; the sample, if none is named."""
        with trio.fail_after(DEADLINE):
            for projection in projections or (SAMPLE,):
                mark = Mark()
                while mark.position < position:
                    await trio.sleep(0.01)  # the database does not signal this
                    status = await self.store.status(projection)
                    mark = Mark() if status is None else status.mark

    def reading_with(self, codec: EventCodec) -> Tail:
        """Return the log for projectors of a process that knows the events of this codec."""
        if isinstance(self.log, PlainLog):
            return PickyLog(self.log, self.codec, codec)
        return PostgresEventLog(self.database, codec)

    def drop_table(self, table: str) -> None:
        if isinstance(self.store, PlainProjections):
            del self.store.live["sample"].rows[table]
        else:
            query(self.dsn, f"drop table mnemosyne.sample_{table}")


async def dump_of(store: ProjectionStore, projection: Projection) -> list[str]:
    """Return the canonical dump: every row as JSON, table by table in key order, from one snapshot."""
    if isinstance(store, PlainProjections):
        await trio.lowlevel.checkpoint()
        rows = list(store.rows(projection))
    else:
        assert isinstance(store, PostgresProjections)
        rows = await store._database.run(_select_all, projection)
    return [json.dumps({"table": table.name, **row}, default=str) for table, row in rows]


def _select_all(connection: Connection, projection: Projection) -> list[tuple[Table, Row]]:
    with reading(connection, (projection,)):
        return [
            (table, dict(zip(table.all_columns, row, strict=True)))
            for table in projection.tables
            for row in connection.execute(_by_key(projection, table)).fetchall()
        ]


def _by_key(projection: Projection, table: Table) -> bytes:
    """Select every row by key, in an order that does not depend on the locale."""
    order = ", ".join(f'{name} collate "C"' if kind is Type.TEXT else name for name, kind in table.key.items())
    columns = ", ".join(table.all_columns)
    return f"select {columns} from mnemosyne.{projection.table_of(table)} order by {order}".encode()


async def rebuilt_dump(log: Tail, projection: Projection, page: int = 1000) -> list[str]:
    """Return the canonical dump of a projection built from scratch."""
    store = PlainProjections()
    status = await Projector(projection, log, store, page=page).catch_up()
    assert status.error is None
    return await dump_of(store, projection)


class PickyLog(PlainLog):
    """A plain log whose events must also pass another codec."""

    def __init__(self, log: PlainLog, codec: EventCodec, other: EventCodec) -> None:
        super().__init__(codec)
        self._inner, self._codec, self._other = log, codec, other

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[object]]:
        events = await self._inner.tail(after=after, limit=limit)
        read = [self._other.decode_anyway(*self._codec.encode(event.envelope)) for event in events]
        return [attrs.evolve(event, envelope=envelope) for event, envelope in zip(events, read, strict=True)]


@asynccontextmanager
async def open_world(kind: str, dsn: str, codec: EventCodec = NEWER) -> AsyncIterator[World]:
    """Open a log and a store of that kind; only PostgreSQL needs the DSN."""
    if kind == PLAIN:
        log = PlainLog(codec)
        yield World(kind, codec, log, log, PlainProjections(), dsn)
        return
    async with open_database(dsn) as database, open_postgres(database, codec) as world:
        yield world


@asynccontextmanager
async def open_postgres(database: Database, codec: EventCodec = NEWER, dsn: str = "") -> AsyncIterator[World]:
    """Open them in a database that the test controls."""
    log = PostgresEventLog(database, codec)
    async with running(GroupJournal(log, codec, JournalLimits(longest_pause=0.1))) as journal:
        dsn = dsn or database._dsn  # the tests bypass it anyway
        yield World(POSTGRES, codec, log, journal, PostgresProjections(database), dsn, database)


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope at the nth step of any task: a kill at an arbitrary point."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope, self._left = scope, step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


async def killed_at(step: int, work: Callable[[], Any]) -> bool:
    """Run ``work`` and kill it at that step; return whether it was killed."""
    with trio.CancelScope() as scope:
        instrument = CancelAtStep(scope, step)
        trio.lowlevel.add_instrument(instrument)
        try:
            await work()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancelled_caught
