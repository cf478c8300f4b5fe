"""Open the log for a command. Every import here delays `mnemosyne sessions`."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache

import attrs
import trio

from mnemosyne.adapters.embedded.cluster import ROLE
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.config import Config
from mnemosyne.domain.knowledge.events import KNOWLEDGE_EVENT_NAMES, KNOWLEDGE_UPCASTS
from mnemosyne.domain.session.events import EVENT_NAMES, EVENT_UPCASTS

ALL_NAMES: Mapping[str, type] = {**EVENT_NAMES, **KNOWLEDGE_EVENT_NAMES}
"""The stored names of all events, of sessions and of memory."""

ALL_UPCASTS = {**EVENT_UPCASTS, **KNOWLEDGE_UPCASTS}
"""The stored names that are no longer written."""

GIVE_UP_SECONDS = 5.0
"""How long a command waits for a database that is unavailable or full, before it fails with the reason."""

LAST_COMMIT_SECONDS = 10.0
"""How long shutdown may wait for queued appends to become durable."""


@cache
def event_codec() -> EventCodec:
    """Return the codec of all stored events; cached, because creating it takes 20 ms."""
    return EventCodec(ALL_NAMES, ALL_UPCASTS)


def is_embedded(dsn: str | None) -> bool:
    """Whether a DSN, or None in the settings, means the embedded server."""
    return dsn is None or f"user='{ROLE}' requirepeer=" in dsn


@asynccontextmanager
async def open_database(config: Config, name: str = "mnemosyne") -> AsyncIterator[Database]:
    """Open the configured database, or the embedded one of the data directory, and migrate it to the current schema;
    ``name`` as in Database.

    Raises LogFailed and BadConfiguration; each message says what to do.
    """
    if config.dsn is not None:
        async with _prepare(config.dsn, name) as database:
            yield database
        return
    async with open_embedded(config.data_dir) as server, _prepare(server.dsn, name) as database:
        yield database


@asynccontextmanager
async def _prepare(dsn: str, name: str) -> AsyncIterator[Database]:
    database = Database(dsn, name=name)
    try:
        await database.prepare()
        yield database
    finally:
        database.close()


@attrs.frozen
class DatabaseFiles:
    """Implements services.footprints.Disk. ``ours_alone``: the whole database server is Mnemosyne's own."""

    database: Database
    ours_alone: bool

    async def disk_bytes(self) -> int:
        """See services.footprints.Disk."""
        from mnemosyne.adapters.postgres import vacuum  # few commands need it

        return await vacuum.disk_bytes(self.database)

    async def rewrite_content(self, report: Callable[[int, int], None]) -> None:
        """See services.footprints.Disk."""
        from mnemosyne.adapters.postgres import vacuum

        await vacuum.rewrite_content(self.database, ours_alone=self.ours_alone, report=report)


@attrs.frozen
class Storage:
    """An open log with its journal (services.sessions.Archive), and the database files."""

    events: PostgresEventLog
    contents: PostgresContentStore
    journal: GroupJournal
    directory: PostgresDirectory
    files: DatabaseFiles


@asynccontextmanager
async def open_storage(config: Config) -> AsyncIterator[Storage]:
    """Open the log for one command; its appends are durable, or have failed, when the context ends."""
    async with open_database(config) as database:
        limits = JournalLimits(give_up=GIVE_UP_SECONDS)
        storage = storage_of(database, config.tenant, ours_alone=config.dsn is None, limits=limits)
        async with run_journal(storage):
            yield storage


@asynccontextmanager
async def run_journal(storage: Storage) -> AsyncIterator[Storage]:
    """Run the journal of a log; its appends are durable, or have failed, when the context ends."""
    async with trio.open_nursery() as nursery:
        await nursery.start(storage.journal.run)
        try:
            yield storage
        finally:
            with trio.CancelScope(shield=True):
                await storage.journal.close(LAST_COMMIT_SECONDS)


def storage_of(
    database: Database,
    tenant: str | None = None,
    *,
    ours_alone: bool = False,
    event_log: type[PostgresEventLog] = PostgresEventLog,
    limits: JournalLimits | None = None,
) -> Storage:
    """Return the log in an open database, of one tenant or all; ``ours_alone`` as in ``DatabaseFiles``. Its journal is
    not running, which is enough for reading.
    """
    codec = event_codec()
    events = event_log(database, codec, tenant=tenant)
    journal = GroupJournal(events, codec, limits)
    directory = PostgresDirectory(database, events)
    files = DatabaseFiles(database, ours_alone)
    return Storage(events, PostgresContentStore(database), journal, directory, files)
