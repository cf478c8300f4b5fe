"""A turn whose requests the agent sends itself: it takes each request from here and passes the reply back.

The relay treats the agent as its provider, so hidden rounds, errors and records work as in any other turn.
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
    """The next request for the agent to send."""

    body: bytes = attrs.field(repr=False)


@attrs.frozen
class Ended:
    """The end of a turn: the whole reply or, without one, the ``failure``."""

    status: int
    body: bytes = attrs.field(repr=False)
    failure: MnemosyneError | None = None


@attrs.frozen
class _AgentReply:
    head: ReplyHead
    body: bytes

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self.body


class HandedTurn:
    """One turn. ``run`` runs in the nursery of turns."""

    def __init__(self, turn: Turn, request: UpstreamRequest, progress: RelayProgress) -> None:
        self.turn = turn
        self._relay = Relay(self, request, turn, progress, MESSAGES)
        self._send_step, self._steps = trio.open_memory_channel[ToSend | Ended](1)
        self._send_reply, self._replies = trio.open_memory_channel[_AgentReply](1)

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator[_AgentReply]:
        """Implement ``Upstream.exchange``: pass the request to the agent and wait for the reply it got."""
        sent()
        await self._send_step.send(ToSend(request.body))
        yield await self._replies.receive()

    async def run(self) -> None:
        """Run the relay until the turn ends."""
        client = self._relay.client
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._relay.run)
            try:
                head = await client.head()
                ended = Ended(head.status, b"".join([chunk async for chunk in client.body()]))
            except MnemosyneError as error:
                ended = Ended(0, b"", error)
        await self._send_step.send(ended)

    async def step(self) -> ToSend | Ended:
        """Wait for the next request or the end of the turn."""
        return await self._steps.receive()

    async def hand_in(self, status: int, body: bytes) -> ToSend | Ended:
        """Pass on the provider's reply to the last request; return the next request or the end."""
        await self._send_reply.send(_AgentReply(ReplyHead(status, JSON), body))
        return await self.step()

    async def abandon(self) -> None:
        """Abandon the turn and wait until that is recorded."""
        self._relay.client.abandon()
        while not isinstance(await self.step(), Ended):
            pass
