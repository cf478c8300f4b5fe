"""A network in memory: from clients to servers, and from servers to the provider, with all faults on the way."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from mnemosyne.domain.wire.exchange import ReplyHead, UpstreamRequest
from mnemosyne.errors import ReplyCut, UpstreamFailed
from mnemosyne_lab.provider.choosing import Model
from mnemosyne_lab.provider.delivery import Chunk, CloseIdle, Cut, Head, Step, Wait
from mnemosyne_lab.provider.provider import Provider
from mnemosyne_lab.provider.script import Script
from mnemosyne_lab.provider.server import SECRET, HttpExchange, Standin
from tests.http.raw_client import Pairs, RawReply

Application = Callable[[MutableMapping[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Any]

DELAYS = (0.0, 0.0, 0.0, 0.001, 0.02, 0.3)
"""Seconds that a piece may take."""

IN_FLIGHT = (0, 1, 8, 64)
"""Pieces that a slow client's connection holds."""


class MemoryProvider(Standin):
    """The scripted provider without a socket."""

    def __init__(self, model: Model, clock: Callable[[], float]) -> None:
        super().__init__(Provider(Script(), strict=True, secret=SECRET, model=model), clock, None)

    def receive(self, request: UpstreamRequest) -> tuple[HttpExchange, Iterator[Step]]:
        """The record of an exchange, and the steps of its reply. Each taken step counts as sent."""
        self._requests += 1
        exchange = HttpExchange(
            number=self._requests,
            connection=self._requests,
            at=self._clock(),
            method=request.method,
            target=request.target.decode("latin-1"),
            headers=list(request.headers),
            body=request.body,
        )
        self.exchanges.append(exchange)
        answer = self._answer(exchange)

        def steps() -> Iterator[Step]:
            for step in answer.steps:
                match step:
                    case Head():
                        exchange.status, exchange.reply_headers = step.status, list(step.headers)
                        if answer.begin is not None:
                            answer.begin()
                    case Chunk(data):
                        exchange.payload += data
                yield step
                if isinstance(step, Cut):
                    return
            exchange.complete = True

        return exchange, steps()


@attrs.define(eq=False)
class MemoryUpstream:
    """A server's connection to the provider (wire.exchange.Upstream)."""

    provider: MemoryProvider
    chance: random.Random
    refused: float
    is_dead: bool = False
    refusals: list[UpstreamRequest] = attrs.field(factory=list)
    """What did not reach the provider."""

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest, sent: Callable[[], None]) -> AsyncIterator["MemoryReply"]:
        await trio.sleep(self.chance.choice(DELAYS))
        if self.is_dead or self.chance.random() < self.refused:
            self.refusals.append(request)
            raise UpstreamFailed("the provider gave no answer: the connection was refused.")
        _, steps = self.provider.receive(request)
        sent()
        await trio.sleep(self.chance.choice(DELAYS))
        for step in steps:
            match step:
                case Wait(seconds):
                    await trio.sleep(seconds)
                case Head():
                    headers = tuple((name.encode(), value.encode("latin-1")) for name, value in step.headers)
                    yield MemoryReply(ReplyHead(step.status, headers), steps, self.chance)
                    return
                case _:
                    break
        raise UpstreamFailed("the provider gave no answer: the connection broke.")


@attrs.frozen
class MemoryReply:
    """See wire.exchange.UpstreamReply."""

    head: ReplyHead
    steps: Iterator[Step]
    chance: random.Random

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for step in self.steps:
            match step:
                case Wait(seconds):
                    await trio.sleep(seconds)
                case Chunk(data):
                    await trio.sleep(self.chance.choice(DELAYS))
                    yield data
                case Cut():
                    raise ReplyCut("the provider's reply broke off: the connection broke.")
                case Head() | CloseIdle():
                    pass


@attrs.define(eq=False)
class ClientWire:
    """A client's connection, for one request."""

    chance: random.Random
    reply: RawReply = attrs.field(factory=RawReply)
    is_over: bool = False
    """Whether the reply came to its end for the server."""
    by_death: bool = False
    _gone: trio.Event = attrs.field(factory=trio.Event)
    _to_client: trio.MemorySendChannel[Any] = attrs.field(init=False)
    from_server: trio.MemoryReceiveChannel[Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        room = self.chance.choice(IN_FLIGHT)
        self._to_client, self.from_server = trio.open_memory_channel[Any](room)

    def disconnect(self) -> None:
        self._gone.set()
        self.from_server.close()

    def cut(self, *, by_death: bool = False) -> None:
        """Close the server's end; ``by_death``: because the server died."""
        self.by_death = self.by_death or (by_death and not self.is_over)
        self._gone.set()
        self._to_client.close()

    async def serve(self, app: Application, method: str, target: str, headers: Pairs, body: bytes) -> None:
        """The server's side of it, as an ASGI server does it."""
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [*headers, (b"host", b"127.0.0.1:1"), (b"content-length", b"%d" % len(body))],
            "client": ("127.0.0.1", 1),
        }
        middle = self.chance.randint(0, len(body))
        parts = [part for part in (body[:middle], body[middle:]) if part]

        async def receive() -> Any:
            if parts:
                await trio.sleep(self.chance.choice(DELAYS))
                return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
            await self._gone.wait()
            return {"type": "http.disconnect"}

        try:
            await app(scope, receive, self._send)
        except Exception:
            self.cut()  # as the server does
        except BaseException:
            self.cut(by_death=True)
            raise
        else:
            self.cut()

    async def _send(self, message: Any) -> None:
        if self._gone.is_set():
            return
        try:
            await self._to_client.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_over = True
            self._gone.set()

    @property
    def has_ended(self) -> bool:
        return self._gone.is_set()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The reply's pieces until it is over or the connection breaks."""
        async for message in self.from_server:
            await trio.sleep(self.chance.choice(DELAYS))
            if message["type"] == "http.response.start":
                self.reply.status, self.reply.headers = message["status"], list(message["headers"])
                continue
            self.reply.body += message.get("body", b"")
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return
        self.reply.cut = True
