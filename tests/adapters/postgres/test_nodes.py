"""The servers and workers of a database are listed, with the leader."""

import os
import socket

import trio

from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.adapters.postgres.leading import SERVER, WORKER, Leader, Node, list_nodes, name_of
from mnemosyne.domain.ports import Progress
from tests.waiting import DEADLINE


def summarize(nodes: tuple[Node, ...]) -> list[tuple[str, str, int, int, bool]]:
    return [(each.what, each.host, each.pid, each.connections, each.leads) for each in nodes]


def ask(connection: Connection) -> None:
    connection.execute("select 1")


async def test_connected_processes_and_the_leader_are_listed(dsn: str) -> None:
    reader, server = Database(dsn), Database(dsn, name=name_of(SERVER))
    worker = Database(dsn, connections=1, name=name_of(WORKER))
    host, pid = socket.gethostname()[:30], os.getpid()
    assert summarize(await list_nodes(reader)) == []
    await server.run(ask)
    leading = trio.Event()

    async def follow(progress: Progress) -> None:
        leading.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Leader(worker, lambda said: None).run, follow)
        await leading.wait()
        assert summarize(await list_nodes(reader)) == [(SERVER, host, pid, 1, False), (WORKER, host, pid, 1, True)]
        nursery.cancel_scope.cancel()
    worker.close()
    server.close()
    with trio.fail_after(DEADLINE):
        while await list_nodes(reader):  # the database hears of an end a moment later
            await trio.lowlevel.checkpoint()
    reader.close()


async def test_a_long_host_name_is_accepted(dsn: str) -> None:
    name = f"mnemosyne {SERVER} {2**22} " + "h" * 30
    named, reader = Database(dsn, name=name), Database(dsn)
    await named.run(ask)
    assert summarize(await list_nodes(reader)) == [(SERVER, "h" * 30, 2**22, 1, False)]
    named.close()
    reader.close()
