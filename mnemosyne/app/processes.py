"""The supervisor of several server processes on one address, with the worker and the pages that they share.

It accepts connections, and hands each one over to the process that owns the session of its first request (ADR 103). It
reads no more than that request's head, restarts a process that ends, and runs the worker and the pages.
"""

import logging
import os
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from mnemosyne.actors.helper_work import HelperRequest
from mnemosyne.actors.messages import HelperDone, Identity
from mnemosyne.adapters.helpers.opening import check_helper
from mnemosyne.adapters.postgres.leading import Lag
from mnemosyne.app.helping import RemoteSessions, ServedSessions
from mnemosyne.app.launch import as_variables
from mnemosyne.app.on_demand import keep_pages, pages_at
from mnemosyne.app.policies import load_policy
from mnemosyne.app.process_link import ProcessPlace
from mnemosyne.app.reloading import ends_at_hangup, has_terminal
from mnemosyne.app.settings import settings_of
from mnemosyne.app.supervising import FIRST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS, Supervisor, run_child, state_of
from mnemosyne.app.worker_link import Line, WorkerStatus, answer_worker
from mnemosyne.backoff import backoff
from mnemosyne.bounded import Lru
from mnemosyne.config import Config, databases_of
from mnemosyne.data_dir import prepare_data_dir
from mnemosyne.domain.helper.answer import HelperQuestion
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.wire.exchange import UpstreamRequest
from mnemosyne.errors import BadConfiguration, LogUnavailable, MnemosyneError, ServerDidNotStart
from mnemosyne.http.inspector.status import OWNER_PATH
from mnemosyne.http.messages_route import is_of_session
from mnemosyne.http.serving import KEEP_ALIVE_SECONDS, bind, listen_at, url_of
from mnemosyne.http.sharing import UNNAMED, History, hand_over, names_of, peek

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "mnemosyne", "serve", "--place")
"""-P: do not import modules from the working directory, which is untrusted."""

OWNERS_HELD = 16_384
"""Maximum number of sessions whose owner is remembered."""

HUNG_SECONDS = 20.0
"""A process that has sent no message for this long is replaced. Its sessions move to the others earlier, when it is
reported as hung (``supervising.SILENT_SECONDS``)."""

LOOK_SECONDS = 0.5
"""Interval between checks for hung processes."""

ASK_SECONDS = 1.0
"""Maximum wait for the answer of a process."""

HISTORY_SECONDS = 5.0
"""Maximum wait for shards to report whether they hold a request's history. Elsewhere its thinking may be refused."""

LONGEST_FOLDER = 80
"""Bytes of the path of the sockets' folder; that of a socket has at most 107 on Linux and 103 on macOS."""

MOST_STARTS = 3
"""Failed starts of a process after which the supervisor ends too, unless another process runs."""

OF_PROCESSES = frozenset({"ready", "leave", "find_owner", "worker", "restart_worker", "use_database", "list_processes"})
"""The methods of ``_Asked`` that a process may call."""


@attrs.frozen
class Owners:
    """The process that owns each session. A session keeps its owner as long as that process takes requests."""

    _held: Lru[str, int] = attrs.field(factory=lambda: Lru(OWNERS_HELD), init=False)

    def find(self, session: str, agent: str, there: Collection[int], asking: int | None = None) -> int:
        """Return the number of the process that owns a session. A new session goes to a process with the fewest, if
        possible to the one that is ``asking``. Later requests may have only the name of its ``agent``.
        """
        owner = self._held.get(session)
        if owner is None or owner not in there:
            counts = Counter(self._held.values())
            owner = self._held.put(session, min(there, key=lambda each: (counts[each], each != asking, each)))
        if agent != session:
            self._held.put(agent, owner)
        return owner


@attrs.define
class _Running:
    """A server process that was started; ``is_ready``: it takes requests."""

    process: trio.Process
    status: WorkerStatus
    remote: RemoteSessions
    is_ready: bool = False
    is_leaving: bool = False
    """Whether it has stopped serving and only has to close its database."""

    @property
    def state(self) -> str:
        if not self.is_ready:
            return "starting"
        return "hung" if state_of(self.status)["state"] == "hung" else "running"


