"""The stand-in on the network: HTTP/1.1 on loopback, and a record of every byte.

The only file here that does I/O. It speaks h11 over trio, so a test can script each chunk, each silence and each broken
connection, and time can be trio's own clock or a test's.
"""

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import h11
import orjson
import trio

from mnemosyne_lab.provider.cache import LocalServer
from mnemosyne_lab.provider.choosing import Model
from mnemosyne_lab.provider.delivery import Chunk, CloseIdle, Cut, Head, Wait
from mnemosyne_lab.provider.provider import ENDPOINTS, Answer, Provider, Received, RecordedViolation
from mnemosyne_lab.provider.rules import LARGEST_BODY
from mnemosyne_lab.provider.script import Script, from_data

SECRET = b"the stand-in keeps no secrets"
"""Signs thinking; always the same, so that a signature outlives a restart."""
_READ = 65536


@attrs.define
class HttpExchange:
    """A request and its response as far as it was sent: its body without chunk framing (``payload``), and every byte on
    the wire. ``number`` and ``connection`` count from 1; ``at`` is when the head arrived, in seconds of the server's
    clock. ``rule`` is the name or number of the script's rule that answered.
    """

    number: int
    connection: int
    at: float
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    rule: str = ""
    status: int | None = None
    reply_headers: list[tuple[str, str]] = attrs.field(factory=list)
    payload: bytearray = attrs.field(factory=bytearray)
    wire: bytearray = attrs.field(factory=bytearray)
    complete: bool = False

    def json(self) -> Any:
        """The request's body, decoded. Raises ValueError when it is not JSON."""
        return orjson.loads(self.body)

    def header(self, name: str) -> str | None:
        """The first request header of that name, in any case."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), None)


class Standin:
    def __init__(self, provider: Provider, clock: Callable[[], float], keep: int | None) -> None:
        self._provider = provider
        self._clock = clock
        self._keep = keep
        self._requests = 0
        self._connections = 0
        self.port = 0
        self.exchanges: list[HttpExchange] = []
        """In order of arrival."""

    @property
    def url(self) -> str:
        """The base URL, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def violations(self) -> list[RecordedViolation]:
        """Every violation so far, including those that were answered with an error."""
        return self._provider.violations

    @property
    def script(self) -> Script:
        """The script in use; assigning another one takes effect with the next request."""
        return self._provider.chooser.script

    @script.setter
    def script(self, script: Script) -> None:
        self._provider.chooser.change_script(script)

    @property
    def messages(self) -> list[HttpExchange]:
        """The exchanges that asked for a message in any dialect, without probes and counts."""
        return [
            exchange
            for exchange in self.exchanges
            if exchange.method == "POST" and exchange.target.partition("?")[0].endswith(("/messages", *ENDPOINTS))
        ]

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the requests of one connection until either side ends it."""
        self._connections += 1
        connection = Connection(stream, self._connections)
        try:
            while await self._exchange(connection):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the client left; its exchange stays incomplete
        except h11.RemoteProtocolError as problem:
            await connection.refuse(str(problem))

    async def _exchange(self, connection: "Connection") -> bool:
        """One request and its response; whether the connection can serve another."""
        head = await connection.next_event()
        if not isinstance(head, h11.Request):
            return False
        self._requests += 1
        exchange = HttpExchange(
            number=self._requests,
            connection=connection.number,
            at=self._clock(),
            method=head.method.decode(),
            target=head.target.decode("latin-1"),
            headers=list(head.headers.raw_items()),
        )
        connection.wire = exchange.wire
        self.exchanges.append(exchange)
        if self._keep is not None:
            del self.exchanges[: -self._keep]
        exchange.body = await connection.body()
        return await self._respond(connection, exchange, self._answer(exchange))

    def _answer(self, exchange: HttpExchange) -> Answer:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in exchange.headers]
        received = Received(exchange.number, exchange.method, exchange.target, headers, exchange.body, exchange.at)
        answer = self._provider.answer(received)
        exchange.rule = answer.rule
        return answer

    async def _respond(self, connection: "Connection", exchange: HttpExchange, answer: Answer) -> bool:
        closes = literal = False
        for step in answer.steps:
            match step:
                case Wait(seconds):
                    await trio.sleep(seconds)
                case Head():
                    literal = step.literal
                    exchange.status, exchange.reply_headers = step.status, list(step.headers)
                    await connection.head(step)
                    if answer.begin is not None:
                        answer.begin()
                case Chunk(data):
                    if exchange.method != "HEAD" and data:
                        exchange.payload += data
                        await (connection.write(data) if literal else connection.send(h11.Data(data=data)))
                case Cut(reset):
                    await connection.cut(reset)
                    return False
                case CloseIdle():
                    closes = True
        if not literal:
            await connection.send(h11.EndOfMessage())
        exchange.complete = True
        return not closes and not literal and connection.reusable()


class Connection:
    """h11 on a stream; ``wire`` collects all written bytes."""

    def __init__(self, stream: trio.SocketStream, number: int = 1) -> None:
        self.number = number
        self.wire = bytearray()
        self._stream = stream
        # A proxy under test may be given long headers; h11's own limit is 16 KiB.
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1024 * 1024)

    async def next_event(self) -> Any:
        while True:
            if self._http.they_are_waiting_for_100_continue:
                # h11 wants bytes here, although its types allow None for a closed connection.
                await self._stream.send_all(
                    self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b""
                )
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._stream.receive_some(_READ))

    async def body(self) -> bytes:
        """The whole body. Of one that is too large, a byte more than the limit is kept and the rest is read away."""
        parts: list[bytes] = []
        size = 0
        while isinstance(event := await self.next_event(), h11.Data):
            if size <= LARGEST_BODY:
                parts.append(bytes(event.data))
                size += len(event.data)
        return b"".join(parts)

    async def write(self, data: bytes) -> None:
        self.wire += data
        if data:
            await self._stream.send_all(data)

    async def send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        await self.write(self._http.send(event) or b"")

    async def head(self, head: Head) -> None:
        if head.literal:
            lines = [f"HTTP/1.1 {head.status} {head.reason}".rstrip(), *(f"{n}: {value}" for n, value in head.headers)]
            await self.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
            return
        await self.send(h11.Response(status_code=head.status, headers=head.headers, reason=head.reason.encode()))

    async def cut(self, reset: bool) -> None:
        if reset:
            # Lingering for zero seconds makes the kernel send a reset instead of a plain end of stream.
            self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await trio.aclose_forcefully(self._stream)

    def reusable(self) -> bool:
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def refuse(self, why: str) -> None:
        text = why.encode()
        head = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(text)
        with trio.move_on_after(1), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_all(head + text)


@asynccontextmanager
async def open_standin(
    script: Script | dict[str, Any] | None = None,
    *,
    strict: bool = True,
    port: int = 0,
    clock: Callable[[], float] | None = None,
    keep: int | None = None,
    model: Model | None = None,
    local: LocalServer | None = None,
) -> AsyncIterator[Standin]:
    """A stand-in provider on loopback for as long as the block runs.

    `script` may be the decoded data of a script. `strict` answers violations of the API's rules with its errors;
    without it they are only noted in `violations`. `port` 0 takes a free one. `clock` gives seconds for the prompt
    cache, by default trio's. `keep` limits how many exchanges are remembered. `model` answers what fits no rule, from
    the request alone. `local` keeps prompts as a local server does, instead of a hosted API.

    Raises BadConfiguration for a script that does not fit, and OSError when the port is taken.
    """
    made = script if isinstance(script, Script) else from_data(script or {})
    provider = Provider(made, strict=strict, secret=SECRET, model=model, local=local)
    server = Standin(provider, clock or trio.current_time, keep)
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    server.port = listeners[0].socket.getsockname()[1]
    problem: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.serve, listeners)
        try:
            yield server
        except Exception as raised:
            # Raised again below, outside the nursery, which would wrap a test's failure in a group.
            problem = raised
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem
