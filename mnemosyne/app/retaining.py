"""Forgets old sessions once a day, where ``retain_days``, ``retain_bytes`` or a tenant's quota says so."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Never

import attrs
import trio

from mnemosyne.adapters.postgres.archived_contents import PostgresArchivedContents
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.app.storage import LAST_COMMIT_SECONDS, Storage, storage_of
from mnemosyne.config import Config
from mnemosyne.domain.session.retention import DAY, Victim
from mnemosyne.errors import MnemosyneError
from mnemosyne.services.archiving import find_archives
from mnemosyne.services.forgetting import choose_old, clean, forget_all

log = logging.getLogger(__name__)

LOOK_SECONDS = 600.0
"""How often it is asked whether a day is over; so long also waits whoever has just begun."""

STEADY_SECONDS = 60.0
"""So much may the time of day gain or lose between two looks: beyond that somebody has set the clock, or the machine
slept, and how old a session is shows at the next look."""


async def retain_daily(
    config: Config,
    database: Database,
    now: Callable[[], int],
    new_id: Callable[[], str],
    wait: Callable[[float], Awaitable[None]] = trio.sleep,
) -> Never:
    """Forget what is old as the settings say, at most once a day, for as long as the database is ours to keep."""
    done_at: int | None = None
    while True:
        before = now()
        await wait(LOOK_SECONDS)
        at = now()
        if abs((at - before) / 1e6 - LOOK_SECONDS) > STEADY_SECONDS or (done_at is not None and at - done_at < DAY):
            continue
        try:
            for each in await retain(config, database, at, now, new_id):
                log.info("session %s is forgotten: %s", each.candidate.session, each.reason)
        except MnemosyneError as error:
            log.warning("old sessions are not forgotten now: %s", error)
        else:
            done_at = at


@attrs.frozen
class Limit:
    """How old a tenant's sessions may be, in days, and how many bytes they may take up; None: as many as there are."""

    tenant: str
    days: int | None
    stored_bytes: int | None


def limits_of(config: Config) -> Sequence[Limit]:
    """What the settings say of each tenant of whom they say something."""
    own = Limit(config.tenant, config.retain_days, config.retain_bytes)
    others = [Limit(each.tenant, None, each.stored_bytes) for each in config.tenant_quotas]
    says_something = config.retain_days is not None or config.retain_bytes is not None
    return [*([own] if says_something else []), *(each for each in others if each.tenant != config.tenant)]


async def retain(
    config: Config, database: Database, at: int, now: Callable[[], int], new_id: Callable[[], str]
) -> Sequence[Victim]:
    """Forget the sessions that are too old or too much at ``at``, tenant by tenant. In the database that we keep their
    bytes leave the files; in one of somebody else's that is left to its vacuum. Raises MnemosyneError.
    """
    gone: list[Victim] = []
    for limit in limits_of(config):
        storage = storage_of(database, limit.tenant, ours_alone=config.dsn is None)
        chosen = await choose_old(storage, now=at, days=limit.days, stored_bytes=limit.stored_bytes)
        if chosen:
            await _forget(storage, chosen, now, new_id)
            gone += chosen
    if gone and config.dsn is None and (files := await clean(storage.files)) != "rewritten":
        log.warning("erased bytes may still be in the database's files: %s", files)
    return gone


async def _forget(
    storage: Storage, chosen: Sequence[Victim], now: Callable[[], int], new_id: Callable[[], str]
) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(storage.journal.run)
        streams = [each.candidate.session for each in chosen]
        archives = await find_archives(PostgresArchivedContents(storage.files.database), streams)
        await forget_all(storage, streams, now, new_id)
        for file in archives:
            if await trio.Path(file).exists():
                log.warning("%s stays: this log did not write it", file)
        await storage.journal.close(LAST_COMMIT_SECONDS)