@attrs.define
class _Shard:
    """One of the databases that share the sessions, or the only one, with its worker (``supervising.WorkersLog``)."""

    number: int
    environ: Mapping[str, str]
    helped: "HelpedSessions" = attrs.field(factory=lambda: HelpedSessions())
    worker: Supervisor = attrs.field(init=False)
    sessions: int = 0
    """The number of names of sessions that were placed in it."""
    new: dict[str, int] = attrs.field(factory=dict)
    """The rows that its directory lacks."""
    _database: str | None = None
    _has_database: trio.Event = attrs.field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.worker = Supervisor(self, self.helped, self.environ)

    async def dsn(self) -> str:
        """Wait until a process has opened the database; return its DSN."""
        await self._has_database.wait()
        assert self._database is not None
        return self._database

    async def lag(self) -> Lag:
        """Each process reads the lag from its own connection."""
        raise LogUnavailable("this process does not open the log")

    def note_database(self, dsn: str, sessions: int) -> None:
        self._database, self.sessions = dsn, max(sessions, self.sessions)
        self._has_database.set()


@attrs.define
class Processes:
    """Runs ``places`` until a signal stops them."""

    places: Sequence[ProcessPlace]
    listener: socket.socket
    environ: Mapping[str, str]
    command: tuple[str, ...] = COMMAND
    owners: Owners = attrs.field(factory=Owners)
    all_ready: trio.Event = attrs.field(factory=trio.Event)
    _running: dict[int, _Running] = attrs.field(factory=dict)
    _restarts: Counter[int] = attrs.field(factory=Counter)
    _stopping: trio.Event = attrs.field(factory=trio.Event)
    _changed: trio.Event = attrs.field(factory=trio.Event)
    shards: Sequence[_Shard] = attrs.field(init=False)
    _placed: Lru[str, int] = attrs.field(factory=lambda: Lru(OWNERS_HELD))
    _likely: Lru[str, int] = attrs.field(factory=lambda: Lru(OWNERS_HELD))
    """Where a session will be placed, unless its history is in another shard."""
    _handed: int = 0
    _may_restart_worker: bool = False
    _failure: str | None = None
    _all: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _work: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _worker_ended: trio.Event = attrs.field(factory=trio.Event)

    def __attrs_post_init__(self) -> None:
        self.shards = [_Shard(number, self.environ) for number in range(self.places[0].shards)]

    @property
    def there(self) -> frozenset[int]:
        """The processes that take requests and do not hang."""
        return frozenset(number for number, each in self._running.items() if each.state == "running")

    async def run(self, ready: Callable[[], None]) -> None:
        """Run the processes until SIGTERM or SIGINT, and then until they have ended. Raises ServerDidNotStart."""
        async with trio.open_nursery() as shared:
            shared.start_soon(self._pass_signals)
            shared.start_soon(self._watch)
            shared.start_soon(self._run_workers)
            shared.start_soon(self._announce, ready)
            shared.start_soon(self._accept)
            with self._all:
                async with trio.open_nursery() as nursery:
                    for place in self.places:
                        nursery.start_soon(self._keep, place)
            shared.cancel_scope.cancel()
        if self._failure is not None:
            raise ServerDidNotStart(f"{self._failure} See its log.")

    async def _run_workers(self) -> None:
        try:
            with self._work:
                async with trio.open_nursery() as nursery:
                    for shard in self.shards:
                        nursery.start_soon(shard.worker.run)
        finally:
            self._worker_ended.set()

    async def _announce(self, ready: Callable[[], None]) -> None:
        await self.all_ready.wait()
        log.info("%d processes take requests", len(self.places))
        ready()

    async def _accept(self) -> None:
        """Hand connections over until this process is stopped."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self.listener))
        async with listener, trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._hand_over, [listener])
            await self._stopping.wait()
            nursery.cancel_scope.cancel()

    async def _hand_over(self, connection: trio.SocketStream) -> None:
        async with connection:
            try:
                with trio.move_on_after(KEEP_ALIVE_SECONDS):
                    await self._hand_to_owner(connection.socket)
            except OSError as error:
                log.debug("a connection ended before it was handed over: %s", error)
            except Exception:
                log.exception("a connection could not be handed over and is closed")

    async def _hand_to_owner(self, connection: trio.socket.SocketType) -> None:
        head, gone = await peek(connection), frozenset[int]()
        while head is not None:
            if there := await self._find_there(head, gone):
                place = self.places[self._choose(head, there)]
                with suppress(OSError):
                    await hand_over(connection, place.handed)
                    return
                gone |= {place.number}  # it has just ended or hung
            else:
                gone = frozenset()
                await trio.sleep(LOOK_SECONDS)

    async def _find_there(self, head: UpstreamRequest, gone: frozenset[int]) -> frozenset[int]:
        """Return the processes that may take a connection that begins with this request."""
        if _is_of_session(head):
            return self.of_shard((await self.find_shard(*names_of(head.headers)))[0]) - gone
        return self.there - gone

    def of_shard(self, shard: int, asking: int | None = None) -> frozenset[int]:
        """Return the processes of a shard that take requests, and the one that is ``asking`` if it is one of them."""
        there = self.there if asking is None else self.there | {asking}
        return frozenset(number for number in there if self.places[number].shard == shard)

    async def find_shard(self, session: str, agent: str, history: History | None = None) -> tuple[int, bool]:
        """Return the number of the shard that holds a session, and whether that is final. A new session goes to the
        shard with the longest part of its history, else to the one with the fewest of those that answer; without a
        ``history`` that is not final. Sessions without a name are all in the first.
        """
        if len(self.shards) == 1 or session.startswith(UNNAMED):
            return 0, True
        held = self._placed.get(session)
        found = {} if held is not None else await self._ask_shards(session, history)
        shard = next((place for place, _ in found.values() if place is not None), self._placed.get(session))
        if shard is None:
            least = min(found or range(len(self.shards)), key=lambda each: (self.shards[each].sessions, each))
            likely = self._likely.get(session)
            likely = self._likely.put(session, least) if likely is None else likely
            if history is None or not found:  # where no directory answers, none says that the session is new
                return likely, False
            shared = {each: count for each, (_, count) in found.items() if count}
            shard = max(shared, key=shared.__getitem__, default=likely)
            self._note_place(session, shard)
            found = await self._ask_shards(session, None)
            # Another server may have been faster.
            shard = next((place for place, _ in found.values() if place is not None), shard)
        self._placed.put(session, shard)
        if agent != session and self._placed.get(agent) is None:
            self._note_place(agent, shard)
        return shard, True

    def _note_place(self, name: str, shard: int) -> None:
        """Place a name. Each directory gets the row with the next question to it."""
        self._placed.put(name, shard)
        self.shards[shard].sessions += 1
        for each in self.shards:
            each.new[name] = shard

    async def _ask_shards(self, session: str, history: History | None) -> dict[int, tuple[int | None, int]]:
        """Return each shard's answer about a session (``ServedProcess.find_place``), in order; those that do not answer
        in time are left out.
        """
        found: dict[int, tuple[int | None, int]] = {}

        async def ask(shard: _Shard, remote: RemoteSessions) -> None:
            new = dict(shard.new)
            with suppress(MnemosyneError):
                found[shard.number] = await remote.call("find_place", session, new, history)
                for name in new:
                    shard.new.pop(name, None)

        with trio.move_on_after(HISTORY_SECONDS if history is not None and history[1] else ASK_SECONDS):
            async with trio.open_nursery() as nursery:
                for shard in self.shards:
                    for number in sorted(self.of_shard(shard.number))[:1]:
                        nursery.start_soon(ask, shard, self._running[number].remote)
        return dict(sorted(found.items()))

    def _choose(self, head: UpstreamRequest, there: Collection[int]) -> int:
        """Return the process for a connection that begins with this request."""
        if _is_of_session(head):
            return self.owners.find(*names_of(head.headers), there)
        self._handed += 1
        return sorted(there)[self._handed % len(there)]

    async def _pass_signals(self) -> None:
        ends_with_terminal = ends_at_hangup()
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP and not (ends_with_terminal and not has_terminal()):
                    self._may_restart_worker = True
                else:
                    self._stopping.set()
                for each in self._running.values():
                    with suppress(ProcessLookupError):
                        each.process.send_signal(number)

    async def _keep(self, place: ProcessPlace) -> None:
        """Keep a process running until this one is stopped."""
        pauses, failures = backoff(FIRST_PAUSE, LONGEST_PAUSE), 0
        while not self._stopping.is_set():
            began = trio.current_time()
            was_ready, how = await self._run(place)
            if self._stopping.is_set():
                return
            failures = 0 if was_ready else failures + 1
            if failures >= MOST_STARTS and not self.there:
                self._failure = f"Process {place.number} ended {failures} times before it was ready ({how})."
                self._all.cancel()
                return
            if trio.current_time() - began > STEADY_SECONDS:
                pauses = backoff(FIRST_PAUSE, LONGEST_PAUSE)
            pause = next(pauses)
            moves = len(self.places) > len(self.shards)
            what = (
                f"Its sessions {'move to the others' if moves else 'wait'}" if was_ready else "It had not become ready"
            )
            log.warning("Process %d ended (%s). %s. It is restarted in %g s.", place.number, how, what, pause)
            with trio.move_on_after(pause):
                await self._stopping.wait()
            self._restarts[place.number] += 1

    async def _run(self, place: ProcessPlace) -> tuple[bool, str]:
        """Run a process until it ends; return whether it became ready, and how it ended."""
        started: list[_Running] = []

        async def talk(process: trio.Process, line: Line, status: WorkerStatus) -> None:
            remote = RemoteSessions(line)
            running = self._running[place.number] = _Running(process, status, remote)
            started.append(running)
            if self._stopping.is_set():
                process.terminate()
            log.info("process %d is started (pid %d)", place.number, process.pid)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.shards[place.shard].helped.take_from, remote)
                await answer_worker(line, _Asked(self, place.number, running), status, OF_PROCESSES, remote)
                nursery.cancel_scope.cancel()

        try:
            how = await run_child(
                [*self.command, str(place)],
                self.environ,
                talk,
                f"Process {place.number}",
                HUNG_SECONDS,
            )
        finally:
            self._running.pop(place.number, None)
            self._changed.set()
            for each in started:
                each.remote.end()
        return any(each.is_ready for each in started), how

    async def _watch(self) -> None:
        """Make the processes ask for session owners again whenever a process ends, hangs or recovers."""
        before: frozenset[int] = frozenset()
        while True:
            if (there := self.there) != before:
                for number in before - there:
                    if number in self._running and not self._running[number].is_leaving:
                        log.warning("Process %d does not respond; its sessions move to the others.", number)
                before = there
                await self.ask_all("forget_owners")
            with trio.move_on_after(LOOK_SECONDS):
                await self._changed.wait()
            self._changed = trio.Event()

    def note_ready(self, running: _Running) -> None:
        running.is_ready = True
        self._changed.set()
        if len(self.there) == len(self.places):
            self.all_ready.set()

    async def let_leave(self, running: _Running) -> None:
        """Wait until a process may close the database: the last to close stops an embedded server, so not before the
        worker has ended.
        """
        running.is_leaving = True
        if self._stopping.is_set():
            if all(each.is_leaving for each in self._running.values()):
                self._work.cancel()
            await self._worker_ended.wait()

    def restart_workers(self) -> None:
        """Restart the workers, once for each SIGHUP: all processes ask for it."""
        if self._may_restart_worker:
            self._may_restart_worker = False
            for shard in self.shards:
                shard.worker.restart()

    async def ask_all(self, method: str) -> list[dict[str, Any]]:
        """Describe each process; ``found`` is the result of its ``method``, None if it does not answer in time."""
        found: dict[int, Any] = {}

        async def ask(number: int, remote: RemoteSessions) -> None:
            with suppress(MnemosyneError):
                found[number] = await remote.call(method)

        with trio.move_on_after(ASK_SECONDS):
            async with trio.open_nursery() as nursery:
                for number in self.there:
                    nursery.start_soon(ask, number, self._running[number].remote)
        return [{**self._describe(place.number), "found": found.get(place.number)} for place in self.places]

    def _describe(self, number: int) -> dict[str, Any]:
        running = self._running.get(number)
        state = "not running" if running is None else running.state
        pid = None if running is None else running.process.pid
        return {"number": number, "pid": pid, "state": state, "restarts": self._restarts[number]}


@attrs.frozen
class _Asked:
    """The calls that a process may make to the supervisor."""

    processes: Processes
    number: int
    running: _Running

    async def ready(self) -> None:
        self.processes.note_ready(self.running)

    async def leave(self) -> None:
        await self.processes.let_leave(self.running)

    @property
    def shard(self) -> _Shard:
        return self.processes.shards[self.processes.places[self.number].shard]

    async def find_owner(self, session: str, agent: str, history: History | None) -> tuple[int, bool]:
        shard, is_final = await self.processes.find_shard(session, agent, history)
        there = self.processes.of_shard(shard, self.number)
        if not there:
            raise LogUnavailable("the process for the database of this session is not running")
        return self.processes.owners.find(session, agent, there, self.number), is_final

    async def worker(self) -> Mapping[str, object]:
        return self.shard.worker.state()

    async def restart_worker(self) -> None:
        self.processes.restart_workers()

    async def use_database(self, dsn: str, sessions: int) -> None:
        self.shard.note_database(dsn, sessions)

    async def list_processes(self, method: str) -> list[dict[str, Any]]:
        return await self.processes.ask_all(method)


class HelpedSessions:
    """The orders and questions of all processes, for their one worker (``helping.ServedSessions``)."""

    def __init__(self) -> None:
        self._orders, self._next_order = trio.open_memory_channel[tuple[ServedSessions, HelperRequest]](0)
        self._questions, self._next_question = trio.open_memory_channel[
            tuple[ServedSessions, tuple[int, HelperQuestion, ClientKey | None]]
        ](0)
        self._ordered: Lru[object, ServedSessions] = Lru(OWNERS_HELD)
        self._asked: Lru[int, tuple[ServedSessions, int]] = Lru(OWNERS_HELD)
        self._numbers = 0

    async def take_from(self, remote: ServedSessions) -> None:
        """Take the orders and questions of a process until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pump, remote, remote.wait_for_order, self._orders)
            nursery.start_soon(_pump, remote, remote.wait_for_question, self._questions)

    async def wait_for_order(self) -> HelperRequest:
        remote, request = await self._next_order.receive()
        self._ordered.put(request.identity.stream, remote)
        return request

    async def drop_lost_orders(self) -> None:
        with trio.move_on_after(ASK_SECONDS):
            for remote in {*self._ordered.values()}:
                with suppress(MnemosyneError):  # the process has ended
                    await remote.drop_lost_orders()

    async def tell(self, identity: Identity, done: HelperDone | None) -> bool:
        remote = self._ordered.get(identity.stream)
        if remote is None:
            raise LogUnavailable("the process that ordered this has ended")
        return await remote.tell(identity, done)

    async def wait_for_question(self) -> tuple[int, HelperQuestion, ClientKey | None]:
        remote, (number, question, key) = await self._next_question.receive()
        self._numbers += 1
        self._asked.put(self._numbers, (remote, number))
        return self._numbers, question, key

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        asked = self._asked.pop(number)
        return asked is not None and await asked[0].deliver_answer(asked[1], answer)


