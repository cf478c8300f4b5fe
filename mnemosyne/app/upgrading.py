"""A log carried from one database into another, as `backup` and `restore` do, and checked there."""

import os
from pathlib import Path

import attrs

from mnemosyne.adapters.postgres.archive_files import log_id
from mnemosyne.adapters.postgres.backup import BackupContents, Progress, check_backup, read_backup, write_backup
from mnemosyne.adapters.postgres.nodes import list_nodes
from mnemosyne.app.storage import open_database, storage_of
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration, DatabaseUnfit
from mnemosyne.services.verifying import Bars, Verification, verify_sessions


@attrs.frozen
class Carried:
    """What was carried, and every session as it was found in the new database."""

    held: BackupContents
    sessions: list[Verification]


async def carry_log(config: Config, target: str, folder: Path, at: int, progress: Progress, bars: Bars) -> Carried:
    """Carry the log of the configured database (``dsn``) into an empty one, by a file in ``folder``, as of ``at`` in µs
    of UTC; then every turn is rebuilt there and checked.

    Raises BadConfiguration where servers use the old one or the new one is not empty, DatabaseUnfit where a turn is not
    in the new one as it was recorded, and what ``open_database`` raises; OSError for the file.
    """
    file = folder / "log.backup"
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as opened:
        try:
            async with open_database(config) as old:
                nodes = await list_nodes(old)
                if nodes:
                    named = ", ".join(f"{each.what} {each.pid} on {each.host}" for each in nodes)
                    raise BadConfiguration(f"The old database is in use: end {named} first.")
                identity = await old.run(log_id)
                await write_backup(old, opened, at, progress)
            opened.seek(0)
            held = check_backup(opened, progress)
            async with open_database(attrs.evolve(config, dsn=target)) as new:
                await read_backup(new, opened, progress, identity)
                found = await verify_sessions(storage_of(new), None, bars)
        finally:
            file.unlink(missing_ok=True)
    differing = [str(each.session) for each in found if not each.is_sound]
    if differing:
        raise DatabaseUnfit(
            f"In the new database these sessions differ from what was recorded: {', '.join(differing)}."
        )
    return Carried(held, found)
