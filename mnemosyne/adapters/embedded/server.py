"""The embedded PostgreSQL, the default database: the first process starts it, the last one stops it.

Any number of processes may use one data directory with ``open_embedded``, for instance a proxy and a reading command:

* They connect and disconnect under an exclusive lock, so concurrent first starts create one cluster.
* A process that uses the server holds a shared lock on a second file. The last process can make it exclusive, and stops
  the server. The server of a killed process is adopted by the next one, and stopped with it.
* Each process watches the server. After a crash the first to notice restarts it, and the others adopt it.

The files and accounts are in ``cluster.py``, the programs in ``programs.py``.
"""

import errno
import fcntl
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import trio

from mnemosyne.adapters.embedded.cluster import (
    DATABASE,
    PORT,
    ROLE,
    Cluster,
    Postmaster,
    client_address,
    connection_string,
    plain_reason,
)
from mnemosyne.adapters.embedded.programs import ServerUser
from mnemosyne.backoff import backoff
from mnemosyne.data_dir import prepare_data_dir
from mnemosyne.errors import LogUnavailable, MnemosyneError

log = logging.getLogger(__name__)
Result = TypeVar("Result")

READY_SECONDS = 120.0
"""The time limit of a start: usually 0.1 s, but a recovery reads up to 256 MB of WAL."""

STOP_SECONDS = 60.0
LOCK_SECONDS = 2 * READY_SECONDS
END_SECONDS = 10.0
POLL_SECONDS = 0.01
WATCH_SECONDS = 0.5
STEADY_SECONDS = 10.0
"""A server that ran this long is restarted at once; otherwise pauses grow up to LONGEST_PAUSE."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0

START_PAUSES = (0.0, 0.1, 0.4, 1.5)
"""Pauses before attempts to start: the processes of a killed server may still be ending."""

_shared_servers: list[trio.Process] = []
"""Servers that we started and others still use, kept because subprocess warns about a lost child."""


class _EndedAtOnce(LogUnavailable):
    """A failed start that is retried."""


class EmbeddedServer:
    """The server, as used by one process. Created by ``open_embedded``."""

    dsn: str
    """The DSN in libpq's keyword form, which a restart does not change."""

    adopted: bool
    """Whether it was already running."""

    restarts: int
    """The number of restarts after crashes."""

    def __init__(self, cluster: Cluster, account: ServerUser, host: str) -> None:
        self.adopted = False
        self.restarts = 0
        self.dsn = connection_string(
            {
                "host": host,
                "port": str(PORT),
                "dbname": DATABASE,
                "user": ROLE,
                "requirepeer": account.name,
            }
        )
        self._cluster = cluster
        self._account = account
        self._host = host
        self._pid = 0
        self._child: trio.Process | None = None

    @property
    def pid(self) -> int:
        """The PID of the server's main process."""
        return self._pid

    # The methods up to `stop` are called under the exclusive lock.

    async def ensure_running(self) -> None:
        failure: _EndedAtOnce | None = None
        for pause in START_PAUSES:
            await trio.sleep(pause)
            postmaster = await self._settle()
            if postmaster is not None:
                self.adopted, self._pid = True, postmaster.pid
                return
            try:
                await self._start()
            except _EndedAtOnce as error:
                failure = error
            else:
                self.adopted = False
                return
        assert failure is not None
        raise failure

    async def _settle(self) -> Postmaster | None:
        """Wait until the server is neither starting nor stopping; return it, or None."""
        with trio.move_on_after(READY_SECONDS):
            while True:
                postmaster = await _in_thread(self._cluster.postmaster)
                if postmaster is None or postmaster.ready:
                    return postmaster
                await trio.sleep(POLL_SECONDS)
        raise LogUnavailable(
            f"The database server of {self._cluster.data_dir} has been starting or stopping for {READY_SECONDS:.0f} "
            f"seconds. {await _in_thread(lambda: self._cluster.read_failure(0))}"
        )

    async def _start(self) -> None:
        await self._refuse_if_it_lives_elsewhere()
        programs = await _in_thread(lambda: self._cluster.programs(self._account))
        if not await _in_thread(self._cluster.folder.exists):
            await _in_thread(lambda: self._cluster.initialise(programs, self._account))
        await _in_thread(lambda: self._cluster.prepare_start(self._account))
        with await _in_thread(self._cluster.open_log) as output:
            size = output.tell()
            child = await trio.lowlevel.open_process(
                self._cluster.command(programs),
                cwd=self._cluster.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # protects it from Ctrl-C in our terminal
                **self._account.spawn_options(),
            )
        try:
            await self._until_ready(child, size)
        except BaseException:
            await _end(child)
            raise
        self._child, self._pid = child, child.pid

    async def _refuse_if_it_lives_elsewhere(self) -> None:
        """Refuse to start a second server: one in another container is invisible, but answers on the socket."""
        try:
            stream = await trio.open_unix_socket(f"{self._host}/.s.PGSQL.{PORT}")
        except OSError:
            return
        await stream.aclose()
        raise LogUnavailable(
            "A server that cannot be seen from here, perhaps in another container, answers for "
            f"{self._cluster.data_dir}: stop it first."
        )

    async def _until_ready(self, child: trio.Process, log_size: int) -> None:
        with trio.move_on_after(READY_SECONDS):
            while child.poll() is None:
                postmaster = await _in_thread(self._cluster.postmaster)
                if postmaster is not None and postmaster.ready and postmaster.pid == child.pid:
                    return
                await trio.sleep(POLL_SECONDS)
        server = f"The database server of {self._cluster.data_dir}"
        words = await _in_thread(lambda: self._cluster.read_failure(log_size))
        if child.poll() is None:
            raise LogUnavailable(f"{server} did not become ready in {READY_SECONDS:.0f} seconds. {words}")
        raise _EndedAtOnce(f"{server} ended at once. {words}")

    async def stop(self) -> None:
        postmaster = await _in_thread(self._cluster.postmaster)
        if postmaster is None:
            return
        with trio.move_on_after(STOP_SECONDS):
            with suppress(ProcessLookupError):
                os.kill(postmaster.pid, signal.SIGINT)  # PostgreSQL's fast shutdown
            await self._wait_until_gone(postmaster.pid)
            return
        log.warning("The database server (process %d) is still stopping; not waiting for it.", postmaster.pid)

    # The methods below are called at any time.

    async def _wait_until_gone(self, pid: int) -> None:
        if self._child is not None and self._child.pid == pid:
            await self._child.wait()
            return
        while (postmaster := await _in_thread(self._cluster.postmaster)) is not None and postmaster.pid == pid:
            with trio.move_on_after(WATCH_SECONDS):
                await _exit_of(pid)

    async def _watch(self) -> None:
        """Restart the server after each crash."""
        pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            since = trio.current_time()
            await self._wait_until_gone(self._pid)
            if trio.current_time() - since > STEADY_SECONDS:
                pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
            log.warning("The database server (process %d) died; restarting it.", self._pid)
            for pause in pauses:
                back = await self._restart()
                self.restarts += back
                await trio.sleep(pause)  # limits the rate of restarts
                if back:
                    break

    async def _restart(self) -> bool:
        try:
            async with exclusive(self._cluster):
                await self.ensure_running()
        except (MnemosyneError, OSError) as error:
            log.error("The database server does not start: %s", error)
            return False
        return True

    async def _disconnect(self, mark: "_UserMark") -> None:
        try:
            async with exclusive(self._cluster):
                if mark.is_last():
                    await self.stop()
                mark.remove()
        except (MnemosyneError, OSError) as error:
            log.warning("The database server was not stopped: %s", error)
            mark.remove()
        if self._child is not None and self._child.poll() is None:
            _shared_servers.append(self._child)


