"""A server on the fake network, which may die at any step, and the place for its successors."""

import random
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from contextvars import ContextVar
from uuid import UUID

import attrs
import trio

from campaigns.simulation.database import LogConnection, Weather
from campaigns.simulation.network import ClientWire, MemoryUpstream
from mnemosyne.actors.patience import Patience
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalLimits
from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import LogFailed, VersionConflict
from mnemosyne.http.app import Application
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.gateway import Gateway
from tests.actors.support import CODEC, Process, open_process
from tests.http.proxying import app_of, settings
from tests.http.raw_client import Pairs

ENDING_SECONDS = 60.0
"""How long the end waits for replies to come to theirs, and to be written down."""

SERVER: ContextVar["SimulatedServer | None"] = ContextVar("SERVER", default=None)
"""The server whose task runs."""


@attrs.frozen(kw_only=True)
class Equipment:
    patience: Patience
    window: int | None
    limits: JournalLimits


@attrs.define(eq=False, kw_only=True)
class SimulatedServer:
    name: str
    connection: LogConnection
    upstream: MemoryUpstream
    equipment: Equipment
    clock: Iterator[int]
    new_id: Callable[[], str]
    chance: random.Random
    is_up: bool = False
    is_dead: bool = False
    process: Process | None = None
    progress: RelayProgress = attrs.field(factory=RelayProgress)
    actors: dict[UUID, list[SessionActor]] = attrs.field(factory=dict)
    lost: set[UUID] = attrs.field(factory=set)
    """The sessions of which it took something along."""
    _app: Application | None = None
    _wires: set[ClientWire] = attrs.field(factory=set)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _told: trio.Event = attrs.field(factory=trio.Event)
    gone: trio.Event = attrs.field(factory=trio.Event)
    """Set when another may come in its place."""
    over: trio.Event = attrs.field(factory=trio.Event)
    """Set when nothing of it runs any more."""
    is_ending: bool = False

    async def run(self) -> None:
        """Run until it is stopped or dies."""
        SERVER.set(self)
        with self._scope:
            async with AsyncExitStack() as stack:
                opening = open_process(
                    self.connection,
                    GroupJournal(self.connection, CODEC, self.equipment.limits, on_outcome=self._watch),
                    window=self.equipment.window,
                    patience=self.equipment.patience,
                    clock=self.clock,
                    new_id=self.new_id,
                )
                self.process = await stack.enter_async_context(opening)
                gateway = Gateway(
                    self.upstream, self.process.turns, self.progress, 1 << 24, self.process.opener, Mode.MANAGE
                )
                self._app = app_of(settings("https://provider"), gateway)
                self.is_up = True
                await self._told.wait()
                self.is_up = False
                self.connection.later.start_soon(self._hurry)
        self.gone.set()
        self.over.set()

    async def _hurry(self) -> None:
        with trio.move_on_after(ENDING_SECONDS):
            await self.over.wait()
        if not self.over.is_set() and self.process is not None:
            self.lost |= self.unwritten
            self.process.turns.cancel_scope.cancel()

    def _watch(self, append: Append, size: int, seconds: float, error: LogFailed | None) -> None:
        if error is not None and not isinstance(error, VersionConflict):
            self.lost.add(append.stream)

    def end(self) -> None:
        """As on SIGTERM: no new requests; running ones finish."""
        self.is_up, self.is_ending = False, True
        assert self.process is not None
        self.lost |= set(self.process.registry._gaps)
        self._told.set()

    def die(self) -> None:
        """As by kill -9: nothing that it still does is visible."""
        self.is_up, self.is_dead = False, True
        self.lost |= self.unwritten
        self.connection.cut()
        self.upstream.is_dead = True
        for wire in self._wires:
            wire.cut(by_death=True)
        self._scope.cancel()
        self.gone.set()

    @property
    def unwritten(self) -> set[UUID]:
        """The sessions with knowledge that is not in the log."""
        if self.process is None:
            return set()
        waiting = {ticket.prepared.stream for ticket in self.process.journal._pending}
        registry = self.process.registry
        return waiting | set(registry.reports._of) | set(registry._gaps)

    def connect(self, method: str, target: str, headers: Pairs, body: bytes) -> ClientWire | None:
        """A client's request; None if the connection is refused."""
        if not self.is_up:
            return None
        wire = ClientWire(self.chance)
        assert self.process is not None
        self.process.turns.start_soon(self._serve, wire, method, target, headers, body)
        return wire

    async def _serve(self, wire: ClientWire, method: str, target: str, headers: Pairs, body: bytes) -> None:
        SERVER.set(self)
        assert self._app is not None
        self._wires.add(wire)
        try:
            await wire.serve(self._app, method, target, headers, body)
        finally:
            self._wires.discard(wire)

    def check(self) -> None:
        if self.process is None or self.is_dead:
            return
        limits = self.process.journal._limits
        assert self.process.journal.waiting.bytes <= limits.pending_bytes, "too much waits to be written"
        for stream, actors in self.actors.items():
            running = [each for each in actors if not each._scope.cancel_called]
            assert len(running) <= 1, f"session {stream} has {len(running)} actors in {self.name}"

    def find_unrest(self) -> str | None:
        """The work that is still unfinished although there are no requests."""
        assert self.process is not None
        registry, journal = self.process.registry, self.process.journal
        if self.progress.running:
            return f"{self.progress.running} relays run"
        if journal.waiting.appends:
            return f"{journal.waiting.appends} appends wait, and the database is there"
        if registry.reports._of:
            return "turns have still something to tell"
        full = [each.actor.mailbox.waiting for each in registry._awake.values() if each.actor.mailbox.waiting]
        return f"{len(full)} mailboxes are not empty" if full else None


async def run_in_weathers(server: SimulatedServer, bad: tuple[Weather, ...], fair: float, foul: float) -> None:
    """The alternating conditions of a server's connection, with the durations of good and bad ones in seconds."""
    chance = server.connection.chance
    while not server.is_dead:
        await trio.sleep(chance.expovariate(1 / fair))
        server.connection.change(chance.choice(bad))
        await trio.sleep(chance.expovariate(1 / foul))
        server.connection.change(Weather.FAIR)
