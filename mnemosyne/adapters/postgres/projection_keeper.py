"""Keeps every projection of an open database up to date."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import trio

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.journal import LogProgress
from mnemosyne.adapters.postgres.projection_store import PostgresProjections, listen
from mnemosyne.domain.ports import Progress
from mnemosyne.errors import LogFailed
from mnemosyne.projections import ALL
from mnemosyne.projections.keeping import Keeping
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.store import Tail

log = logging.getLogger(__name__)

LISTEN_PAUSE = 5.0
"""Seconds until we listen again after the database was away."""


async def keep_projections(
    database: Database,
    event_log: Tail,
    committed: Progress,
    projections: Sequence[Projection] = ALL,
    followers: Sequence[Callable[[Progress], Awaitable[None]]] = (),
) -> None:
    """Keep them for as long as this runs, woken by what this process commits, and by what others do; ``followers`` are
    woken by the same.
    """
    store = PostgresProjections(database)
    heard = LogProgress()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Keeping(projections, event_log, store).run, heard)
        for follower in followers:
            nursery.start_soon(follower, heard)
        nursery.start_soon(_listen, database, heard)
        while True:
            heard.advance(await committed.beyond(heard.position))


async def _listen(database: Database, heard: LogProgress) -> None:
    while True:
        try:
            await listen(database, heard)
        except LogFailed as error:  # the projectors meet the same, and say so
            log.debug("cannot listen for what others append: %s", error)
        await trio.sleep(LISTEN_PAUSE)
