"""Processes that a server starts when somebody asks at their sockets, and again when they ended: for pages, and for
commands that read the log (``mnemosyne.handover``).

Such a process takes what comes at a Unix socket that is ours, where only we can enter; so what comes while it starts
waits there, and one that ends is followed by another.
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
"""-P: nobody vouches for the working directory, and Python would import from it."""

COMMANDS = (sys.executable, "-P", "-m", "mnemosyne.cli.handed")

WAITING = 64
"""So many requests or commands wait at a socket."""

DSN_SECONDS = 2.0
"""How long the start of the pages waits for the server's database."""

PAUSE_SECONDS, LONGEST_PAUSE = 1.0, 30.0
"""How soon one that ended is followed by another, if somebody asks; later each time where they keep ending."""

STEADY_SECONDS = 30.0
"""One that lived so long is followed soon."""


@attrs.frozen(kw_only=True)
class ProcessOnDemand:
    """Keeps it there while somebody asks at ``listener``, whose number is the last argument of its command. ``purpose``
    is what it does, for people; ``environ`` gives its variables at each start.
    """

    purpose: str
    command: Sequence[str]
    listener: socket.socket
    environ: Callable[[], Awaitable[Mapping[str, str]]]

    async def run(self) -> Never:
        """Start one whenever somebody waits, until cancelled; then it is ended, too."""
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
                stdin=subprocess.PIPE,  # ends when we do
                env=environ,
                pass_fds=(number,),
                process_group=0,  # Ctrl-C is for us
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
    """What passes requests for pages on, for as long as the context lasts; None where there can be no socket, which
    keeps no server from serving. ``dsn`` gives the database's, once it is known; ``environ`` holds the settings as
    variables.
    """

    async def with_database() -> Mapping[str, str]:
        """The one that is open already; where none is, the pages say why."""
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
            log.warning("There will be no pages: no socket can be made for them: %s.", error)
            yield None
            return
        async with HttpUpstream("http://localhost", socket=path) as upstream:
            maker = ProcessOnDemand(purpose="the pages", command=PAGES, listener=listener, environ=with_database)
            tasks.start_soon(maker.run)
            yield PagePasser(upstream, token)


@asynccontextmanager
async def open_commands(data_dir: Path, environ: Mapping[str, str], tasks: trio.Nursery) -> AsyncIterator[None]:
    """Take commands for as long as the context lasts; where there can be no socket, they do their work themselves."""
    path = socket_path(str(data_dir))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        try:
            _bind(listener, path)
        except OSError as error:
            log.info("Commands are slower than they could be: no socket can be made for them: %s.", error)
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
                if os.stat(path).st_ino == ours:  # another server of this data directory may have come
                    os.unlink(path)


def _bind(listener: socket.socket, path: str) -> None:
    """Listen there, instead of whoever did. Raises OSError."""
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
