"""The embedded PostgreSQL, the default database: found or started for whoever comes, stopped by whoever leaves last.

``open_embedded`` is all that others need. Any number of processes may use one data directory at once, a proxy and a
reading command for instance; none of them is special:

* Coming and going happens under an exclusive lock, so two processes that begin on an empty directory make one cluster.
* While it uses the server a process holds a shared lock on a second file. The one that can turn it into an exclusive
  lock was the last, and stops the server. Locks of a killed process vanish with it: the server that it leaves behind is
  adopted by the next one who comes, and stopped when that one leaves.
* Each process watches the server. If it dies under them, the first to notice starts it again, the others adopt it.

The files, the account that the server runs as, and who may connect: ``cluster.py``. Where the programs
come from: ``programs.py``.
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
from mnemosyne.errors import LogUnavailable, MnemosyneError

log = logging.getLogger(__name__)
Result = TypeVar("Result")

READY_SECONDS = 120.0
"""How long a start may take. Usually it is 0.1 s; after a crash the server first reads up to 256 MB of its journal."""

STOP_SECONDS = 60.0
LOCK_SECONDS = 2 * READY_SECONDS
END_SECONDS = 10.0
POLL_SECONDS = 0.01
WATCH_SECONDS = 0.5
STEADY_SECONDS = 10.0
"""A server that lived this long is restarted at once; one that keeps dying waits, up to LONGEST_PAUSE."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0

START_PAUSES = (0.0, 0.1, 0.4, 1.5)
"""A start may fail because the processes of a killed server are still on their way out; so it is tried again."""

_left_to_others: list[trio.Process] = []
"""Servers that we started and that others still use, kept because subprocess warns about a forgotten child."""


class _EndedAtOnce(LogUnavailable):
    """The one failure of a start that is worth another try."""


class EmbeddedServer:
    """The server as one of its users sees it. Made by ``open_embedded``."""

    dsn: str
    """How to connect, in libpq's keyword form; the same for as long as the context is open, restarts included."""

    adopted: bool
    """Whether it was running already when we came."""

    restarts: int
    """How often it died under our hands and came back."""

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
        """The server's main process."""
        return self._pid

    # Everything below to `stop` is called under the exclusive lock.

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
        """The running server, once it is neither starting nor stopping; None if there is none."""
        with trio.move_on_after(READY_SECONDS):
            while True:
                postmaster = await _in_thread(self._cluster.postmaster)
                if postmaster is None or postmaster.ready:
                    return postmaster
                await trio.sleep(POLL_SECONDS)
        raise LogUnavailable(
            f"The database server of {self._cluster.data_dir} has been starting or stopping for {READY_SECONDS:.0f} "
            f"seconds. {await _in_thread(lambda: self._cluster.last_words(0))}"
        )

    async def _start(self) -> None:
        await self._refuse_if_it_lives_elsewhere()
        await _in_thread(self._cluster.finish_upgrade)
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
                start_new_session=True,  # Ctrl-C in our terminal is not meant for it
                **self._account.spawn_options(),
            )
        try:
            await self._until_ready(child, size)
        except BaseException:
            await _end(child)
            raise
        self._child, self._pid = child, child.pid

    async def _refuse_if_it_lives_elsewhere(self) -> None:
        """Two servers on the same files would destroy them, and one in another container is invisible, but answers."""
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
        words = await _in_thread(lambda: self._cluster.last_words(log_size))
        if child.poll() is None:
            raise LogUnavailable(f"{server} did not become ready in {READY_SECONDS:.0f} seconds. {words}")
        raise _EndedAtOnce(f"{server} ended at once. {words}")

    async def stop(self) -> None:
        postmaster = await _in_thread(self._cluster.postmaster)
        if postmaster is None:
            return
        with trio.move_on_after(STOP_SECONDS):
            with suppress(ProcessLookupError):
                os.kill(postmaster.pid, signal.SIGINT)  # PostgreSQL's fast shutdown: no waiting for its clients
            await self._wait_until_gone(postmaster.pid)
            return
        log.warning("The database server (process %d) is still stopping; nobody waits for it.", postmaster.pid)

    # Called at any time.

    async def _wait_until_gone(self, pid: int) -> None:
        if self._child is not None and self._child.pid == pid:
            await self._child.wait()
            return
        while (postmaster := await _in_thread(self._cluster.postmaster)) is not None and postmaster.pid == pid:
            with trio.move_on_after(WATCH_SECONDS):
                await _exit_of(pid)

    async def _watch(self) -> None:
        """Bring the server back whenever it dies."""
        pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            since = trio.current_time()
            await self._wait_until_gone(self._pid)
            if trio.current_time() - since > STEADY_SECONDS:
                pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
            log.warning("The database server (process %d) died; it is being started again.", self._pid)
            for pause in pauses:
                back = await self._restart()
                self.restarts += back
                await trio.sleep(pause)  # one that dies at once must not be restarted without end at full speed
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

    async def _leave(self, mark: "UserMark") -> None:
        try:
            async with exclusive(self._cluster):
                if mark.is_the_last():
                    await self.stop()
                mark.remove()
        except (MnemosyneError, OSError) as error:
            log.warning("The database server was not stopped: %s", error)
            mark.remove()
        if self._child is not None and self._child.poll() is None:
            _left_to_others.append(self._child)


