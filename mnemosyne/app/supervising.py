"""Supervise the server's worker process: start it, watch it and restart it; no turn waits for it.

The worker ends when its stdin closes, which happens whenever the server ends (``worker.py``).
"""

import logging
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Never, Protocol

import trio

from mnemosyne.adapters.postgres.leading import Lag
from mnemosyne.app.helping import ServedSessions
from mnemosyne.app.worker_link import Line, WorkerStatus, answer_worker
from mnemosyne.backoff import backoff
from mnemosyne.errors import LogFailed

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "mnemosyne", "worker", "--under-server")
"""-P: do not import modules from the working directory, which is untrusted."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a worker is restarted."""

STEADY_SECONDS = 30.0
"""A worker that ran this long is restarted after FIRST_PAUSE; repeated failures back off up to LONGEST_PAUSE."""

SILENT_SECONDS = 5.0
"""A worker without a message for this long is reported as hung."""

HUNG_SECONDS, START_SECONDS = 60.0, 300.0
"""A worker without a message for this long, since the last one or since its start, is replaced."""

WATCH_SECONDS = 1.0

STOP_SECONDS = 2.0
"""How long it may take to end after SIGTERM, before it is killed."""

LAG_SECONDS = 1.0
"""Time limit for reading the worker's lag from the database."""


class WorkersLog(Protocol):
    """``reconnecting_log.ReconnectingLog`` as far as a worker needs it."""

    async def dsn(self) -> str: ...

    async def lag(self) -> Lag: ...


class Supervisor:
    """Keeps a worker running for an open log and its server's sessions. ``environ`` has the settings as variables."""

    def __init__(
        self,
        event_log: WorkersLog,
        sessions: ServedSessions,
        environ: Mapping[str, str],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._log = event_log
        self._sessions = sessions
        self._environ = environ
        self._command = command
        self._status: WorkerStatus | None = None
        self._process: trio.Process | None = None
        self._ended_at = trio.current_time()
        self._restarts = 0

    async def describe(self) -> dict[str, object]:
        """Describe the worker for display.

        ``state`` is ``working``, ``standing by`` (another one works), ``starting``, ``hung`` or ``not running``;
        ``seconds`` is the time since it hung or stopped. ``events_behind`` and ``seconds_behind`` are the read models'
        lag behind the log, ``seconds_held`` the age of an unfinished append that later events wait for, and
        ``damaged_sessions`` the number of sessions that could not be read completely. These are missing if the database
        does not answer in time.
        """
        return {**self.state(), **await describe_lag(self._log)}

    def state(self) -> dict[str, object]:
        """The worker's state without the lag."""
        ended = {"state": "not running", "seconds": round(trio.current_time() - self._ended_at, 1)}
        state = ended if self._status is None else state_of(self._status)
        return {**state, "restarts": self._restarts}

    def restart(self) -> None:
        """Restart the worker, which then reads the current settings."""
        if self._process is not None:
            self._process.terminate()

    async def run(self) -> Never:
        """Keep a worker running until cancelled; then end it."""
        pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            dsn, began = await self._log.dsn(), trio.current_time()
            try:
                how = await self._run({**self._environ, "MNEMOSYNE_DSN": dsn})
            except Exception:
                log.exception("the worker could not be kept running")  # must not end any session
                how = "an internal error"
            self._ended_at = trio.current_time()
            if self._ended_at - began > STEADY_SECONDS:
                pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
            pause = next(pauses)
            log.warning("The worker ended (%s). Read models wait for its restart in %g s.", how, pause)
            await trio.sleep(pause)
            self._restarts += 1

    async def _run(self, environ: Mapping[str, str]) -> str:
        """Run one worker until it ends; return how it ended."""

        async def talk(process: trio.Process, line: Line, status: WorkerStatus) -> None:
            self._process, self._status = process, status
            await answer_worker(line, self._sessions, status)

        try:
            how = await run_child(self._command, environ, talk, "The worker")
        finally:
            self._process = self._status = None
        await self._sessions.drop_lost_orders()
        return how


def state_of(status: WorkerStatus) -> dict[str, object]:
    """Describe a running process by its last message."""
    if not status.began:
        return {"state": "starting", "seconds": 0.0}
    if (silent := trio.current_time() - status.at) > SILENT_SECONDS:
        return {"state": "hung", "seconds": round(silent, 1)}
    return {"state": "working" if status.leads else "standing by", "seconds": 0.0}


async def describe_lag(event_log: WorkersLog) -> dict[str, object]:
    """Describe the lag of the read models; empty if the database does not answer in time."""
    with trio.move_on_after(LAG_SECONDS), suppress(LogFailed):
        lag = await event_log.lag()
        return {
            "events_behind": lag.events,
            "seconds_behind": round(lag.seconds, 1),
            "seconds_held": round(lag.held, 1),
            "damaged_sessions": lag.damaged,
        }
    return {}


async def run_child(
    command: Sequence[str],
    environ: Mapping[str, str],
    talk: Callable[[trio.Process, Line, WorkerStatus], Awaitable[None]],
    what: str,
    hung_seconds: float | None = None,
) -> str:
    """Run a process until it ends; return how it ended. ``talk`` gets the line to it. It is killed after
    ``hung_seconds`` (default: HUNG_SECONDS) without a message.
    """
    try:
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,  # closes when this process ends
            stdout=subprocess.PIPE,
            env=environ,
            # Keeps Ctrl-C away from it. Not a new session: Linux divides CPU time among sessions first, so a nice
            # process in another session would get as much as all of the server's.
            process_group=0,
        )
    except OSError as error:
        return f"it cannot be started: {error}"
    assert process.stdin is not None
    assert process.stdout is not None
    status = WorkerStatus()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, process, status, what, hung_seconds or HUNG_SECONDS)
            nursery.start_soon(talk, process, Line(process.stdin, process.stdout), status)
            await process.wait()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await _end(process)
    return _how(process.returncode)


async def _watch(process: trio.Process, status: WorkerStatus, what: str, hung_seconds: float) -> None:
    """Kill a process that hangs."""
    while True:
        began = trio.current_time()
        await trio.sleep(WATCH_SECONDS)
        now = trio.current_time()
        if now - began > hung_seconds / 2:  # this process was stopped, so it could not hear of the other
            status.at = now
        silent = now - status.at
        if silent > (hung_seconds if status.began else START_SECONDS):
            log.warning("%s has not responded for %d s and is replaced.", what, silent)
            process.kill()
            return


async def _end(process: trio.Process) -> None:
    """End a process, by force if necessary. It may have ended already."""
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
