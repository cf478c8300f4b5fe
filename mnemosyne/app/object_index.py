"""Open the object index of a database and bring it up to date."""

import math
import os

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.embedding.embedder import LocalModel
from mnemosyne.adapters.postgres import object_index_rows as rows
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.leading import lag
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.object_index_rows import IndexStanding
from mnemosyne.adapters.postgres.object_indexer import MOST_THREADS, ObjectIndexer, Report, ignore_news, threads_at
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.app.storage import event_codec
from mnemosyne.config import Config
from mnemosyne.projections.object_index import OBJECT_INDEX

VECTOR_SECONDS, LED_SECONDS = 10.0, 1.0
"""How long a command computes missing vectors before it searches: by default, and while a worker computes them, too."""


def model_of(config: Config, *, threads: int = MOST_THREADS) -> LocalModel:
    """Return the embedding model of the data directory, which may be installed later."""
    return LocalModel(config.data_dir, is_wanted=config.semantic_search, threads=threads)


def why_words_only(config: Config) -> str | None:
    """Return why search does not compare meaning, in a sentence with the remedy; None if it does."""
    return model_files.why_absent(config.data_dir) if config.semantic_search else "`semantic_search` is off."


async def read_standing(database: Database) -> IndexStanding:
    """Return the progress of the index with the embedding model."""
    return await database.run(rows.standing, model_files.NAME)


async def open_index(config: Config, database: Database, model: LocalModel | None = None) -> PostgresObjectIndex:
    """Open the object index with a model, by default the one of the data directory."""
    model = model or model_of(config)
    await model.get()
    return PostgresObjectIndex(database, model.get)


def indexer_of(index: PostgresObjectIndex, database: Database, report: Report = ignore_news) -> ObjectIndexer:
    """Return the indexer that fills an index; it calls ``report`` after each step."""
    events = PostgresEventLog(database, event_codec())

    def threads() -> int:
        return threads_at(os.getloadavg()[0], os.cpu_count() or 1)

    return ObjectIndexer(index, events, PostgresContentStore(database), report=report, threads=threads)


async def fill_index(
    models: OpenReadModels, model: LocalModel | None = None, *, rebuild: bool = False
) -> PostgresObjectIndex:
    """Return the object index with the words of all objects; missing vectors are made for a few seconds. ``rebuild``
    rebuilds the index except for vectors, and makes all of these.
    """
    index = await open_index(models.config, models.database, model)
    if rebuild:
        await models.refresh((OBJECT_INDEX,))
        await index.clear()
    is_led = not rebuild and (await lag(models.database)).led
    await catch_up(models, index, math.inf if rebuild else LED_SECONDS if is_led else VECTOR_SECONDS)
    return index


async def catch_up(models: OpenReadModels, index: PostgresObjectIndex, vector_seconds: float = math.inf) -> None:
    """Bring the index up to date with the log; make missing vectors for so many seconds."""
    await models.refresh((OBJECT_INDEX,))
    standing = await index.standing()
    with models.bar_of("indexing", standing.missing + standing.unembedded) as show:
        done = 0

        def report(objects: int) -> None:
            nonlocal done
            done += objects
            show(done)

        await indexer_of(index, models.database, report).catch_up(vector_seconds)
