"""One of several server processes on one address: its sockets, and its connection to the supervisor that started it.

The supervisor (``processes.py``) accepts the connections, runs the worker and the pages for all processes, and knows
which process owns each session.
"""

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Never, Self

import attrs
import trio

from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.adapters.postgres.placements import count_places, find_place
from mnemosyne.adapters.postgres.reconnecting_log import ReconnectingLog
from mnemosyne.adapters.upstream import HttpUpstream
from mnemosyne.app.supervising import WorkersLog, describe_lag
from mnemosyne.app.worker_link import BEAT_SECONDS, OF_SESSIONS, Line, Remote, WorkerStatus, answer_worker, stdio_line
from mnemosyne.errors import LogUnavailable, MnemosyneError
from mnemosyne.http.serving import listen_at
from mnemosyne.http.sharing import HANDED, History, Sharing

OF_PROCESS = OF_SESSIONS | {"state", "values", "forget_owners", "find_place"}
"""The methods of ``ServedProcess``."""

LEAVING_SECONDS = 10.0
"""How long a process that stops waits for the others and for the worker."""

Values = Mapping[str, Any]


@attrs.frozen
class ProcessPlace:
    """A process's number among ``count``, and the private folder of their sockets."""

    number: int
    count: int
    folder: Path
    shards: int = 1
    """The number of databases that share the sessions; each process uses one."""

    @classmethod
    def parse(cls, text: str) -> Self:
        number, count, shards, folder = text.split(",", 3)
        return cls(int(number), int(count), Path(folder), int(shards))

    def __str__(self) -> str:
        return f"{self.number},{self.count},{self.shards},{self.folder}"

    @property
    def shard(self) -> int:
        """The number of its database among the shards."""
        return self.number % self.shards

    @property
    def handed(self) -> Path:
        """The socket on which it receives connections."""
        return self.folder / f"{HANDED}{self.number}"

    def socket_for(self, number: int) -> Path:
        """The socket on which a process receives the requests that others pass on."""
        return self.folder / f"passed{number}"


class ServedProcess(LoadedSessions):
    """The calls that the supervisor may make to a process. ``state`` and ``values`` describe that process."""

    def __init__(self, registry: SessionRegistry, sharing: Sharing, event_log: ReconnectingLog) -> None:
        super().__init__(registry)
        self._sharing = sharing
        self._log = event_log
        self.describe: Callable[[], Values] = dict
        self.measure: Callable[[], Values] = dict

    async def state(self) -> Values:
        return self.describe()

    async def values(self) -> Values:
        return self.measure()

    async def forget_owners(self) -> None:
        self._sharing.forget_owners()

    async def find_place(self, session: str, new: Mapping[str, int], history: History | None) -> tuple[int | None, int]:
        """See ``placements.find_place``; and how much of the history a session here shares, in messages. Raises
        LogFailed.
        """
        database = self._log.current().database
        if self._log.is_away():
            raise LogUnavailable("the database does not answer")
        place = await find_place(database, session, new)
        if place is not None or history is None or not history[1]:
            return place, 0
        return None, await self._log.count_shared(*history)


class SharedWorker:
    """The one worker of several processes, like ``supervising.Supervisor``."""

    def __init__(self, remote: Remote, event_log: WorkersLog, tasks: trio.Nursery) -> None:
        self._remote = remote
        self._log = event_log
        self._tasks = tasks

    async def describe(self) -> dict[str, object]:
        return {**await self._remote.call("worker"), **await describe_lag(self._log)}

    def restart(self) -> None:
        self._tasks.start_soon(self._remote.call, "restart_worker")


@attrs.frozen
class ServerProcess:
    """This process as one of several."""

    place: ProcessPlace
    remote: Remote
    sharing: Sharing
    served: ServedProcess
    line: Line

    async def run(self, event_log: ReconnectingLog) -> None:
        """Serve the supervisor until it ends, which ends this process as SIGTERM does."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._beat)
            nursery.start_soon(self._report_database, event_log)
            await answer_worker(self.line, self.served, WorkerStatus(), OF_PROCESS, self.remote)
            self.remote.end()
            os.kill(os.getpid(), signal.SIGTERM)

    async def be_ready(self) -> None:
        """Report that this process takes requests."""
        await self.remote.call("ready")

    async def leave(self) -> None:
        """Wait until this process may close the database: the worker still uses it."""
        with trio.move_on_after(LEAVING_SECONDS), suppress(MnemosyneError):
            await self.remote.call("leave")

    async def _beat(self) -> Never:
        while True:
            await self.remote.beat(True)
            await trio.sleep(BEAT_SECONDS)

    async def _report_database(self, event_log: ReconnectingLog) -> None:
        dsn, sessions = await event_log.dsn(), 0
        if self.place.shards > 1:
            with suppress(MnemosyneError):
                sessions = await count_places(event_log.current().database)
        await self.remote.call("use_database", dsn, sessions)

    def listen(self) -> socket.socket:
        """Listen for requests that other processes pass on."""
        return listen_at(self.place.socket_for(self.place.number))

    async def gather(self, own: Values) -> dict[str, object]:
        """Merge this process's state with those of the others, and list all processes."""
        processes: list[dict[str, Any]] = await self.remote.call("list_processes", "state")
        there = [own, *(each["found"] for each in processes if each["found"] and each["number"] != self.place.number)]
        listed = [{name: value for name, value in each.items() if name != "found"} for each in processes]
        return {**merge(there), "processes": listed}

    async def gather_values(self) -> Mapping[int, Values]:
        """The metrics of each process that answers."""
        return {
            each["number"]: each["found"]
            for each in await self.remote.call("list_processes", "values")
            if each["found"]
        }


@asynccontextmanager
async def join(
    place: ProcessPlace, registry: SessionRegistry, progress: Any, event_log: ReconnectingLog
) -> AsyncIterator[ServerProcess]:
    """Open this process's connections to the others."""
    line = stdio_line()
    remote = Remote(line)
    async with AsyncExitStack() as stack:
        others = {
            number: await stack.enter_async_context(HttpUpstream("http://localhost", socket=place.socket_for(number)))
            for number in range(place.count)
            if number != place.number
        }

        async def find_owner(session: str, agent: str, history: History | None) -> tuple[int, bool]:
            owner: tuple[int, bool] = await remote.call("find_owner", session, agent, history)
            return owner

        sharing = Sharing(place.number, others, find_owner, progress, place.shards)
        yield ServerProcess(place, remote, sharing, ServedProcess(registry, sharing, event_log), line)


_WORST: Mapping[str, Callable[[Any], Any]] = {"seconds": max, "state": min, "problem": min}
"""How to merge values that are not counts; ``not answering`` sorts before ``there``."""


def merge(states: Sequence[Values]) -> dict[str, Any]:
    """Sum the counts that several processes report, and keep the worst of their other values."""
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(each for state in states for each in state):
        values = [state[name] for state in states if state.get(name) is not None]
        if values and isinstance(values[0], Mapping):
            merged[name] = merge(values)
        else:
            merged[name] = _WORST.get(name, sum)(values) if values else None
    return merged
