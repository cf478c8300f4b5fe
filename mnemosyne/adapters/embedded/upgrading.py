"""The embedded database under a newer major version of PostgreSQL, whose programs cannot read its files: what it holds
is carried into a new cluster, and that takes its place.
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
"""Carries all from the first DSN to the second, an empty database; the folder is for what it needs meanwhile. What it
raises ends the upgrade, and the old files stay where they are.
"""


@attrs.frozen
class Upgraded:
    """What an upgrade did: from which major version to which, and where the old files are kept."""

    before: int
    after: int
    kept: Path


async def upgrade(data_dir: Path, carry: Carry) -> Upgraded | None:
    """Carry the database of ``data_dir`` into one of the newest major version; None where it is one already.

    Nobody else may use it, or can until the end. Ended at any moment, it leaves the old files in their place or the
    new ones, whole. Raises LogUnavailable where somebody uses it, and what ``open_embedded`` and ``carry`` raise.
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
        if not mark.is_the_last():
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
    """The data directory of the new cluster in the making."""
    return cluster.data_dir / "postgres.upgrade"


def _clear(cluster: Cluster) -> None:
    """What an upgrade left that was ended before its end."""
    shutil.rmtree(_folder(cluster), ignore_errors=True)
    shutil.rmtree(cluster.upgraded, ignore_errors=True)


def _swap(cluster: Cluster, before: int) -> Path:
    """Put the new cluster, which is whole, in the place of the old one; where that is kept."""
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
