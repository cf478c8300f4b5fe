"""A process that a server starts when somebody asks at its socket, and again when that ended.

It takes what comes at a Unix socket that is ours, where only we can enter; so what comes while it starts waits there,
and one that ends is followed by another.
"""

import logging
import socket
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Never

import attrs
import trio

from mnemosyne.backoff import backoff

log = logging.getLogger(__name__)

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
