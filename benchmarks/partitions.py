"""A log that has grown for long: in one table of events and one of contents, as they are, and in 16 partitions each.

Sessions are made up in the database: events of random bytes in the size of recorded ones, in the order in which
sessions that run beside each other write. Both databases hold the same; what is done to them is what servers do.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import psycopg
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.database import Database

Connection = psycopg.Connection[tuple[object, ...]]

PLAIN, PARTITIONED = "one table", "16 partitions"
EVENTS_OF_SESSION, EVENT_BYTES = 1_000, 700
CONTENTS_OF_SESSION, CONTENT_BYTES = 60, 4_000
BESIDE = 20
"""Sessions that write beside each other."""

APPENDED = 10
"""Events of one append."""

TAIL = 1_000
"""Events that a projection takes in at once."""

PARTITION = """
alter sequence mnemosyne.stored_events_notification_id_seq owned by none;
drop table mnemosyne.stored_events, mnemosyne.content cascade;
create table mnemosyne.stored_events (
    originator_id uuid not null, originator_version bigint not null, topic text, state bytea,
    notification_id bigint default nextval('mnemosyne.stored_events_notification_id_seq'),
    primary key (originator_id, originator_version)
) partition by hash (originator_id);
create index on mnemosyne.stored_events (notification_id);
create index on mnemosyne.stored_events (notification_id) where originator_version = 1;
create table mnemosyne.content (
    stream uuid not null, size integer not null, encoding smallint not null, digest bytea not null, data bytea,
    primary key (stream, digest)
) partition by hash (stream);
do $$ begin
    for number in 0 .. 15 loop
        execute format('create table mnemosyne.events_%s partition of mnemosyne.stored_events'
            ' for values with (modulus 16, remainder %s)', number, number);
        execute format('create table mnemosyne.content_%s partition of mnemosyne.content'
            ' for values with (modulus 16, remainder %s)', number, number);
    end loop;
end $$
"""

FILL = f"""
insert into mnemosyne.stored_events (originator_id, originator_version, topic, state, notification_id)
select md5((n / {EVENTS_OF_SESSION * BESIDE} * {BESIDE} + mod(n, {BESIDE}))::text)::uuid,
    mod(n / {BESIDE}, {EVENTS_OF_SESSION}) + 1, 'session.turn_began.v2', noise.bytes,
    nextval('mnemosyne.stored_events_notification_id_seq')
from generate_series(%(first)s::bigint, %(last)s::bigint) as n,
    (select decode(string_agg(md5(random()::text), ''), 'hex') as bytes
     from generate_series(1, {EVENT_BYTES // 16})) as noise
"""
CONTENTS = f"""
insert into mnemosyne.content (stream, size, encoding, digest, data)
select md5(session::text)::uuid, {CONTENT_BYTES}, 1, sha256(convert_to(session || '-' || n, 'UTF8')), noise.bytes
from generate_series(%(first)s::bigint, %(last)s::bigint) as session, generate_series(1, {CONTENTS_OF_SESSION}) as n,
    (select decode(string_agg(md5(random()::text), ''), 'hex') as bytes
     from generate_series(1, {CONTENT_BYTES // 16})) as noise
"""
TABLES = ("mnemosyne.stored_events", "mnemosyne.content")
SIZE = (
    "select sum(pg_total_relation_size(c.oid)) from pg_class as c join pg_namespace as n on n.oid = c.relnamespace"
    " where n.nspname = 'mnemosyne' and c.relkind = 'r' and c.relname ~ '^(stored_events|content|events_)'"
)


def partitions(_: Sequence[Server], quick: bool) -> list[Row]:
    """Both at each size, one after the other, in a database of its own each."""
    rows: list[Row] = []
    for events in (20_000,) if quick else (200_000, 1_000_000):
        for variant in (PLAIN, PARTITIONED):
            rows += trio.run(_measure, variant, events, 3 if quick else 100)
    return rows


async def _measure(variant: str, events: int, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder:
        async with open_embedded(Path(folder) / "data") as server:
            database = Database(server.dsn)
            await database.prepare()
            database.close()
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                if variant == PARTITIONED:
                    connection.execute(PARTITION.encode())
                _fill(connection, events)
                return _take(connection, variant, events, rounds)


def _fill(connection: Connection, events: int) -> None:
    step = EVENTS_OF_SESSION * BESIDE
    for first in range(0, events, step):
        connection.execute(FILL.encode(), {"first": first, "last": first + step - 1})
    sessions = events // EVENTS_OF_SESSION
    connection.execute(CONTENTS.encode(), {"first": 0, "last": sessions - 1})
    connection.execute("vacuum analyze")
    connection.execute("checkpoint")


def _take(connection: Connection, variant: str, events: int, rounds: int) -> list[Row]:
    sessions = events // EVENTS_OF_SESSION
    streams = [_stream(connection, number * sessions // rounds) for number in range(rounds)]
    places = [number * events // rounds for number in range(rounds)]
    erased = streams[: max(1, rounds // 20)]
    named = f"{events:,} events"
    timed: list[tuple[str, Sequence[object], Callable[[object], object]]] = [
        ("load a session", streams, lambda each: _read(connection, "originator_id = %s", each)),
        ("take in the tail", places, lambda each: _read(connection, f"notification_id > %s limit {TAIL}", each)),
        ("append", range(rounds), lambda each: _append(connection, UUID(int=int(str(each))))),
        ("erase a session", erased, lambda each: _erase(connection, each)),
    ]
    rows = [
        spread(f"{what}, {named}", variant, "ms", [_time(work, each) for each in those]) for what, those, work in timed
    ]
    rows.append(single(f"vacuum after it, {named}", variant, "ms", _time(lambda _: _vacuum(connection), None)))
    (size,) = connection.execute(SIZE.encode()).fetchall()[0]
    rows.append(single(f"on disk, {named}", variant, "MB", int(str(size)) / 1e6))
    return rows


def _time(work: Callable[[object], object], given: object) -> float:
    before = time.perf_counter()
    work(given)
    return (time.perf_counter() - before) * 1_000


def _stream(connection: Connection, session: int) -> UUID:
    (found,) = connection.execute("select md5(%s)::uuid", (str(session),)).fetchall()[0]
    assert isinstance(found, UUID)
    return found


def _read(connection: Connection, condition: str, value: object) -> None:
    order = "originator_version" if condition.startswith("originator") else "notification_id"
    head, _, limit = condition.partition(" limit ")
    query = f"select originator_version, topic, state, notification_id from {TABLES[0]} where {head} order by {order}"
    found = connection.execute(f"{query} limit {limit or 'all'}".encode(), (value,), binary=True).fetchall()
    assert len(found) > 0


def _append(connection: Connection, stream: UUID) -> None:
    state = bytes(EVENT_BYTES)
    versions = list(range(1, APPENDED + 1))
    connection.execute(
        "select mnemosyne.append('{}', '{}', '{}', '{}', '{}', %s::uuid[], '{0}', %s::uuid[], %s::bigint[], %s,"
        " %s::bytea[])",
        ([stream], [stream] * APPENDED, versions, ["t"] * APPENDED, [state] * APPENDED),
    )


def _erase(connection: Connection, stream: object) -> None:
    connection.execute(f"update {TABLES[1]} set data = null where stream = %s".encode(), (stream,))


def _vacuum(connection: Connection) -> None:
    connection.execute(f"vacuum {TABLES[1]}".encode())


GROUP = Group(name="partitions", variants=(), parts=(Part("log", partitions),), by_default=False)
