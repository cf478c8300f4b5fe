"""The process that does commands which read the log (``mnemosyne.handover``): started when the first of them asks."""

import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from mnemosyne.app.on_demand import ProcessOnDemand
from mnemosyne.handover import socket_path

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "mnemosyne.cli.handed")

WAITING = 64
"""So many commands wait at the socket."""


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

        forker = ProcessOnDemand(purpose="commands", command=COMMAND, listener=listener, environ=variables)
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
