"""The open resources of library sessions: the log, the actors and the read models."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from mnemosyne import credentials
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.actors.session_finder import SessionFinder
from mnemosyne.actors.turn import TurnOpener
from mnemosyne.adapters.helpers.opening import check_helper
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.leading import Leader
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.app.deriving import follow
from mnemosyne.app.helping import help_sessions
from mnemosyne.app.object_index import model_of, open_index
from mnemosyne.app.process import new_id, now
from mnemosyne.app.read_models import OpenReadModels, open_read_models
from mnemosyne.app.settings import use_models
from mnemosyne.app.storage import event_codec, run_journal
from mnemosyne.app.turns import open_registry
from mnemosyne.config import Config, models_path
from mnemosyne.http.client_reply import RelayProgress

log = logging.getLogger(__name__)

RECORDING_SECONDS = 10.0
"""How long closing waits for turns to be recorded."""


@attrs.frozen
class Runtime:
    """Valid inside ``open_runtime``. Turns run in the nursery ``turns``."""

    models: OpenReadModels
    index: PostgresObjectIndex
    registry: SessionRegistry
    opener: TurnOpener
    turns: trio.Nursery
    progress: RelayProgress


@asynccontextmanager
async def open_runtime(config: Config) -> AsyncIterator[Runtime]:
    """Open the log and start the actors and read models of this process.

    Raises what ``open_database`` raises, and BadConfiguration for unusable settings.
    """
    if config.warning is not None:
        log.warning("%s", config.warning)
    check_helper(config, os.environ)
    use_models(models_path(config))
    event_codec().prepare()
    credentials.prepare()
    async with open_read_models(config, log.warning) as models, run_journal(models.archive) as archive:
        model = model_of(config)
        index = await open_index(config, models.database, model)
        async with trio.open_nursery() as sessions:
            registry = open_registry(
                sessions,
                config,
                events=archive.events,
                contents=archive.contents,
                journal=archive.journal,
                index=index,
                model=model,
            )
            sessions.start_soon(_follow, models.database, index)
            sessions.start_soon(help_sessions, config, models.database, LoadedSessions(registry), now, new_id)
            async with trio.open_nursery() as turns:
                finder = SessionFinder(registry, archive.directory, config.tenant)
                opener = TurnOpener(registry, finder, turns, now, new_id, sends=False)
                yield Runtime(models, index, registry, opener, turns, RelayProgress())
                turns.cancel_scope.deadline = trio.current_time() + RECORDING_SECONDS
            if turns.cancel_scope.cancelled_caught:
                log.error("The database did not answer in time; turns not yet recorded are lost.")
            sessions.cancel_scope.cancel()


async def _follow(database: Database, index: PostgresObjectIndex) -> None:
    """Keep the index up to date while no other process on this database does."""
    listener = Database(database.dsn, connections=1, name=database.name)
    try:
        await Leader(listener).run(lambda notifications: follow(index, database, notifications))
    finally:
        listener.close()
