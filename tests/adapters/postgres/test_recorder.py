"""Our recorder and mapper of the library eventsourcing: the library's test cases, and our own rules."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psycopg
import pytest
from eventsourcing.persistence import ApplicationRecorder, Notification, StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row

from mnemosyne.adapters.postgres.content_store import Packed
from mnemosyne.adapters.postgres.recorder import EventMapper, SessionRecorder, SharedDatastore
from mnemosyne.domain.ports import Envelope, Recorded, UnreadableEvent
from mnemosyne.errors import UnknownEvent
from tests.adapters.log_support import CODEC, SampleEvent, query, stream

# The library's test cases import its cipher for cases that are not of a recorder, and that needs another package.
vars(sys.modules.setdefault("eventsourcing.cipher", ModuleType("cipher"))).setdefault("AESCipher", None)
from eventsourcing.tests import persistence as library  # noqa: E402


def address(dsn: str) -> list[str]:
    parts = conninfo_to_dict(dsn)
    return [str(parts.get(name, "")) for name in ("dbname", "host", "port", "user", "password")]


class PooledDatastore(PostgresDatastore):
    """The library's own pool on our tables, because its test cases use threads."""

    @contextmanager
    def get_connection(self) -> Iterator[psycopg.Connection[Any]]:
        with super().get_connection() as connection:
            ours: psycopg.Connection[Any] = connection
            ours.row_factory = tuple_row
            yield ours


class TestSessionRecorder(library.ApplicationRecorderTestCase[ApplicationRecorder]):
    """The library's contract of a recorder."""

    test_performance = test_concurrent_throughput = None  # type: ignore[assignment]  # they only print a speed

    @pytest.fixture(autouse=True)
    def _database(self, dsn: str) -> Iterator[None]:
        with PooledDatastore(*address(dsn), pool_size=4, max_waiting=0, schema="mnemosyne") as self.datastore:
            yield

    @pytest.mark.release  # its threads append for seconds
    def test_concurrent_no_conflicts(self, initial_position: int = 0) -> None:  # noqa: PT028 -- as the library's
        super().test_concurrent_no_conflicts(initial_position)

    def create_recorder(self) -> ApplicationRecorder:
        return SessionRecorder(self.datastore)


@contextmanager
def open_recorder(dsn: str) -> Iterator[SessionRecorder]:
    datastore = SharedDatastore()
    with psycopg.connect(dsn, autocommit=True) as connection, datastore.lend(connection):
        yield SessionRecorder(datastore)


def event(number: int, version: int, state: bytes = b"{}") -> StoredEvent:
    return StoredEvent(stream(number), version, "thing.said.v1", state)


def test_an_append_with_heads_returns_the_last_position_and_stores_contents(dsn: str) -> None:
    content = Packed(stream(1), b"d" * 32, 3, 0, b"abc")
    with open_recorder(dsn) as recorder:
        events = [event(1, 1), event(2, 1), event(1, 2)]
        assert recorder.insert_events(events, contents=[content], heads={stream(1): 0, stream(2): 0}) == [3]
    assert query(dsn, "select stream, data from mnemosyne.content") == [(stream(1), b"abc")]


def test_the_mapper_is_reversible() -> None:
    mapper, recorded = EventMapper(CODEC), Recorded(stream(1), 7, 0, Envelope(SampleEvent("a"), "c", "d"))
    stored = mapper.to_stored_event(recorded)
    assert (stored.originator_id, stored.originator_version) == (recorded.stream, 7)
    assert (stored.topic, stored.state) == CODEC.encode(recorded.envelope)
    assert mapper.to_domain_event(stored) == recorded
    assert mapper.to_domain_event(Notification(stream(1), 7, stored.topic, stored.state, 42)).position == 42


def test_an_unreadable_event_is_named_with_session_and_version() -> None:
    mapper, damaged = EventMapper(CODEC), StoredEvent(stream(1), 3, "thing.said.v9", b"{}")
    with pytest.raises(UnknownEvent, match=f"event 3 of session {stream(1)}: the log holds thing.said.v9"):
        mapper.to_domain_event(damaged)
    readable = mapper.to_readable_event(stream(1), 3, "thing.said.v9", b"{}", 42)
    assert isinstance(readable.envelope.event, UnreadableEvent)


def test_the_table_equals_that_of_the_library(dsn: str) -> None:
    with open_recorder(dsn) as recorder:
        recorder.insert_events([event(1, 1), event(1, 2)])
    with PostgresDatastore(*address(dsn), schema="mnemosyne") as datastore:
        read = PostgresApplicationRecorder(datastore).select_notifications(1, 10)
        PostgresApplicationRecorder(datastore, events_table_name="theirs").create_table()
    assert [(each.originator_id, each.originator_version) for each in read] == [(stream(1), 1), (stream(1), 2)]
    assert columns_and_key(dsn, "theirs") == columns_and_key(dsn, "stored_events")


def columns_and_key(dsn: str, table: str) -> list[tuple[object, ...]]:
    """Each column with its type, whether it may be null, and its place in the primary key."""
    return query(
        dsn,
        "select attname, format_type(atttypid, atttypmod), attnotnull, array_position(indkey::int[], attnum::int)"
        " from pg_attribute left join pg_index on indrelid = attrelid and indisprimary"
        " where attrelid = %s::regclass and attnum > 0 order by attnum",
        f"mnemosyne.{table}",
    )
