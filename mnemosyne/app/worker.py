"""The worker put together: all that is derived from the log, in a process of its own.

It follows the log for the whole database, one worker at a time (``adapters/postgres/leading.py``): read models, the
index of objects, vectors. And it has a helper model, where there is one, write the summaries that the sessions of its
server want (``actors/summarizing.py``) and answer what their turns ask (``actors/composing.py``); only the server
appends. It holds nothing that matters: each part goes on from where its tables
or its sessions are.
"""

import os
import signal
from collections.abc import Callable

import trio

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.leading import Leader
from mnemosyne.adapters.postgres.nodes import WORKER, name_of
from mnemosyne.app.deriving import follow, help_sessions
from mnemosyne.app.freed_memory import return_as_it_works
from mnemosyne.app.object_index import open_index
from mnemosyne.app.process import end_with_server
from mnemosyne.app.retaining import limits_of, retain_daily
from mnemosyne.app.storage import open_database
from mnemosyne.app.worker_link import BEAT_SECONDS, Line, RemoteSessions
from mnemosyne.config import Config
from mnemosyne.domain.ports import Progress

NICENESS = 10
"""Of ten parts of a core that both want, the server gets nine."""


async def run_worker(config: Config, under_server: bool, now: Callable[[], int], new_id: Callable[[], str]) -> None:
    """Work until SIGTERM or SIGINT; ``under_server``: also for the server at the other end of stdin and stdout, and no
    longer than that lives.
    """
    line = _line_to_server() if under_server else None
    if config.dsn is not None:
        os.nice(NICENESS)  # else we may start the embedded database, which would give way, too
    async with open_database(config, name_of(WORKER)) as database, trio.open_nursery() as nursery:
        nursery.start_soon(_wait_for_stop, nursery.cancel_scope)
        nursery.start_soon(return_as_it_works)
        ear = Database(database.dsn, connections=1, name=database.name)
        leader = Leader(ear)
        if line is not None:
            sessions = RemoteSessions(line)
            nursery.start_soon(_serve, config, database, sessions, leader, now, new_id)
        try:
            await leader.run(lambda heard: _lead(config, database, heard, now, new_id))
        finally:
            ear.close()


async def _wait_for_stop(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


async def _lead(
    config: Config, database: Database, heard: Progress, now: Callable[[], int], new_id: Callable[[], str]
) -> None:
    async with trio.open_nursery() as nursery:
        if any(limits_of(config)):
            nursery.start_soon(retain_daily, config, database, now, new_id)
        await follow(await open_index(config, database), database, heard)


async def _serve(
    config: Config,
    database: Database,
    sessions: RemoteSessions,
    leader: Leader,
    now: Callable[[], int],
    new_id: Callable[[], str],
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sessions.run)
        nursery.start_soon(_beat, sessions, leader)
        nursery.start_soon(help_sessions, config, database, sessions, now, new_id)


async def _beat(sessions: RemoteSessions, leader: Leader) -> None:
    while True:
        await sessions.beat(leader.leads)
        await trio.sleep(BEAT_SECONDS)


def _line_to_server() -> Line:
    """Over what was stdin and stdout; what is printed goes to stderr from now on."""
    end_with_server()
    into, out = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    return Line(trio.lowlevel.FdStream(out), trio.lowlevel.FdStream(into))