class _UserMark:
    """The shared lock of a process that uses the server. The kernel releases it if the process dies."""

    def __init__(self, cluster: Cluster) -> None:
        self._handle = _open_private(cluster.users)
        # Does not block: only a holder of the other lock, which our caller holds, locks it exclusively.
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def is_last(self) -> bool:
        return _try_exclusive(self._handle)

    def remove(self) -> None:
        if self._handle >= 0:
            _release(self._handle)
            self._handle = -1


@asynccontextmanager
async def open_embedded(data_dir: Path) -> AsyncIterator[EmbeddedServer]:
    """Use the server of ``data_dir``: create, start or adopt it, watch it, and stop it after the last use.

    Raises BadConfiguration for an unusable directory, DatabaseUnfit for files that this installation cannot use,
    LogUnavailable if the server does not start.
    """
    _shared_servers[:] = [child for child in _shared_servers if child.poll() is None]
    cluster = await _in_thread(lambda: Cluster.at(data_dir))
    with _explain_disk_errors(cluster):
        await _in_thread(lambda: prepare_data_dir(cluster.data_dir))
        account = await _in_thread(cluster.account)
    with client_address(cluster.folder) as host:
        server = EmbeddedServer(cluster, account, host)
        async with _in_use(server, cluster):
            # Raise errors of the caller without the exception group of the nursery.
            failure: BaseException | None = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server._watch)
                try:
                    yield server
                except BaseException as error:
                    failure = error
                nursery.cancel_scope.cancel()
            if failure is not None:
                raise failure


@asynccontextmanager
async def _in_use(server: EmbeddedServer, cluster: Cluster) -> AsyncIterator[None]:
    mark: _UserMark | None = None
    try:
        with _explain_disk_errors(cluster):
            async with exclusive(cluster):
                mark = _UserMark(cluster)
                await server.ensure_running()
        yield
    finally:
        if mark is not None:
            with trio.CancelScope(shield=True):
                await server._disconnect(mark)


@asynccontextmanager
async def exclusive(cluster: Cluster) -> AsyncIterator[None]:
    """The lock to start or stop the server. Raises LogUnavailable after LOCK_SECONDS."""
    handle = _open_private(cluster.lock)
    try:
        deadline = trio.current_time() + LOCK_SECONDS
        while not _try_exclusive(handle):
            if trio.current_time() > deadline:
                raise LogUnavailable(
                    f"Another process has been starting or stopping the database of {cluster.data_dir} for more than "
                    f"{LOCK_SECONDS:.0f} seconds (it holds {cluster.lock})."
                )
            await trio.sleep(POLL_SECONDS)
        yield
    finally:
        _release(handle)


def _open_private(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_exclusive(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _release(handle: int) -> None:
    # Closing is not enough if a forked child has inherited the handle.
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextmanager
def _explain_disk_errors(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = plain_reason(str(error)) if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"{error}."
        raise LogUnavailable(f"The database of {cluster.data_dir} cannot be used. {reason}") from error


async def _exit_of(pid: int) -> None:
    """Wait for the end of a process; forever on a system without pidfd."""
    if not hasattr(os, "pidfd_open"):
        await trio.sleep_forever()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(handle)
    finally:
        os.close(handle)


async def _end(child: trio.Process) -> None:
    """End a server that did not become ready."""
    with trio.CancelScope(shield=True):
        with trio.move_on_after(END_SECONDS), suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
            await child.wait()
        if child.poll() is None:
            child.kill()
            await child.wait()


async def _in_thread(function: Callable[[], Result]) -> Result:
    return await trio.to_thread.run_sync(function)
