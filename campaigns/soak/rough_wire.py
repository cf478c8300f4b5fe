"""A faulty network between servers and their database: slow, silent, closed, or cut."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from random import Random

import attrs
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

SLOWEST = (0.1, 5.0)
"""Seconds that a statement takes where statements are slow."""

MOST_WORDS = 12
"""Of a server's to its database, behind which all may be cut: a turn has fewer."""


class Trouble(Enum):
    """A fault of the database connection, as a server sees it."""

    SLOW = "slow"
    """Each word to it takes from a tenth of a second to five."""
    SILENT = "silent"
    """It takes connections and words, and answers nothing until that is over."""
    REFUSED = "refused"
    """All connections break, and no other is taken."""
    CUT = "cut"
    """All connections break behind one of the next words, and others are taken at once: it was restarted, or another
    server took over.
    """


@attrs.define
class RoughWire:
    """Forwards the traffic between servers and their database, with one fault at a time."""

    random: Random
    socket: str
    trouble: Trouble | None = None
    words: int = 0
    """So many are passed on before all is cut."""
    befell: int = 0
    """Words that were late, unheard, refused or the last ones."""
    calm: trio.Event = attrs.field(factory=trio.Event)
    connections: set[trio.CancelScope] = attrs.field(factory=set)

    def befall(self, trouble: Trouble | None) -> None:
        """Apply this fault from now on, or none."""
        self.trouble = trouble
        self.words = self.random.randrange(MOST_WORDS)
        if trouble is None:
            self.calm.set()
            self.calm = trio.Event()
        elif trouble is Trouble.REFUSED:
            self._break_all()

    def _break_all(self) -> None:
        for each in self.connections:
            each.cancel()

    async def serve(self, client: trio.SocketStream) -> None:
        """One connection of a server."""
        async with client:
            if self.trouble is Trouble.REFUSED:
                self.befell += 1
                return
            with trio.CancelScope() as scope:
                self.connections.add(scope)
                try:
                    async with await trio.open_unix_socket(self.socket) as database, trio.open_nursery() as nursery:
                        nursery.start_soon(self._pass_on, database, client, scope)
                        async for word in client:
                            await self._suffer()
                            await database.send_all(word)
                        nursery.cancel_scope.cancel()
                except* trio.BrokenResourceError:
                    pass
                finally:
                    self.connections.discard(scope)

    async def _pass_on(self, database: trio.SocketStream, client: trio.SocketStream, scope: trio.CancelScope) -> None:
        async for answer in database:
            await client.send_all(answer)
        scope.cancel()

    async def _suffer(self) -> None:
        match self.trouble:
            case Trouble.SLOW:
                self.befell += 1
                await trio.sleep(self.random.uniform(*SLOWEST))
            case Trouble.SILENT:
                self.befell += 1
                await self.calm.wait()
            case Trouble.CUT if self.words == 0:
                self.befell += 1
                self.trouble = None
                self._break_all()
                await trio.lowlevel.checkpoint()
            case Trouble.CUT:
                self.words -= 1


@asynccontextmanager
async def rough_wire(dsn: str, seed: int) -> AsyncIterator[tuple[RoughWire, str]]:
    """A faulty network in front of a database on a Unix socket; and the DSN that uses it."""
    given = conninfo_to_dict(dsn)
    wire = RoughWire(Random(seed), f"{given['host']}/.s.PGSQL.{given['port']}")
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, wire.serve, [listener])
        yield wire, make_conninfo(dsn, host="127.0.0.1", port=listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()
