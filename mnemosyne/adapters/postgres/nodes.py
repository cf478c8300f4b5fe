"""Which servers and workers use a database: what PostgreSQL knows of their connections, so nothing is written, no clock
is compared, and whoever is gone is gone from the list.
"""

import os
import socket
from datetime import datetime

import attrs

from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.adapters.postgres.leading import LOCK

SERVER, WORKER = "server", "worker"
"""What a process may be."""

_LONGEST_HOST = 30
"""PostgreSQL cuts a name at 63 bytes."""


@attrs.frozen(kw_only=True)
class Node:
    """A process with open connections: ``what`` it is, on which ``host`` it says to be and with which ``pid``, the
    ``address`` that the database sees (None: a socket on its own machine), ``since`` when, and whether it ``leads``: it
    keeps what is derived from the log.
    """

    what: str
    host: str
    pid: int
    address: str | None
    since: datetime
    connections: int
    leads: bool


def name_of(what: str) -> str:
    """The name by which this process is listed as what it is, for its connections."""
    return f"mnemosyne {what} {os.getpid()} {socket.gethostname()[:_LONGEST_HOST]}"


async def list_nodes(database: Database) -> tuple[Node, ...]:
    """Those that are connected now, the oldest first. Raises LogUnavailable where the database is away."""
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
