"""A database whose log is in memory, and connections to it in any weather.

A connection belongs to one server. After the server dies, none of its later requests take effect; a pending one may.
"""

import random
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.errors import LogUnavailable
from tests.plain.log import PlainLog


class Weather(Enum):
    FAIR = auto()
    SLOW = auto()
    """Each call takes long."""
    HUNG = auto()
    """No call is answered until the weather changes."""
    AWAY = auto()
    """Connections are refused."""
    LOSSY = auto()
    """It breaks during some calls, which take effect, or not, or later."""
    UNREADABLE = auto()
    """Reads fail, writes do not."""


BAD = tuple(each for each in Weather if each is not Weather.FAIR)

FAIR_SECONDS = (0.0, 0.0, 0.001, 0.01)
SLOW_SECONDS = (0.05, 0.3, 1.5, 4.0)
LATEST_SECONDS = 5.0
"""How much later an abandoned append may take effect (docs/research/reliability.md)."""


class SharedLog(PlainLog):
    """The log of a database that several servers write to."""

    def __init__(self, codec: EventCodec) -> None:
        super().__init__(codec)
        self.conflicts = 0

    def take(self, batch: Sequence[EncodedAppend]) -> Committed:
        """Commit at once, and check that no stream gets a gap."""
        before = {append.stream: self.version(append.stream) for append in batch}
        errors = tuple(self._commit(batch))
        self.conflicts += sum(error is not None for error in errors)
        for stream, version in before.items():
            versions = [each.version for each in self._streams.get(stream, [])[version:]]
            assert versions == list(range(version + 1, version + 1 + len(versions))), "a stream has a gap"
        self._committed.advance(len(self._events))
        return Committed(errors, len(self._events))

    def take_if_all_fits(self, batch: Sequence[EncodedAppend]) -> None:
        """Commit an abandoned transaction as the database does: whole, or not at all."""
        now: dict[UUID, int] = {}
        for append in batch:
            if append.expected != now.get(append.stream, self.version(append.stream)):
                return
            now[append.stream] = append.version
        self.take(batch)

    def version(self, stream: UUID) -> int:
        return len(self._streams.get(stream, []))


def _reading(name: str) -> Any:
    """A method of the log that a connection passes on."""

    async def read(connection: "LogConnection", *given: Any, **named: Any) -> Any:
        await connection._read()
        return await getattr(connection.log, name)(*given, **named)

    return read


@attrs.define(eq=False)
class LogConnection:
    """A server's connection to the log (ports.EventLog, ports.ContentStore, batches.Committer)."""

    log: SharedLog
    chance: random.Random
    later: trio.Nursery
    note: Callable[[str], None] = lambda what: None
    weather: Weather = Weather.FAIR
    seconds: Sequence[float] = FAIR_SECONDS
    """How long a call may take in fair weather."""
    is_dead: bool = False
    _is_calm: bool = False
    _changed: trio.Event = attrs.field(factory=trio.Event)

    def change(self, weather: Weather) -> None:
        if self._is_calm:
            return
        if weather is not self.weather:
            self.note(f"the connection is {weather.name}")
        self.weather = weather
        self._changed.set()
        self._changed = trio.Event()

    def calm_down(self) -> None:
        """Change to fair weather for good."""
        self.change(Weather.FAIR)
        self._is_calm = True

    def cut(self) -> None:
        """Mark the server as dead."""
        self.is_dead = True
        self._changed.set()

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        await self._reach()
        if self.weather is Weather.LOSSY and self.chance.random() < 0.6:
            return await self._lose(batch)
        done = self.log.take(batch)
        self.note(f"committed up to {done.position}")
        await self._pass_time()  # a server that dies here does not know that it is done
        self._check_alive()
        return done

    async def _lose(self, batch: Sequence[EncodedAppend]) -> Committed:
        what = self.chance.choice(("lost", "committed", "late"))
        self.note(f"an append is {what}")
        if what == "committed":
            self.log.take_if_all_fits(batch)
        elif what == "late":
            self.later.start_soon(self._take_later, batch, self.chance.uniform(0, LATEST_SECONDS))
        raise LogUnavailable("the connection broke")

    async def _take_later(self, batch: Sequence[EncodedAppend], seconds: float) -> None:
        await trio.sleep(seconds)
        self.log.take_if_all_fits(batch)

    async def _read(self) -> None:
        await self._reach()
        lost = self.weather is Weather.LOSSY and self.chance.random() < 0.3
        if lost or self.weather is Weather.UNREADABLE:
            raise LogUnavailable("the connection broke")

    async def _reach(self) -> None:
        """Wait until a call reaches the database."""
        self._check_alive()
        await self._pass_time()
        while self.weather is Weather.HUNG and not self.is_dead:
            await self._changed.wait()
        self._check_alive()
        if self.weather is Weather.AWAY:
            raise LogUnavailable("the database is away")

    async def _pass_time(self) -> None:
        await trio.sleep(self.chance.choice(SLOW_SECONDS if self.weather is Weather.SLOW else self.seconds))

    def _check_alive(self) -> None:
        if self.is_dead:
            raise LogUnavailable("the server is dead")

    async def forget(self, stream: UUID, redacted: Callable[[Any], object]) -> int:
        await self._reach()
        return await self.log.forget(stream, redacted)

    read, pick, select, tail = map(_reading, ("read", "pick", "select", "tail"))
    pick_first, pick_last, fetch = map(_reading, ("pick_first", "pick_last", "fetch"))
    streams, knowledge_streams, sizes = map(_reading, ("streams", "knowledge_streams", "sizes"))
