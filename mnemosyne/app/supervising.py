"""A server's worker: started, watched, started again, and never waited for.

It is a process of its own. Its stdin ends when we do, however we do, and so does it (``worker.py``).
"""

import logging
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Never

import trio

from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.adapters.postgres.reconnecting_log import ReconnectingLog
from mnemosyne.app.worker_link import Line, WorkerStatus, answer_worker
from mnemosyne.backoff import backoff
from mnemosyne.errors import LogFailed

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "mnemosyne", "worker", "--under-server")
"""-P: nobody vouches for the working directory, and Python would import from it."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a worker that ended is started again."""

STEADY_SECONDS = 30.0
"""A worker that lived so long is started again soon; one that keeps ending waits, up to LONGEST_PAUSE."""

SILENT_SECONDS = 5.0
"""A worker that says nothing for so long is said to hang."""

HUNG_SECONDS, START_SECONDS = 60.0, 300.0
"""Without a word for so long, since the last one or since its start, it is ended and another one started."""

WATCH_SECONDS = 1.0

STOP_SECONDS = 2.0
"""How long it may take to end when it is told to; then it is killed."""

LAG_SECONDS = 1.0
"""How long the database may take to say how far behind it is."""


class Supervisor:
    """Keeps a worker running that follows an open log, for the sessions of this process. ``environ`` holds the settings
    as variables.
    """

    def __init__(
        self,
        event_log: ReconnectingLog,
        sessions: LoadedSessions,
        environ: Mapping[str, str],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._log = event_log
        self._sessions = sessions
        self._environ = environ
        self._command = command
        self._heard: WorkerStatus | None = None
        self._process: trio.Process | None = None
        self._ended_at = trio.current_time()
        self._restarts = 0

    async def describe(self) -> dict[str, object]:
        """How it does, for people.

        ``state`` is ``working``, ``standing by`` (another one works), ``starting``, ``hung`` or ``not running``;
        ``seconds``, since when it hangs or is not running. ``events_behind`` and ``seconds_behind`` say how far what is
        derived is behind the log, and ``seconds_held`` for how long an append has been under way that what came after
        it waits for, and ``damaged_sessions`` how many could not be taken in whole; they are missing where the database
        does not say in time.
        """
        told: dict[str, object] = {**self._state(), "restarts": self._restarts}
        with trio.move_on_after(LAG_SECONDS), suppress(LogFailed):
            found = await self._log.lag()
            told |= {"events_behind": found.events, "seconds_behind": round(found.seconds, 1)}
            told |= {"seconds_held": round(found.held, 1), "damaged_sessions": found.damaged}
        return told

    def _state(self) -> dict[str, object]:
        now = trio.current_time()
        if self._heard is None:
            return {"state": "not running", "seconds": round(now - self._ended_at, 1)}
        if not self._heard.began:
            return {"state": "starting", "seconds": 0.0}
        if (silent := now - self._heard.at) > SILENT_SECONDS:
            return {"state": "hung", "seconds": round(silent, 1)}
        return {"state": "working" if self._heard.leads else "standing by", "seconds": 0.0}

    def restart(self) -> None:
        """Have another one begin anew, with what its settings are by then."""
        if self._process is not None:
            self._process.terminate()

    async def run(self) -> Never:
        """Keep one running until cancelled; then it is ended, too."""
        pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            dsn, began = await self._log.dsn(), trio.current_time()
            try:
                how = await self._run({**self._environ, "MNEMOSYNE_DSN": dsn})
            except Exception:
                log.exception("the worker could not be kept running")  # no session shall end by it
                how = "an error of ours"
            self._ended_at = trio.current_time()
            if self._ended_at - began > STEADY_SECONDS:
                pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
            pause = next(pauses)
            log.warning("The worker ended (%s). What is derived waits for the next one, in %g s.", how, pause)
            await trio.sleep(pause)
            self._restarts += 1

    async def _run(self, environ: Mapping[str, str]) -> str:
        """One worker, from its start to its end; how that was."""
        try:
            process = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.PIPE,  # ends when we do
                stdout=subprocess.PIPE,
                env=environ,
                # Ctrl-C is for us. Not a session of its own: Linux shares processors out among sessions first, and a
                # nice process of another session takes as much as the whole of ours.
                process_group=0,
            )
        except OSError as error:
            return f"it cannot be started: {error}"
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._heard = process, (heard := WorkerStatus())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_watch, process, heard)
                nursery.start_soon(answer_worker, Line(process.stdin, process.stdout), self._sessions, heard)
                await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._process = self._heard = None
            with trio.CancelScope(shield=True):
                await _end(process)
        return _how(process.returncode)


async def _watch(process: trio.Process, heard: WorkerStatus) -> None:
    """Kill a worker that hangs."""
    while True:
        await trio.sleep(WATCH_SECONDS)
        silent = trio.current_time() - heard.at
        if silent > (HUNG_SECONDS if heard.began else START_SECONDS):
            log.warning("The worker has said nothing for %d s; another one takes its place.", silent)
            process.kill()
            return


async def _end(process: trio.Process) -> None:
    """Tell a process to end, and see to it. It may have ended already."""
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.aclose()
    for stop in (process.terminate, process.kill):
        if process.poll() is None:
            stop()
            with trio.move_on_after(STOP_SECONDS):
                await process.wait()
    await process.stdout.aclose()


def _how(code: int | None) -> str:
    if code is None:
        return "it cannot be ended"
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
