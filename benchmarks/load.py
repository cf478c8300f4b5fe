"""The client's side of a benchmark: requests like an agent's, over kept-alive connections, and when replies arrived."""

import re
from collections.abc import Iterator, Sequence
from itertools import count
from time import perf_counter_ns, process_time

import attrs
import trio

from benchmarks.harness import Address, Server
from benchmarks.history import History
from benchmarks.upstream_server import Script
from tests.replay.message_streams import dumps

SESSION_HEADER = "X-Mnemosyne-Session"
CLAUDE_CODE = "claude-cli/2.1.329 (external, cli)"
CLIENT = "client"

_SENT = re.compile(rb"sent=(\d+);")
_END = b"\r\n0\r\n\r\n"


@attrs.frozen
class Exchange:
    """How one request went, in ms: the time to the reply's first byte, the delay of each delta, and of the reply's end,
    counted from the last moment of sending that the reply names.
    """

    first_byte: float
    delays: tuple[float, ...]
    last_byte: float


def request_bytes(body_bytes: int, script: Script, session: str) -> bytes:
    """A streaming request with a body of about ``body_bytes`` bytes, like a long conversation."""
    line = "def add(first: int, second: int) -> int:  # line {} of the file\n"
    messages: list[dict[str, object]] = [{"role": "user", "content": "Add two numbers."}]
    size = 200
    while size < body_bytes:
        text = "".join(line.format(number) for number in range(40))[: max(1, body_bytes - size)]
        role = "assistant" if messages[-1]["role"] == "user" else "user"
        messages.append({"role": role, "content": [{"type": "text", "text": text}]})
        size += len(text) + 70
    return message_request({"messages": messages}, script, session)


def message_request(members: dict[str, object], script: Script, session: str) -> bytes:
    """A streaming request whose body has these members."""
    asked = {"model": "benchmark", "max_tokens": 1024, "stream": True, **members}
    return _post(dumps({**asked, "metadata": {"user_id": script.query}}), session, "mnemosyne-benchmark")


def history_request(history: History, turn: int, session: str, gap: float = 0.0) -> bytes:
    """The request of a turn of a history; ``gap`` seconds lie between its reply's beginning and the rest."""
    script = Script(history=history.kind, turn=turn, gap=gap)
    return _post(history.body(turn, script.query), session, CLAUDE_CODE)


def _post(body: bytes, session: str, user_agent: str) -> bytes:
    head = (
        "POST /v1/messages HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        "Content-Type: application/json\r\n"
        "Accept: application/json\r\n"
        "Accept-Encoding: identity\r\n"
        "Anthropic-Version: 2023-06-01\r\n"
        f"User-Agent: {user_agent}\r\n"
        "X-Api-Key: none\r\n"
        f"{SESSION_HEADER}: {session}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


@attrs.define
class Client:
    """One connection that sends one request after the other. Make it with ``connect``."""

    _address: Address
    _stream: trio.SocketStream

    @classmethod
    async def connect(cls, address: Address) -> "Client":
        return cls(address, await trio.open_tcp_stream(address.host, address.port))

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def exchange(self, request: bytes, deltas: int) -> Exchange:
        """Send a request and read its reply to the end. Raises ValueError for a wrong reply."""
        started = perf_counter_ns()
        try:
            await self._stream.send_all(request)
        except trio.BrokenResourceError:  # the server closed the idle connection
            await self._reconnect()
            started = perf_counter_ns()
            await self._stream.send_all(request)
        held = b""
        scanned = 0
        first_byte: int | None = None
        delays: list[float] = []
        arrived = last_sent = started
        while not held.endswith(_END):
            data = await self._stream.receive_some()
            arrived = perf_counter_ns()
            first_byte = first_byte or arrived
            held += data
            if not data:
                raise ValueError(f"the reply broke off after {len(held)} bytes: {held[:300]!r}")
            for sent in _SENT.finditer(held, scanned):
                last_sent = int(sent[1])
                delays.append((arrived - last_sent) / 1e6)
                scanned = sent.end()
        if not held.startswith(b"HTTP/1.1 200 ") or len(delays) != deltas or first_byte is None:
            raise ValueError(f"{len(delays)} of {deltas} deltas arrived: {held[:300]!r}")
        if b"\r\nconnection: close\r\n" in held.partition(b"\r\n\r\n")[0].lower() + b"\r\n":
            # A server may close a connection after a number of requests; the next request gets a new one.
            await self._reconnect()
        return Exchange((first_byte - started) / 1e6, tuple(delays), (arrived - last_sent) / 1e6)

    async def _reconnect(self) -> None:
        await self.aclose()
        self._stream = await trio.open_tcp_stream(self._address.host, self._address.port)


def requests_of(history: History, session: str, *, first: int = 1, gap: float = 0.0) -> Iterator[bytes]:
    """The requests of a session that plays a history from a turn on. After the last turn another session begins."""
    for again in count():
        for turn in range(first, history.turns + 1):
            yield history_request(history, turn, session + "+" * again, gap)


@attrs.define
class Player:
    """A session played through a server, turn by turn."""

    server: Server
    requests: Iterator[bytes]
    turn: int = 0
    _client: Client | None = None

    async def play(self) -> Exchange:
        """Take the next turn."""
        if self._client is None:
            self._client = await Client.connect(self.server.address)
        self.turn += 1
        return await self._client.exchange(next(self.requests), 1)


@attrs.define
class Throughput:
    """What clients that never pause achieved: their exchanges, the seconds, and the processor seconds by process."""

    exchanges: list[Exchange] = attrs.field(factory=list)
    seconds: float = 0.0
    cpu: dict[str, float] = attrs.field(factory=dict)

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.exchanges) / self.seconds

    @property
    def cpu_ms(self) -> dict[str, float]:
        """Processor time of a request in ms, by process."""
        return {who: 1000 * used / len(self.exchanges) for who, used in self.cpu.items()}


async def keep_busy(server: Server, clients: Sequence[Iterator[bytes]], deltas: int, seconds: float) -> Throughput:
    """Each client sends its requests one after the other for some seconds, those under way at the end included. Its
    first request is not counted.
    """
    work, began = Throughput(), trio.Event()
    ready = 0

    async def send(requests: Iterator[bytes]) -> None:
        nonlocal ready
        client = await Client.connect(server.address)
        await client.exchange(next(requests), deltas)
        ready += 1
        if ready == len(clients):
            began.set()
        await began.wait()
        until = trio.current_time() + seconds
        while trio.current_time() < until:
            work.exchanges.append(await client.exchange(next(requests), deltas))
        await client.aclose()

    async with trio.open_nursery() as nursery:
        for each in clients:
            nursery.start_soon(send, each)
        await began.wait()
        started, before = trio.current_time(), server.cpu_by_process() | {CLIENT: process_time()}
    work.seconds, after = trio.current_time() - started, server.cpu_by_process() | {CLIENT: process_time()}
    work.cpu = {who: used - before.get(who, 0.0) for who, used in after.items()}
    return work
