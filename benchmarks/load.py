"""The client's side of a benchmark: requests like an agent's, over kept-alive connections, and when replies arrived."""

import json
import re
from collections.abc import Sequence
from time import perf_counter_ns

import attrs
import trio

from benchmarks.history import History
from benchmarks.upstream_server import Played, Script

SESSION_HEADER = "X-Mnemosyne-Session"
CLAUDE_CODE = "claude-cli/2.1.329 (external, cli)"

_SENT = re.compile(rb"sent=(\d+);")
_END = b"\r\n0\r\n\r\n"


@attrs.frozen
class Address:
    """Where a server listens."""

    host: str
    port: int


@attrs.frozen
class Exchange:
    """How one request went: nanoseconds to the reply's first byte, and of delay for each delta; ``last_byte`` is from
    the last moment of sending that the reply names to its end.
    """

    first_byte: int
    delays: tuple[int, ...]
    last_byte: int


def request_bytes(body_bytes: int, script: Script, session: str | None, *, in_body: bool = False) -> bytes:
    """A streaming request with a body of about ``body_bytes`` bytes, like a long conversation.

    ``session`` is the client's name for the conversation; None: unnamed. The reply is selected ``in_body`` for relays
    that drop the query.
    """
    line = "def add(first: int, second: int) -> int:  # line {} of the file\n"
    messages: list[dict[str, object]] = [{"role": "user", "content": "Add two numbers."}]
    size = 200
    while size < body_bytes:
        text = "".join(line.format(number) for number in range(40))[: max(1, body_bytes - size)]
        role = "assistant" if messages[-1]["role"] == "user" else "user"
        messages.append({"role": role, "content": [{"type": "text", "text": text}]})
        size += len(text) + 70
    asked = {"model": "benchmark", "max_tokens": 1024, "stream": True, "messages": messages}
    if in_body:
        asked["metadata"] = {"user_id": script.query}
    return message_request(
        None if in_body else script.query, json.dumps(asked).encode(), session, "mnemosyne-benchmark"
    )


def history_request(history: History, asked: Played, session: str) -> bytes:
    """The request of a turn of a history."""
    return message_request(asked.query, history.body(asked.turn), session, CLAUDE_CODE)


def peer_request(history: History, asked: Played, session: str) -> bytes:
    """The same for relays that drop the query: the body selects the reply."""
    return message_request(None, history.body(asked.turn, asked.query), session, CLAUDE_CODE)


def message_request(query: str | None, body: bytes, session: str | None, user_agent: str) -> bytes:
    """A request for a reply, whole."""
    head = (
        f"POST /v1/messages{f'?{query}' if query else ''} HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        "Content-Type: application/json\r\n"
        "Accept: application/json\r\n"
        "Accept-Encoding: identity\r\n"
        "Anthropic-Version: 2023-06-01\r\n"
        f"User-Agent: {user_agent}\r\n"
        "X-Api-Key: none\r\n"
        f"{f'{SESSION_HEADER}: {session}' if session else 'X-App: cli'}\r\n"
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
        delays: list[int] = []
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
                delays.append(arrived - last_sent)
                scanned = sent.end()
        if not held.startswith(b"HTTP/1.1 200 ") or len(delays) != deltas or first_byte is None:
            raise ValueError(f"{len(delays)} of {deltas} deltas arrived: {held[:300]!r}")
        if b"\r\nconnection: close\r\n" in held.partition(b"\r\n\r\n")[0].lower() + b"\r\n":
            # A server may close a connection after a number of requests; the next request gets a new one.
            await self._reconnect()
        return Exchange(first_byte - started, tuple(delays), arrived - last_sent)

    async def _reconnect(self) -> None:
        await self._stream.aclose()
        self._stream = await trio.open_tcp_stream(self._address.host, self._address.port)


async def one_stream(address: Address, request: bytes, deltas: int) -> Exchange:
    """One request over a connection of its own."""
    client = await Client.connect(address)
    try:
        return await client.exchange(request, deltas)
    finally:
        await client.aclose()


async def streams_at_once(
    address: Address, requests: Sequence[bytes], deltas: int, apart: float = 0.0
) -> list[Exchange]:
    """The requests at the same time, begun ``apart`` seconds after each other."""
    results: list[Exchange] = []

    async def run(number: int, request: bytes) -> None:
        await trio.sleep(number * apart)
        results.append(await one_stream(address, request, deltas))

    async with trio.open_nursery() as nursery:
        for number, request in enumerate(requests):
            nursery.start_soon(run, number, request)
    return results
