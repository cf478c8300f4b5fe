"""Upgrade of the embedded database to a new major version of PostgreSQL: the data is copied into a new cluster, which
replaces the old one.
"""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import trio

from mnemosyne.adapters.embedded.cluster import Cluster, client_address, flush
from mnemosyne.adapters.embedded.programs import NEWEST
from mnemosyne.adapters.embedded.server import (
    EmbeddedServer,
    UserMark,
    exclusive,
    explain_disk_errors,
    open_embedded,
)
from mnemosyne.errors import LogUnavailable

Carry = Callable[[str, str, Path], Awaitable[None]]
"""Copies all data from the first DSN to the second, an empty database, with a folder for temporary files. An error ends
the upgrade without changes.
"""


@attrs.frozen
class Upgraded:
    """The old and new major version, and the folder of the old files."""

    before: int
    after: int
    kept: Path


async def upgrade(data_dir: Path, carry: Carry) -> Upgraded | None:
    """Upgrade the database of ``data_dir`` to the newest major version; return None if it has that already.

    It excludes all other users. If it is killed, either the old or the new files are complete and in place. Raises
    LogUnavailable if the database is in use, and errors of ``open_embedded`` and ``carry``.
    """
    cluster = await trio.to_thread.run_sync(lambda: Cluster.at(data_dir))
    with explain_disk_errors(cluster):
        account = await trio.to_thread.run_sync(cluster.account)
        async with exclusive(cluster):
            await trio.to_thread.run_sync(cluster.finish_upgrade)
            before = (await trio.to_thread.run_sync(lambda: cluster.programs(account))).major
            if before == NEWEST:
                return None
            with client_address(cluster.folder) as host:
                await _carry(cluster, EmbeddedServer(cluster, account, host), carry)
            kept = await trio.to_thread.run_sync(lambda: _swap(cluster, before))
    return Upgraded(before, NEWEST, kept)


async def _carry(cluster: Cluster, server: EmbeddedServer, carry: Carry) -> None:
    mark = UserMark(cluster)
    try:
        if not mark.is_last():
            raise LogUnavailable(
                f"The database of {cluster.data_dir} is in use: end its servers and commands first."
                " `mnemosyne nodes` names the servers."
            )
        await trio.to_thread.run_sync(lambda: _clear(cluster))
        try:
            await server.ensure_running()
            folder = _folder(cluster)
            async with open_embedded(folder) as new:
                await carry(server.dsn, new.dsn, folder)
        finally:
            with trio.CancelScope(shield=True):
                await server.stop()
    finally:
        mark.remove()


def _folder(cluster: Cluster) -> Path:
    """The data directory of the new cluster."""
    return cluster.data_dir / "postgres.upgrade"


def _clear(cluster: Cluster) -> None:
    """Remove the files of an interrupted upgrade."""
    shutil.rmtree(_folder(cluster), ignore_errors=True)
    shutil.rmtree(cluster.upgraded, ignore_errors=True)


def _swap(cluster: Cluster, before: int) -> Path:
    """Replace the old cluster by the new one; return the folder of the old files."""
    kept = cluster.data_dir / f"postgres.old-{before}"
    number = 1
    while kept.exists():
        number += 1
        kept = cluster.data_dir / f"postgres.old-{before}.{number}"
    (_folder(cluster) / "postgres").rename(cluster.upgraded)
    flush(cluster.data_dir)
    cluster.folder.rename(kept)
    cluster.finish_upgrade()
    shutil.rmtree(_folder(cluster), ignore_errors=True)
    return kept
