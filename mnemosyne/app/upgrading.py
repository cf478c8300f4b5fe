"""Copy a log from one database to another, like `backup` and `restore`, and verify it there."""

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
    """The copied contents, and the verification of every session in the new database."""

    held: BackupContents
    sessions: list[Verification]


async def carry_log(config: Config, target: str, folder: Path, at: int, progress: Progress, bars: Bars) -> Carried:
    """Copy the log of the configured database (``dsn``) as of ``at`` in µs of UTC into an empty one, by way of a file
    in ``folder``; then rebuild and verify every turn there.

    Raises BadConfiguration if servers use the old database or the new one is not empty, DatabaseUnfit if a turn differs
    in the new one, what ``open_database`` raises, and OSError for the file.
    """
    file = folder / "log.backup"
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as opened:
        try:
            async with open_database(config) as old:
                nodes = await list_nodes(old)
                if nodes:
                    named = ", ".join(f"{node.what} {node.pid} on {node.host}" for node in nodes)
                    raise BadConfiguration(f"The old database is in use: stop {named} first.")
                identity = await old.run(log_id)
                await write_backup(old, opened, at, progress)
            opened.seek(0)
            held = check_backup(opened, progress)
            async with open_database(attrs.evolve(config, dsn=target)) as new:
                await read_backup(new, opened, progress, identity)
                verified = await verify_sessions(storage_of(new), None, bars)
        finally:
            file.unlink(missing_ok=True)
    differing = [str(session.session) for session in verified if not session.is_sound]
    if differing:
        raise DatabaseUnfit(f"These sessions differ from the recording in the new database: {', '.join(differing)}.")
    return Carried(held, verified)
