"""Keep read models and the index up to date: in a server's worker, or in the process of a library user."""

import trio

from mnemosyne.adapters.postgres.cold_requests import ColdRequests
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.object_index import indexer_of
from mnemosyne.app.storage import event_codec, storage_of
from mnemosyne.domain.ports import Progress
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.maintenance import Keeping


async def follow(index: PostgresObjectIndex, database: Database, progress: Progress) -> None:
    """Keep all read models, the index and the causes of cache misses up to date with the log."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            Keeping(ALL, PostgresEventLog(database, event_codec()), PostgresProjections(database)).run, progress
        )
        nursery.start_soon(indexer_of(index, database).run, progress)
        nursery.start_soon(ColdRequests(database, storage_of(database)).run, progress)
