"""Keeps the log open for a server, which must go on without it."""

import logging

import trio

from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.nodes import SERVER, name_of
from mnemosyne.adapters.postgres.reconnecting_log import OpenLog, ReconnectingLog
from mnemosyne.app.object_index import open_index
from mnemosyne.app.storage import event_codec, open_database, open_views
from mnemosyne.backoff import backoff
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration, LogFailed

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between attempts to open the database."""


async def keep_open(config: Config, event_log: ReconnectingLog) -> None:
    """Keep the server's log open for as long as this runs: open it, and open it again when it failed."""
    pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
    while True:
        try:
            async with open_database(config, name_of(SERVER)) as database:
                index = await open_index(config, database)
                events = PostgresEventLog(database, event_codec())
                directory = PostgresDirectory(database, event_codec(), open_views(database))
                opened = OpenLog(database, events, PostgresContentStore(database), index, directory)
                with event_log.holding(opened):
                    log.info("the log is open")
                    pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
                    await trio.sleep_forever()
        except (LogFailed, BadConfiguration) as error:
            reason = f"{str(error).rstrip('.')}."
            event_log.away(reason)
            pause = next(pauses)
            log.error(
                "the log cannot be opened: %s Requests go through and wait in memory for it; next attempt in %g s.",
                reason,
                pause,
            )
            await trio.sleep(pause)