def _is_of_session(head: UpstreamRequest) -> bool:
    return head.target == OWNER_PATH or is_of_session(head)


async def _pump(
    remote: ServedSessions, wait: Callable[[], Awaitable[Any]], channel: trio.MemorySendChannel[Any]
) -> None:
    with suppress(MnemosyneError):  # the process has ended
        while True:
            await channel.send((remote, await wait()))


async def run_processes(config: Config, ready: Callable[[str], None]) -> None:
    """Serve with several processes until a signal stops them. ``ready`` gets the URL once all accept requests.

    Raises BadConfiguration, and ServerDidNotStart if they end at once.
    """
    prepare_data_dir(config.data_dir)
    settings_of(config)
    load_policy(config)
    check_helper(config, os.environ)
    listener = bind(config.host, config.port)
    environ = {**os.environ, **as_variables(config)}
    listener.setblocking(False)
    failure: ServerDidNotStart | None = None
    with ExitStack() as stack:
        stack.callback(listener.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemosyne-")))
        if len(os.fsencode(folder)) > LONGEST_FOLDER:
            raise BadConfiguration(f"The path of the folder for sockets, {folder}, is too long: choose another TMPDIR.")
        shards = max(1, len(databases_of(config)))
        count = max(config.processes, shards)
        places = [ProcessPlace(number, count, folder, shards) for number in range(count)]
        processes = Processes(places, listener, environ)
        async with trio.open_nursery() as nursery:
            pages = stack.enter_context(listen_at(pages_at(folder)))
            nursery.start_soon(keep_pages, pages, environ, processes.shards[0].dsn)
            try:
                await processes.run(partial(ready, url_of(listener)))
            except ServerDidNotStart as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
