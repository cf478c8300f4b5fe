"""A turn whose requests an agent sends itself: they are handed out, and what came back is handed in.

The relay takes the agent's hands for the provider, so rounds, refusals and records are those of any turn.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio

from mnemosyne.actors.turn import Turn
from mnemosyne.domain.wire.exchange import ReplyHead, UpstreamRequest
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.errors import MnemosyneError
from mnemosyne.http.client_reply import RelayProgress
from mnemosyne.http.relay import Relay

JSON = ((b"content-type", b"application/json"),)


@attrs.frozen
class ToSend:
    """What the agent is to send next."""

    body: bytes = attrs.field(repr=False)


@attrs.frozen
class Ended:
    """What a client gets of the turn: a whole reply; where there is none, why."""

    status: int
    body: bytes = attrs.field(repr=False)
    failure: MnemosyneError | None = None


@attrs.frozen
class _Given:
    head: ReplyHead
    body: bytes

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self.body


class HandedTurn:
    """One turn. ``run`` lives in the nursery of turns."""

    def __init__(self, turn: Turn, request: UpstreamRequest, progress: RelayProgress) -> None:
        self.turn = turn
        self._relay = Relay(self, request, turn, progress, MESSAGES)
        self._tell, self._told = trio.open_memory_channel[ToSend | Ended](1)
        self._give, self._given = trio.open_memory_channel[_Given](1)

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator[_Given]:
        """See Upstream: the agent is asked, and what it was answered is the reply."""
        sent()
        await self._tell.send(ToSend(request.body))
        yield await self._given.receive()

    async def run(self) -> None:
        """Fetch the reply through the agent's hands."""
        client = self._relay.client
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._relay.run)
            try:
                head = await client.head()
                ended = Ended(head.status, b"".join([chunk async for chunk in client.body()]))
            except MnemosyneError as error:
                ended = Ended(0, b"", error)
        await self._tell.send(ended)

    async def step(self) -> ToSend | Ended:
        """Wait for what the agent is to send, or for the end."""
        return await self._told.receive()

    async def hand_in(self, status: int, body: bytes) -> ToSend | Ended:
        """The provider answered this to what was handed out; what is to be sent next, or the end."""
        await self._give.send(_Given(ReplyHead(status, JSON), body))
        return await self.step()

    async def abandon(self) -> None:
        """The agent gives the turn up; wait until that is on record."""
        self._relay.client.abandon()
        while not isinstance(await self.step(), Ended):
            pass