class UserMark:
    """The shared lock that says: this process uses the server. The kernel removes it when the process dies."""

    def __init__(self, cluster: Cluster) -> None:
        self._handle = _open_private(cluster.users)
        # Does not block: it is held exclusively only by who holds the other lock, and that is our caller.
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def is_the_last(self) -> bool:
        return _try_exclusive(self._handle)

    def remove(self) -> None:
        if self._handle >= 0:
            _release(self._handle)
            self._handle = -1


@asynccontextmanager
async def open_embedded(data_dir: Path) -> AsyncIterator[EmbeddedServer]:
    """Use the server of ``data_dir``: made, started or adopted as needed, watched, and stopped if nobody else uses it.

    Raises BadConfiguration if the directory cannot be used, DatabaseUnfit if its files or this machine do not fit,
    LogUnavailable if the server does not start: the disk is full, another process holds the lock, ….
    """
    _left_to_others[:] = [child for child in _left_to_others if child.poll() is None]
    cluster = await _in_thread(lambda: Cluster.at(data_dir))
    with explain_disk_errors(cluster):
        await _in_thread(cluster.make_data_dir)
        account = await _in_thread(cluster.account)
    with client_address(cluster.folder) as host:
        server = EmbeddedServer(cluster, account, host)
        async with _in_use(server, cluster):
            # A nursery wraps what is raised inside it in a group; users of the database know nothing of our nursery.
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
    mark: UserMark | None = None
    try:
        with explain_disk_errors(cluster):
            async with exclusive(cluster):
                mark = UserMark(cluster)
                await server.ensure_running()
        yield
    finally:
        if mark is not None:
            with trio.CancelScope(shield=True):
                await server._leave(mark)


@asynccontextmanager
async def exclusive(cluster: Cluster) -> AsyncIterator[None]:
    """Only one process at a time starts or stops the server. Waiting can be cancelled, and ends."""
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
    # Closing is not enough where a forked child has inherited the handle.
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextmanager
def explain_disk_errors(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = plain_reason(str(error)) if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"{error}."
        raise LogUnavailable(f"The database of {cluster.data_dir} cannot be used. {reason}") from error


async def _exit_of(pid: int) -> None:
    """Return when the process has ended; where the system cannot tell, never."""
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
    """End a server that did not become ready, so that no start leaves one behind."""
    with trio.CancelScope(shield=True):
        with trio.move_on_after(END_SECONDS), suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
            await child.wait()
        if child.poll() is None:
            child.kill()
            await child.wait()


async def _in_thread(function: Callable[[], Result]) -> Result:
    return await trio.to_thread.run_sync(function)
