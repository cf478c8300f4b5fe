"""Open the object index of a database and bring it up to date."""

import os
from functools import partial

import trio

from mnemosyne.adapters.embedding.embedder import HashedLexical, open_embedder
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.object_indexer import MOST_THREADS, ObjectIndexer, Report, ignore_news, threads_at
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.storage import event_codec
from mnemosyne.config import Config
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.projections.object_index import OBJECT_INDEX


async def open_index(config: Config, database: Database) -> PostgresObjectIndex:
    """Open the object index."""
    embedder = await trio.to_thread.run_sync(partial(open_embedder, config.data_dir, threads=MOST_THREADS))
    embedders: list[Embedder] = [embedder]
    if not isinstance(embedder, HashedLexical):
        embedders.append(HashedLexical())  # objects indexed before the model was installed
    return PostgresObjectIndex(database, embedders)


def indexer_of(index: PostgresObjectIndex, database: Database, report: Report = ignore_news) -> ObjectIndexer:
    """Return the indexer that fills an index; it calls ``report`` after each step."""
    events = PostgresEventLog(database, event_codec())

    def threads() -> int:
        return threads_at(os.getloadavg()[0], os.cpu_count() or 1)

    return ObjectIndexer(index, events, PostgresContentStore(database), report=report, threads=threads)


async def fill_index(models: OpenReadModels, *, anew: bool = False) -> PostgresObjectIndex:
    """Return the object index, up to date with the log; ``anew`` rebuilds it except for vectors."""
    index = await open_index(models.config, models.database)
    if anew:
        await models.refresh((OBJECT_INDEX,))
        await index.clear()
    await catch_up(models, index)
    return index


async def catch_up(models: OpenReadModels, index: PostgresObjectIndex) -> None:
    """Bring the index up to date with the log."""
    await models.refresh((OBJECT_INDEX,))
    standing = await index.standing()
    with models.bar_of("indexing", standing.missing + standing.unembedded) as show:
        done = 0

        def report(objects: int) -> None:
            nonlocal done
            done += objects
            show(done)

        await indexer_of(index, models.database, report).catch_up()
