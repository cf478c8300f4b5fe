"""Keep read models and the index up to date: in a server's worker, or in the process of a library user."""

import os
from collections.abc import Callable

import trio

from mnemosyne.actors.composing import Composer
from mnemosyne.actors.helper_calls import HelperBudget, HelperModels
from mnemosyne.actors.helper_work import HelperWorker
from mnemosyne.adapters.helpers.opening import open_helper
from mnemosyne.adapters.postgres.cold_requests import ColdRequests
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.projection_store import PostgresProjections, PostgresSpending
from mnemosyne.app.object_index import indexer_of
from mnemosyne.app.settings import helper_limits
from mnemosyne.app.storage import event_codec, storage_of
from mnemosyne.app.worker_link import ServedSessions
from mnemosyne.config import Config
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
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


async def help_sessions(
    config: Config,
    database: Database,
    sessions: ServedSessions,
    now: Callable[[], int],
    new_id: Callable[[], str],
) -> None:
    """Let the helper model, if configured, do the orders of sessions and answer questions of turns."""
    spending = PostgresSpending(database, PostgresEventLog(database, event_codec()))
    budget = HelperBudget(spending, helper_limits(config), now)
    async with open_helper(config, os.environ) as source, trio.open_nursery() as nursery:
        if source is not None:
            models = HelperModels(source, budget)
            worker = HelperWorker(models, PostgresContentStore(database), spending, BACKGROUND_TASKS, now, new_id)
            nursery.start_soon(worker.run, sessions)
            nursery.start_soon(Composer(models).run, sessions)
