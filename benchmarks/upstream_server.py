"""The provider's side of a benchmark: message streams that cost next to nothing to send.

``metadata.user_id`` of a request selects its reply, because some relays drop a query. ``deltas=26&gap=0.02`` sends that
many text deltas, that many seconds apart (0: as fast as they go out), after ``wait`` seconds. Each delta names the
moment at which it was sent, in nanoseconds of the monotonic clock, which all processes share.

``history=recorded&turn=7&gap=0.005`` sends the reply to that turn of a history: the message's and its first block's
start, ``gap`` seconds later the rest in one write; a ``ping`` just before ``message_stop`` names the moment of that
write.
"""

import re
from contextlib import suppress
from time import perf_counter_ns
from urllib.parse import parse_qsl, urlencode

import attrs
import cattrs
import trio

from benchmarks.harness import serve
from benchmarks.history import history
from benchmarks.replies import Event, message_events
from tests.replay.message_streams import dumps

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SELECTED = re.compile(rb'"user_id": ?"([^"]+)"')
END = b"0\r\n\r\n"

BEGINNING = 2
"""The first events of a reply: the message and its first block."""

BYTES_PER_TOKEN = 4
"""Roughly the ratio at real providers."""

WORDS = "the quick brown fox jumps over the lazy dog"
STOP: Event = {"type": "message_stop"}


@attrs.frozen
class Script:
    """A reply: ``deltas`` of text, or the reply to a ``turn`` of a ``history``, after ``wait`` seconds; ``gap`` seconds
    lie between deltas, or between the beginning and the rest.
    """

    deltas: int = 0
    history: str = ""
    turn: int = 0
    wait: float = 0.0
    gap: float = 0.0

    @property
    def query(self) -> str:
        return urlencode(attrs.asdict(self))


def _chunk(*events: Event) -> bytes:
    """Events as they go over the wire, each in a chunk."""
    frames = (b"event: %s\ndata: %s\n\n" % (each["type"].encode(), dumps(each)) for each in events)
    return b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames)


_EVENTS = list(message_events({"content": ""}, 0))
_OPENING, _CLOSING = _chunk(*_EVENTS[:BEGINNING]), _chunk(*_EVENTS[BEGINNING:], STOP) + END


async def send_reply(stream: trio.SocketStream, script: Script) -> None:
    """Send one reply, each delta in a write of its own."""
    await stream.send_all(HEAD + _OPENING)
    start = trio.current_time()
    for number in range(1, script.deltas + 1):
        if script.gap:
            await trio.sleep_until(start + number * script.gap)
        delta = {"type": "text_delta", "text": f"sent={perf_counter_ns()}; {WORDS}"}
        await stream.send_all(_chunk({"type": "content_block_delta", "index": 0, "delta": delta}))
    await stream.send_all(_CLOSING)


async def play_reply(stream: trio.SocketStream, script: Script, sent: int) -> None:
    """Send a reply of a history: its beginning, and then all the rest at once. The first block begins with the message,
    as a provider says both once the model has begun; a relay may wait for the block. It reports the prompt of
    ``sent`` bytes as read from the cache: otherwise each turn would be a cache miss, whose cause the worker looks for.
    """
    events = list(message_events(history(script.history).reply(script.turn), script.turn, sent // BYTES_PER_TOKEN))
    rest = _chunk(*events[BEGINNING:])
    await stream.send_all(HEAD + _chunk(*events[:BEGINNING]))
    if script.gap:
        await trio.sleep(script.gap)
    await stream.send_all(rest + _chunk({"type": "ping", "said": f"sent={perf_counter_ns()};"}, STOP) + END)


def read_script(body: bytes) -> Script:
    """The reply that a request selects. Raises ValueError if it selects none."""
    found = _SELECTED.search(body, max(0, body.rfind(b'"user_id"')))
    if found is None:
        raise ValueError("a request to the benchmark's upstream needs a user_id")
    return cattrs.structure(dict(parse_qsl(found[1].decode("ascii"))), Script)


async def answer_client(stream: trio.SocketStream) -> None:
    """Answer the requests of one connection until it closes."""
    held = b""
    while True:
        while b"\r\n\r\n" not in held:
            data = await stream.receive_some()
            if not data:
                return
            held += data
        head, _, held = held.partition(b"\r\n\r\n")
        parts, length = [held], _LENGTH.search(head)
        missing, held = int(length[1]) - len(held) if length else 0, b""
        while missing > 0:
            parts.append(await stream.receive_some())
            missing -= len(parts[-1])
        body = b"".join(parts)
        script = read_script(body)
        await trio.sleep(script.wait)
        if script.history:
            await play_reply(stream, script, len(body))
        else:
            await send_reply(stream, script)


async def serve_connection(stream: trio.SocketStream) -> None:
    """One connection; a client that is gone ends it and nothing else."""
    with suppress(trio.BrokenResourceError):
        async with stream:
            await answer_client(stream)


if __name__ == "__main__":
    trio.run(serve, "upstream", serve_connection)
