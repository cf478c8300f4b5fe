"""The process for pages, which a server starts on demand and restarts after its end.

The server owns a private Unix socket on which the process accepts connections; connections wait there while the process
starts or is replaced.
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

import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.backoff import backoff
from mnemosyne.http.inspector.passing import PagePasser
from mnemosyne.http.serving import listen_at

log = logging.getLogger(__name__)

PAGES = (sys.executable, "-P", "-m", "mnemosyne", "open", "--at-socket")
"""-P: do not import modules from the working directory, which is untrusted."""

DSN_SECONDS = 2.0
"""How long the start of the page process waits for the server's database."""

PAUSE_SECONDS, LONGEST_PAUSE = 1.0, 30.0
"""Delay before a restart on demand; repeated failures back off up to LONGEST_PAUSE."""

STEADY_SECONDS = 30.0
"""A process that ran this long is restarted after PAUSE_SECONDS."""


async def keep_pages(listener: socket.socket, environ: Mapping[str, str], dsn: Callable[[], Awaitable[str]]) -> Never:
    """Start the process whenever a connection waits at ``listener``, until cancelled; then end it. ``environ`` has the
    settings as variables, ``dsn`` waits for the database's DSN; without one, the pages report why.
    """
    pauses = backoff(PAUSE_SECONDS, LONGEST_PAUSE)
    while True:
        await trio.lowlevel.wait_readable(listener)
        began, variables = trio.current_time(), environ
        with trio.move_on_after(DSN_SECONDS):
            variables = {**environ, "MNEMOSYNE_DSN": await dsn()}
        await _run_pages(listener.fileno(), variables)
        if trio.current_time() - began > STEADY_SECONDS:
            pauses = backoff(PAUSE_SECONDS, LONGEST_PAUSE)
        await trio.sleep(next(pauses))


async def _run_pages(number: int, environ: Mapping[str, str]) -> None:
    """Run the process at the socket with this file descriptor until it ends."""
    try:
        process = await trio.lowlevel.open_process(
            [*PAGES, str(number)],
            stdin=subprocess.PIPE,  # closes when this process ends
            env=environ,
            pass_fds=(number,),
            process_group=0,  # keeps Ctrl-C away from it
        )
    except OSError as error:
        log.warning("The process for the pages cannot be started: %s.", error)
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
        log.warning("The process for the pages ended with exit code %d.", process.returncode)


@asynccontextmanager
async def open_pages(
    environ: Mapping[str, str], dsn: Callable[[], Awaitable[str]], token: str, tasks: trio.Nursery
) -> AsyncIterator[PagePasser | None]:
    """Start the page process on demand; return the PagePasser, or None if no socket can be created, which does not stop
    the server. ``dsn`` waits for the database's DSN; ``environ`` has the settings as variables.
    """
    with ExitStack() as stack:
        try:
            path = pages_at(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemosyne-"))))
            listener = stack.enter_context(listen_at(path))
        except OSError as error:
            log.warning("Pages are unavailable: cannot create their socket: %s.", error)
            yield None
            return
        tasks.start_soon(keep_pages, listener, environ, dsn)
        async with pass_to_pages(path, token) as pages:
            yield pages


def pages_at(folder: Path) -> Path:
    """The socket of the pages in a private folder."""
    return folder / "pages"


@asynccontextmanager
async def pass_to_pages(path: Path, token: str) -> AsyncIterator[PagePasser]:
    """Pass requests to the page process at a socket."""
    async with HttpUpstream("http://localhost", socket=path) as upstream:
        yield PagePasser(upstream, token)
