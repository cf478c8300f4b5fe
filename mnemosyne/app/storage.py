"""Opens the log: for a command that reads it, or for a server that must go on without it."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import attrs
import trio

from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.embedding.embedder import HashedLexical, open_embedder
from mnemosyne.adapters.postgres import vacuum
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.event_views import EventViews, ViewedLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.object_indexer import ObjectIndexer, Report, unheard
from mnemosyne.adapters.postgres.projection_keeper import keep_projections
from mnemosyne.adapters.postgres.reconnecting_log import OpenLog, ReopeningLog
from mnemosyne.adapters.postgres.spending import PostgresSpending
from mnemosyne.backoff import backoff
from mnemosyne.config import Config
from mnemosyne.data_dir import prepare_data_dir
from mnemosyne.domain.ports import Progress
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.domain.session.events import EVENT_NAMES, EVENT_UPCASTS
from mnemosyne.errors import BadConfiguration, LogFailed

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts to open the database."""

LAST_COMMIT_SECONDS = 10.0
"""How long the end of a program may wait for what is queued to become durable."""


@cache
def event_codec() -> EventCodec:
    """The codec of every event that was ever stored; one for all who ask, as it takes 20 ms to make."""
    return EventCodec(EVENT_NAMES, EVENT_UPCASTS)


def viewed_log(database: Database) -> ViewedLog:
    """The log as projections follow it."""
    return ViewedLog(database, EventViews(EVENT_NAMES, EVENT_UPCASTS))


@asynccontextmanager
async def open_database(config: Config) -> AsyncIterator[Database]:
    """The configured database, or the embedded one of the data directory, with today's schema.

    Raises what LogFailed and BadConfiguration stand for; each message says what to do.
    """
    if config.dsn is not None:
        async with _prepared(config.dsn) as database:
            yield database
        return
    prepare_data_dir(config.data_dir)
    async with open_embedded(config.data_dir) as server, _prepared(server.dsn) as database:
        yield database


@asynccontextmanager
async def _prepared(dsn: str) -> AsyncIterator[Database]:
    database = Database(dsn)
    try:
        await database.prepare()
        yield database
    finally:
        database.close()


@attrs.frozen
class DatabaseFiles:
    """See services.footprints.Disk. ``ours_alone`` says that the whole server is Mnemosyne's own."""

    database: Database
    ours_alone: bool

    async def disk_bytes(self) -> int:
        """See services.footprints.Disk."""
        return await vacuum.disk_bytes(self.database)

    async def rewrite_content(self) -> None:
        """See services.footprints.Disk."""
        await vacuum.rewrite_content(self.database, ours_alone=self.ours_alone)


@attrs.frozen
class Storage:
    """An open log with its journal (services.sessions.Archive), and the files that hold it."""

    events: PostgresEventLog
    contents: PostgresContentStore
    journal: GroupJournal
    directory: PostgresDirectory
    files: DatabaseFiles


@asynccontextmanager
async def open_storage(config: Config) -> AsyncIterator[Storage]:
    """The log for one command; what it submitted is durable, or has failed, when the context ends."""
    async with open_database(config) as database, trio.open_nursery() as nursery:
        storage = storage_of(database, ours_alone=config.dsn is None)
        await nursery.start(storage.journal.run)
        try:
            yield storage
        finally:
            with trio.CancelScope(shield=True):
                await storage.journal.close(LAST_COMMIT_SECONDS)


def storage_of(database: Database, *, ours_alone: bool = False) -> Storage:
    """The log in an open database; ``ours_alone`` as in ``DatabaseFiles``. Nobody runs its journal: what only reads
    needs none.
    """
    codec = event_codec()
    events = PostgresEventLog(database, codec)
    journal = GroupJournal(events, codec)
    directory, files = PostgresDirectory(database, codec), DatabaseFiles(database, ours_alone)
    return Storage(events, PostgresContentStore(database), journal, directory, files)


async def open_index(
    config: Config, database: Database, report: Report = unheard
) -> tuple[PostgresObjectIndex, ObjectIndexer]:
    """The index of objects in an open database, and what fills it. ``report`` hears of each step of that."""
    embedder = await trio.to_thread.run_sync(open_embedder, config.data_dir)
    embedders: list[Embedder] = [embedder]
    if not isinstance(embedder, HashedLexical):
        embedders.append(HashedLexical())  # what there was before the model
    index = PostgresObjectIndex(database, embedders)
    events = PostgresEventLog(database, event_codec())
    return index, ObjectIndexer(index, events, PostgresContentStore(database), report=report)


async def keep_open(config: Config, reopening: ReopeningLog, committed: Progress | None = None) -> None:
    """Keep the server's log open for as long as this runs: open it, and open it again when it failed. While it is
    open, the projections and the index of objects follow it, if there is a ``committed`` to wake them.
    """
    pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
    while True:
        try:
            async with open_database(config) as database:
                index, indexer = await open_index(config, database)
                events = PostgresEventLog(database, event_codec())
                directory = PostgresDirectory(database, event_codec())
                log_to_follow = viewed_log(database)
                spending = PostgresSpending(database, log_to_follow)
                opened = OpenLog(events, PostgresContentStore(database), index, directory, spending)
                with reopening.holding(opened):
                    log.info("the log is open")
                    pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
                    if committed is not None:
                        await keep_projections(database, log_to_follow, committed, followers=(indexer.run,))
                    await trio.sleep_forever()
        except (LogFailed, BadConfiguration) as error:
            reason = f"{str(error).rstrip('.')}."
            reopening.away(reason)
            pause = next(pauses)
            log.error(
                "the log cannot be opened: %s Requests go through and wait in memory for it; next attempt in %g s.",
                reason,
                pause,
            )
            await trio.sleep(pause)
