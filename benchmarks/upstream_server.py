"""The provider's side of a benchmark: a message stream that costs next to nothing to send.

``POST /v1/messages?deltas=26&gap_ms=20&wait_ms=0`` sends that many text deltas, that far apart (0: as fast as
they go out), after ``wait_ms``. Each delta names the moment at which it was sent, in nanoseconds of the monotonic
clock, which all processes share.

``POST /v1/messages?history=recorded&turn=7&wait_ms=50&gap_ms=5`` sends the reply to that turn of a history: after
``wait_ms`` the message's and its first block's start, ``gap_ms`` later the rest in one write; a ``ping`` just before
``message_stop`` names the moment of that write. Some relays drop a query: without one, ``metadata.user_id`` in the body
says the same.
"""

import re
import sys
from time import perf_counter_ns
from urllib.parse import parse_qs, urlsplit

import attrs
import trio

from benchmarks.history import history
from benchmarks.replies import frame, last_frames, message_events

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_IN_BODY = re.compile(rb'"user_id": ?"((?:deltas|history)=[^"]+)"')
BEGINNING = 2
"""The first frames of a history's reply: the message and its first block."""

BYTES_PER_TOKEN = 4
"""Roughly the ratio at real providers."""

WORDS = "the quick brown fox jumps over the lazy dog"


@attrs.frozen
class Script:
    """The shape of a reply."""

    deltas: int
    gap_seconds: float
    wait_seconds: float = 0.0

    @property
    def query(self) -> str:
        return f"deltas={self.deltas}&gap_ms={self.gap_seconds * 1000:g}&wait_ms={self.wait_seconds * 1000:g}"


@attrs.frozen
class Played:
    """The reply to a turn of a history, and when it comes."""

    kind: str
    turn: int
    wait_seconds: float = 0.0
    gap_seconds: float = 0.0

    @property
    def query(self) -> str:
        waits = f"wait_ms={self.wait_seconds * 1000:g}&gap_ms={self.gap_seconds * 1000:g}"
        return f"history={self.kind}&turn={self.turn}&{waits}"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_USAGE = {"input_tokens": 12, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 1}
_MESSAGE: dict[str, object] = {
    "id": "msg_benchmark",
    "type": "message",
    "role": "assistant",
    "model": "benchmark",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": _USAGE,
}
OPENING = _chunk(frame({"type": "message_start", "message": _MESSAGE})) + _chunk(
    frame({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
)
CLOSING = (
    _chunk(frame({"type": "content_block_stop", "index": 0}))
    + _chunk(
        frame(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 9},
            }
        )
    )
    + _chunk(frame({"type": "message_stop"}))
    + b"0\r\n\r\n"
)
_DELTA_BEFORE, _DELTA_AFTER = frame(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"sent=@; {WORDS}"}}
).split(b"@")


async def send_reply(stream: trio.SocketStream, script: Script) -> None:
    """Send one reply, each delta in a write of its own."""
    if script.wait_seconds:
        await trio.sleep(script.wait_seconds)
    await stream.send_all(HEAD + OPENING)
    start = trio.current_time()
    for number in range(1, script.deltas + 1):
        if script.gap_seconds:
            await trio.sleep_until(start + number * script.gap_seconds)
        await stream.send_all(_chunk(b"%b%d%b" % (_DELTA_BEFORE, perf_counter_ns(), _DELTA_AFTER)))
    await stream.send_all(CLOSING)


async def play_reply(stream: trio.SocketStream, asked: Played, sent: int) -> None:
    """Send a reply of a history: its beginning, and then all the rest at once. The first block begins with the message,
    as a provider says both once the model has begun; a relay may wait for the block. It reports the prompt of
    ``sent`` bytes as read from the cache: otherwise each turn would be a cache miss, whose cause the worker looks for.
    """
    events = message_events(history(asked.kind).reply(asked.turn), asked.turn, sent // BYTES_PER_TOKEN)
    frames = [frame(event) for event in events]
    beginning, body = (b"".join(map(_chunk, part)) for part in (frames[:BEGINNING], frames[BEGINNING:]))
    await trio.sleep(asked.wait_seconds)
    await stream.send_all(HEAD + beginning)
    if asked.gap_seconds:
        await trio.sleep(asked.gap_seconds)
    last = b"".join(_chunk(one) for one in last_frames(f"sent={perf_counter_ns()};"))
    await stream.send_all(body + last + b"0\r\n\r\n")


def script_of(head: bytes, body: bytes) -> Script | Played:
    """The reply that a request selects."""
    asked = urlsplit(head.split(b" ", 2)[1].decode("ascii")).query
    if "_ms=" not in asked and (found := _IN_BODY.search(body)) is not None:
        asked = found[1].decode("ascii")
    query = {name: value[0] for name, value in parse_qs(asked).items()}
    gap, wait = float(query["gap_ms"]) / 1000, float(query["wait_ms"]) / 1000
    if "history" in query:
        return Played(query["history"], int(query["turn"]), wait, gap)
    return Script(int(query["deltas"]), gap, wait)


def body_length(head: bytes) -> int:
    """The length that the head declares; a client of this server always does."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    raise ValueError("a request to the benchmark's upstream needs a Content-Length")


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
        body = [held]
        missing, held = body_length(head) - len(held), b""
        while missing > 0:
            body.append(await stream.receive_some())
            missing -= len(body[-1])
        whole = b"".join(body)
        match script_of(head, whole):
            case Script() as script:
                await send_reply(stream, script)
            case Played() as asked:
                await play_reply(stream, asked, len(whole))


async def serve_connection(stream: trio.SocketStream) -> None:
    """One connection; a client that is gone ends it and nothing else."""
    try:
        await answer_client(stream)
    except trio.BrokenResourceError:
        pass
    finally:
        await stream.aclose()


async def main() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=512)
    port = listener.socket.getsockname()[1]
    sys.stdout.write(f"upstream listening on http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await trio.serve_listeners(serve_connection, [listener])


if __name__ == "__main__":
    trio.run(main)
