"""Processes that a server starts on demand and restarts after their end: for pages, and for commands that read the log
(``mnemosyne.handover``).

The server owns a private Unix socket on which the process accepts connections; connections wait there while the process
starts or is replaced.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Never

import attrs
import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.backoff import backoff
from mnemosyne.handover import socket_path
from mnemosyne.http.inspector.passing import PagePasser

log = logging.getLogger(__name__)

PAGES = (sys.executable, "-P", "-m", "mnemosyne", "open", "--at-socket")
"""-P: do not import modules from the working directory, which is untrusted."""

COMMANDS = (sys.executable, "-P", "-m", "mnemosyne.cli.handed")

WAITING = 64
"""Backlog of a socket."""

DSN_SECONDS = 2.0
"""How long the start of the page process waits for the server's database."""

PAUSE_SECONDS, LONGEST_PAUSE = 1.0, 30.0
"""Delay before a restart on demand; repeated failures back off up to LONGEST_PAUSE."""

STEADY_SECONDS = 30.0
"""A process that ran this long is restarted after PAUSE_SECONDS."""


@attrs.frozen(kw_only=True)
class ProcessOnDemand:
    """Starts a process whenever a connection waits at ``listener``, whose file descriptor is the last argument of
    ``command``. ``purpose`` is for log messages; ``environ`` returns the variables for each start.
    """

    purpose: str
    command: Sequence[str]
    listener: socket.socket
    environ: Callable[[], Awaitable[Mapping[str, str]]]

    async def run(self) -> Never:
        """Start the process whenever a connection waits, until cancelled; then end it."""
        pauses = backoff(PAUSE_SECONDS, LONGEST_PAUSE)
        while True:
            await trio.lowlevel.wait_readable(self.listener)
            began = trio.current_time()
            await self._run(await self.environ())
            if trio.current_time() - began > STEADY_SECONDS:
                pauses = backoff(PAUSE_SECONDS, LONGEST_PAUSE)
            await trio.sleep(next(pauses))

    async def _run(self, environ: Mapping[str, str]) -> None:
        number = self.listener.fileno()
        try:
            process = await trio.lowlevel.open_process(
                [*self.command, str(number)],
                stdin=subprocess.PIPE,  # closes when this process ends
                env=environ,
                pass_fds=(number,),
                process_group=0,  # keeps Ctrl-C away from it
            )
        except OSError as error:
            log.warning("The process for %s cannot be started: %s.", self.purpose, error)
            return
        assert process.stdin is not None
        try:
            await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                process.kill()
                await process.wait()
                await process.stdin.aclose()
        if process.returncode:
            log.warning("The process for %s ended with exit code %d.", self.purpose, process.returncode)


@asynccontextmanager
async def open_pages(
    environ: Mapping[str, str], dsn: Callable[[], Awaitable[str]], token: str, tasks: trio.Nursery
) -> AsyncIterator[PagePasser | None]:
    """Start the page process on demand; return the PagePasser, or None if no socket can be created, which does not stop
    the server. ``dsn`` waits for the database's DSN; ``environ`` has the settings as variables.
    """

    async def with_database() -> Mapping[str, str]:
        """Add the open database's DSN; without one, the pages report why."""
        with trio.move_on_after(DSN_SECONDS):
            return {**environ, "MNEMOSYNE_DSN": await dsn()}
        return environ

    with ExitStack() as stack:
        try:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemosyne-"))) / "pages"
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.setblocking(False)
            listener.bind(str(path))
            listener.listen(WAITING)
        except OSError as error:
            log.warning("Pages are unavailable: cannot create their socket: %s.", error)
            yield None
            return
        async with HttpUpstream("http://localhost", socket=path) as upstream:
            maker = ProcessOnDemand(purpose="the pages", command=PAGES, listener=listener, environ=with_database)
            tasks.start_soon(maker.run)
            yield PagePasser(upstream, token)


@asynccontextmanager
async def open_commands(data_dir: Path, environ: Mapping[str, str], tasks: trio.Nursery) -> AsyncIterator[None]:
    """Accept handed-over commands; if no socket can be created, commands run in their own processes."""
    path = socket_path(str(data_dir))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        try:
            _bind(listener, path)
        except OSError as error:
            log.info("Commands will be slower: cannot create their socket: %s.", error)
            yield
            return
        ours = os.stat(path).st_ino

        async def variables() -> Mapping[str, str]:
            return environ

        forker = ProcessOnDemand(purpose="commands", command=COMMANDS, listener=listener, environ=variables)
        tasks.start_soon(forker.run)
        try:
            yield
        finally:
            with suppress(OSError):
                if os.stat(path).st_ino == ours:  # another server may have replaced it
                    os.unlink(path)


def _bind(listener: socket.socket, path: str) -> None:
    """Listen at ``path``, replacing any other listener. Raises OSError."""
    draft = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    listener.bind(draft)
    try:
        os.chmod(draft, 0o600)
        listener.listen(WAITING)
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise
