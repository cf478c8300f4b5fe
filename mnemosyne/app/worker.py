"""The composition of the worker process, which keeps everything derived from the log.

One worker at a time follows the log for the whole database (``adapters/postgres/leading.py``) and updates read models,
object index and vectors. With a helper model it also does the orders of its server's sessions
(``actors/helper_work.py``) and answers questions of their turns (``actors/composing.py``); only the server appends. The
worker has no state of its own: each part continues from its tables or its sessions.
"""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Never

import attrs
import trio

from mnemosyne.adapters.embedding import model_files
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.leading import WORKER, Leader, name_of
from mnemosyne.app.deriving import follow
from mnemosyne.app.freed_memory import return_freed_memory
from mnemosyne.app.launch import as_variables
from mnemosyne.app.object_index import open_index
from mnemosyne.app.process import end_with_server, new_id, now
from mnemosyne.app.storage import open_database
from mnemosyne.app.worker_link import BEAT_SECONDS, Line, Remote, stdio_line
from mnemosyne.config import Config
from mnemosyne.domain.ports import Progress
from mnemosyne.domain.session.retention import DAY

log = logging.getLogger(__name__)

FETCH_AFTER_SECONDS = 20.0
"""The delay before the embedding model is downloaded: a server that ends sooner needs none."""

LOOK_SECONDS = 600.0
"""Interval of the checks for old sessions, and the delay of the first one."""

STEADY_SECONDS = 60.0
"""Tolerated clock drift between two checks: beyond it the clock was set or the machine slept, so the check is skipped.
"""

NICENESS = 10
"""On a contended core the server gets nine tenths."""


async def run_worker(config: Config, under_server: bool) -> None:
    """Work until SIGTERM or SIGINT; with ``under_server``, also serve the server at stdin and stdout and end when it
    ends.
    """
    if under_server:
        end_with_server()
    line = stdio_line() if under_server else None
    if config.dsn is not None:
        os.nice(NICENESS)  # otherwise this process may start the embedded database, which would inherit the niceness
    async with open_database(config, name_of(WORKER)) as database, trio.open_nursery() as nursery:
        nursery.start_soon(_wait_for_stop, nursery.cancel_scope)
        nursery.start_soon(partial(return_freed_memory, let_go=database.drop_idle))
        nursery.start_soon(_fetch_model, config)
        listener = Database(database.dsn, connections=1, name=database.name)
        leader = Leader(listener)
        if line is not None:
            nursery.start_soon(_serve, config, database, line, leader)
        try:
            await leader.run(lambda progress: _lead(config, database, progress))
        finally:
            listener.close()


async def _wait_for_stop(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


async def _fetch_model(config: Config) -> None:
    """Install the embedding model if it is missing, in a process of its own: building it takes memory and time."""
    await trio.sleep(FETCH_AFTER_SECONDS)
    while config.semantic_search:
        if model_files.is_due(config.data_dir):
            log.info("The embedding model is being downloaded; until then, search uses words only.")
            command = [sys.executable, "-P", "-m", "mnemosyne", "model", "install", "--data-dir", str(config.data_dir)]
            with suppress(OSError):  # the reason below says that it is not downloaded
                await trio.run_process(command, check=False, capture_stdout=True, capture_stderr=True)
            why = model_files.why_absent(config.data_dir)
            log.warning("Search uses words only: %s", why) if why else log.info("Search compares meaning, too.")
        await trio.sleep(model_files.RETRY_SECONDS)


async def retain_daily(
    retain: Callable[[], Awaitable[bool]], now: Callable[[], int], wait: Callable[[float], Awaitable[None]] = trio.sleep
) -> Never:
    """Forget old sessions at most once a day, until cancelled; ``retain`` returns whether it succeeded."""
    done_at: int | None = None
    while True:
        before = now()
        await wait(LOOK_SECONDS)
        at = now()
        if abs((at - before) / 1e6 - LOOK_SECONDS) > STEADY_SECONDS or (done_at is not None and at - done_at < DAY):
            continue
        if await retain():
            done_at = at


async def retain_once(config: Config) -> bool:
    """Forget old sessions in another process, because its modules take 3 MB. Return whether it succeeded."""
    # A database that is not embedded vacuums itself.
    command = [sys.executable, "-P", "-m", "mnemosyne", "retain", *(["--quick"] if config.dsn else [])]
    if config.dsn:  # as if it were an option: of several databases, only this worker's own
        config = attrs.evolve(config, sources={**config.sources, "dsn": "option --dsn"})
    try:
        done = await trio.run_process(
            command,
            check=False,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            env={**os.environ, **as_variables(config)},
        )
    except OSError as error:
        log.warning("old sessions could not be forgotten: %s", error)
        return False
    for line in done.stdout.decode(errors="replace").splitlines():
        log.log(logging.WARNING if done.returncode else logging.INFO, "retain: %s", line)
    return done.returncode == 0


async def _lead(config: Config, database: Database, progress: Progress) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(retain_daily, partial(retain_once, config), now)
        await follow(await open_index(config, database), database, progress)


async def _serve(config: Config, database: Database, line: Line, leader: Leader) -> None:
    async with trio.open_nursery() as nursery:
        server = Remote(line)
        if config.helper != "extractive":
            from mnemosyne.app.helping import RemoteSessions, help_sessions  # takes 5 MB

            server = helped = RemoteSessions(line)
            nursery.start_soon(help_sessions, config, database, helped, now, new_id)
        nursery.start_soon(server.run)
        nursery.start_soon(_beat, server, leader)


async def _beat(server: Remote, leader: Leader) -> None:
    while True:
        await server.beat(leader.leads)
        await trio.sleep(BEAT_SECONDS)
