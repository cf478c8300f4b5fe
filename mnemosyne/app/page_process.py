"""The process that makes the pages: started when somebody asks for one, ended by itself when nobody has for a while."""

import logging
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import trio

from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.on_demand import ProcessOnDemand
from mnemosyne.http.inspector.passing import PagePasser

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "mnemosyne", "open", "--at-socket")
"""-P: nobody vouches for the working directory, and Python would import from it."""

WAITING = 64
"""So many requests wait at the socket."""

DSN_SECONDS = 2.0
"""How long its start waits for the server's database."""


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
            maker = ProcessOnDemand(purpose="the pages", command=COMMAND, listener=listener, environ=with_database)
            tasks.start_soon(maker.run)
            yield PagePasser(upstream, token)
