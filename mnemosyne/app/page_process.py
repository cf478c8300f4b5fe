"""The process that makes the pages: started when somebody asks for one, ended by itself when nobody has for a while.

It takes requests at a Unix socket that is ours, in a directory that only we can enter; so a request that comes while it
starts waits there, and one that ends is followed by another.
"""

import logging
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Never

import attrs
import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.backoff import backoff
from mnemosyne.http.inspector.passing import PagePasser

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "mnemosyne", "open", "--at-socket")
"""-P: nobody vouches for the working directory, and Python would import from it."""

WAITING = 64
"""So many requests wait at the socket."""

PAUSE_SECONDS, LONGEST_PAUSE = 1.0, 30.0
"""How soon one that ended is followed by another, if somebody asks; later each time where they keep ending."""

STEADY_SECONDS = 30.0
"""One that lived so long is followed soon."""

DSN_SECONDS = 2.0
"""How long its start waits for the server's database."""


@attrs.frozen(kw_only=True)
class PageProcess:
    """Keeps the process there while somebody asks for pages at ``listener``. ``dsn`` gives the database's, once it is
    known; ``environ`` holds the settings as variables.
    """

    listener: socket.socket
    environ: Mapping[str, str]
    dsn: Callable[[], Awaitable[str]]

    async def run(self) -> Never:
        """Start one whenever a request waits, until cancelled; then it is ended, too."""
        pauses = backoff(PAUSE_SECONDS, LONGEST_PAUSE)
        while True:
            await trio.lowlevel.wait_readable(self.listener)
            began = trio.current_time()
            await self._run(await self._environ())
            if trio.current_time() - began > STEADY_SECONDS:
                pauses = backoff(PAUSE_SECONDS, LONGEST_PAUSE)
            await trio.sleep(next(pauses))

    async def _environ(self) -> Mapping[str, str]:
        """With the database that is open already; where none is, the pages say why."""
        with trio.move_on_after(DSN_SECONDS):
            return {**self.environ, "MNEMOSYNE_DSN": await self.dsn()}
        return self.environ

    async def _run(self, environ: Mapping[str, str]) -> None:
        number = self.listener.fileno()
        try:
            process = await trio.lowlevel.open_process(
                [*COMMAND, str(number)],
                stdin=subprocess.PIPE,  # ends when we do
                env=environ,
                pass_fds=(number,),
                process_group=0,  # Ctrl-C is for us
            )
        except OSError as error:
            log.warning("The pages cannot be shown: their process cannot be started: %s.", error)
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
            log.warning("The pages' process ended with exit code %d.", process.returncode)


@asynccontextmanager
async def open_pages(
    environ: Mapping[str, str], dsn: Callable[[], Awaitable[str]], token: str, tasks: trio.Nursery
) -> AsyncIterator[PagePasser | None]:
    """What passes requests for pages on, for as long as the context lasts; None where there can be no socket, which
    keeps no server from serving.
    """
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
        async with HttpUpstream("http://pages", socket=path) as upstream:
            tasks.start_soon(PageProcess(listener=listener, environ=environ, dsn=dsn).run)
            yield PagePasser(upstream, token)
