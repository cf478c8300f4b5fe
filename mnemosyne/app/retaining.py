"""Forget old sessions according to ``retain_days``, ``retain_bytes`` and tenants' quotas, and erase sessions that
were in the trash for too long.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from uuid import UUID

import attrs
import trio

from mnemosyne.adapters.postgres.archive_files import PostgresArchivedContents
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.app.storage import Storage, run_journal, storage_of
from mnemosyne.config import Config
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.retention import Victim
from mnemosyne.services.archiving import find_archives
from mnemosyne.services.forgetting import Forgotten, choose_old, forget_all
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.trash import erase_expired_entries


@attrs.frozen
class Limit:
    """A tenant's retention limits: maximum age in days and maximum size in bytes; None for no limit."""

    tenant: str
    days: int | None
    stored_bytes: int | None


def limits_of(config: Config, tenants: Collection[str] = ()) -> Sequence[Limit]:
    """The limits of the configured tenant, and of others that have a quota or are among these ``tenants``."""
    quotas = {**dict.fromkeys(sorted(tenants)), **{each.tenant: each.stored_bytes for each in config.tenant_quotas}}
    others = [Limit(tenant, None, quota) for tenant, quota in quotas.items() if tenant != config.tenant]
    return [Limit(config.tenant, config.retain_days, config.retain_bytes), *others]


Rewrite = Callable[[Storage], Awaitable[str]]
"""Removes erased bytes from the database's files; returns the result of ``services.forgetting.clean``."""


@attrs.frozen
class Retained:
    """The sessions that exceed a limit, each with its tenant; the result of ``Rewrite``, or ``kept``; the archives that
    stay because another log wrote them; and the number of entries whose time in the trash is over.
    """

    victims: Sequence[tuple[str, Victim]]
    files: str = "kept"
    archives_left: Sequence[str] = ()
    entries: int = 0


async def retain(
    config: Config,
    database: Database,
    now: Callable[[], int],
    new_id: Callable[[], str],
    *,
    rewrite: Rewrite | None = None,
    dry_run: bool = False,
) -> Retained:
    """Forget each tenant's sessions that exceed its limits, and erase those in the trash for too long; ``dry_run``
    only chooses. Raises MnemosyneError.
    """
    victims: list[tuple[str, Victim]] = []
    left: list[str] = []
    files, entries = "kept", 0
    first = [each.envelope.event for each in await storage_of(database).events.pick_first()]
    for limit in limits_of(config, {each.tenant for each in first if isinstance(each, SessionStarted)}):
        async with run_journal(storage_of(database, limit.tenant, ours_alone=config.dsn is None)) as storage:
            chosen = await choose_old(storage, now=now(), days=limit.days, stored_bytes=limit.stored_bytes)
            victims += [(limit.tenant, victim) for victim in chosen]
            entries += await erase_expired_entries(storage, limit.tenant, WriteStamp(now(), new_id()), dry_run=dry_run)
            if not dry_run:
                _, archives = await erase(storage, [victim.candidate.session for victim in chosen], now, new_id)
                left += archives
    if (victims or entries) and rewrite is not None and not dry_run:
        files = await rewrite(storage)
    return Retained(victims, files, left, entries)


async def erase(
    storage: Storage, streams: Sequence[UUID], now: Callable[[], int], new_id: Callable[[], str]
) -> tuple[Sequence[Forgotten], Sequence[str]]:
    """Erase sessions. Returns the results, and the archives that stay because another log wrote them."""
    archives = await find_archives(PostgresArchivedContents(storage.files.database), streams)
    done = await forget_all(storage, streams, now, new_id)
    return done, [archive for archive in archives if await trio.Path(archive).exists()]
