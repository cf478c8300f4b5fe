"""Forget old sessions once a day, according to ``retain_days``, ``retain_bytes`` and tenants' quotas."""

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
"""Interval of checks, and the delay of the first one."""

STEADY_SECONDS = 60.0
"""Tolerated clock drift between two checks: beyond it the clock was set or the machine slept, so the check is skipped.
"""


async def retain_daily(
    config: Config,
    database: Database,
    now: Callable[[], int],
    new_id: Callable[[], str],
    wait: Callable[[float], Awaitable[None]] = trio.sleep,
) -> Never:
    """Forget old sessions at most once a day, until cancelled."""
    done_at: int | None = None
    while True:
        before = now()
        await wait(LOOK_SECONDS)
        at = now()
        if abs((at - before) / 1e6 - LOOK_SECONDS) > STEADY_SECONDS or (done_at is not None and at - done_at < DAY):
            continue
        try:
            for victim in await retain(config, database, at, now, new_id):
                log.info("session %s is forgotten: %s", victim.candidate.session, victim.reason)
        except MnemosyneError as error:
            log.warning("old sessions could not be forgotten: %s", error)
        else:
            done_at = at


@attrs.frozen
class Limit:
    """A tenant's retention limits: maximum age in days and maximum size in bytes; None for no limit."""

    tenant: str
    days: int | None
    stored_bytes: int | None


def limits_of(config: Config) -> Sequence[Limit]:
    """Return the limits of all tenants that have any."""
    own = Limit(config.tenant, config.retain_days, config.retain_bytes)
    others = [Limit(quota.tenant, None, quota.stored_bytes) for quota in config.tenant_quotas]
    is_limited = config.retain_days is not None or config.retain_bytes is not None
    return [*([own] if is_limited else []), *(limit for limit in others if limit.tenant != config.tenant)]


async def retain(
    config: Config, database: Database, at: int, now: Callable[[], int], new_id: Callable[[], str]
) -> Sequence[Victim]:
    """Forget each tenant's sessions that exceed its limits at ``at``. In the embedded database their bytes are removed
    from the files; in another database its vacuum does that. Raises MnemosyneError.
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
        streams = [victim.candidate.session for victim in chosen]
        archives = await find_archives(PostgresArchivedContents(storage.files.database), streams)
        await forget_all(storage, streams, now, new_id)
        for file in archives:
            if await trio.Path(file).exists():
                log.warning("%s is kept: this log did not write it", file)
        await storage.journal.close(LAST_COMMIT_SECONDS)
