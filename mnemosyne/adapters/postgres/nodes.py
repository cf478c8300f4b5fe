"""The servers and workers that use a database, from PostgreSQL's list of connections."""

import os
import socket
from datetime import datetime

import attrs

from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.adapters.postgres.leading import LOCK

SERVER, WORKER = "server", "worker"

_LONGEST_HOST = 30
"""PostgreSQL limits an application name to 63 bytes."""


@attrs.frozen(kw_only=True)
class Node:
    """A process with open connections: ``what`` is SERVER or WORKER; ``address`` is None for a Unix socket; ``leads``
    means that it updates the projections.
    """

    what: str
    host: str
    pid: int
    address: str | None
    since: datetime
    connections: int
    leads: bool


def name_of(what: str) -> str:
    """The application name of this process's connections."""
    return f"mnemosyne {what} {os.getpid()} {socket.gethostname()[:_LONGEST_HOST]}"


async def list_nodes(database: Database) -> tuple[Node, ...]:
    """List the connected processes, oldest first. Raises LogUnavailable."""
    return await database.run(_list)


def _list(connection: Connection) -> tuple[Node, ...]:
    rows = connection.execute(
        "select split_part(application_name, ' ', 2), split_part(application_name, ' ', 4),"
        " split_part(application_name, ' ', 3)::integer, host(client_addr), min(backend_start), count(*),"
        " bool_or(exists (select from pg_locks as held where held.pid = a.pid and held.database = a.datid and granted"
        "   and locktype = 'advisory' and (classid::bigint << 32 | objid::bigint) = %s))"
        " from pg_stat_activity as a where datname = current_database()"
        " and application_name ~ %s group by 1, 2, 3, 4 order by 5, 1",
        (LOCK, f"^mnemosyne ({SERVER}|{WORKER}) [0-9]+ "),
    )
    return tuple(
        Node(what=what, host=host, pid=pid, address=address, since=since, connections=count, leads=leads)
        for what, host, pid, address, since, count, leads in rows
    )
