r"""Turns of several provider rounds, for the tests of splicing them into one reply.

A round is written as the message that it makes, and played as a stream or as a whole body.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import attrs

from mnemosyne.http.splicing import EndOfRound, Next, Output
from tests.http.managing import message_of
from tests.http.raw_client import RawReply
from tests.http.streams import frame

Json = dict[str, Any]

HIDDEN = frozenset({"memory_query", "memory_restore"})


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def thinking(thought: str) -> Json:
    return {"type": "thinking", "thinking": thought, "signature": "c2lnLi4u" + thought}


def call(name: str, number: int = 1, **given: Any) -> Json:
    return {"type": "tool_use", "id": f"toolu_{name}_{number}", "name": name, "input": given}


RECALL = call("memory_query", text="login", limit=60000.0)
RESTORE = call("memory_restore", 2, object_id="obj_1")
READ = call("Read", 3, file_path="/a")


@attrs.frozen
class Round:
    """The provider's output in one round, and its bill."""

    content: list[Json]
    stop_reason: str = "end_turn"
    usage: Json = attrs.field(factory=lambda: {"input_tokens": 7, "cache_read_input_tokens": 100, "output_tokens": 5})
    id: str = "msg_1"

    def message(self) -> Json:
        head = {"id": self.id, "type": "message", "role": "assistant", "model": "claude-opus-5-5"}
        return {**head, "content": self.content, "stop_reason": self.stop_reason, **STOP, "usage": self.usage}

    def whole(self) -> bytes:
        """The body as JSON with unusual spacing, so that any reserialization shows."""
        return json.dumps(self.message(), separators=(" , ", " : ")).encode()

    def events(self) -> list[Json]:
        produced = min(
            1, self.usage.get("output_tokens", 1)
        )  # the output count grows within a stream, it never shrinks
        usage = {**self.usage, "output_tokens": produced}
        started = {**self.message(), "content": [], "stop_reason": None, "usage": usage}
        events: list[Json] = [{"type": "message_start", "message": started}, {"type": "ping"}]
        for index, block in enumerate(self.content):
            first, *deltas = _pieces(block)
            events.append({"type": "content_block_start", "index": index, "content_block": first})
            events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
            events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": self.stop_reason, **STOP}
        return [*events, {"type": "message_delta", "delta": delta, "usage": self.usage}, {"type": "message_stop"}]

    def stream(self) -> bytes:
        return b"".join(map(frame, self.events()))


STOP: Json = {"stop_sequence": None}


def _pieces(block: Json) -> Iterator[Json]:
    match block:
        case {"type": "text", "text": str(said)}:
            yield {**block, "text": ""}
            yield from ({"type": "text_delta", "text": piece} for piece in _halves(said))
        case {"type": "thinking", "thinking": str(thought)}:
            yield {**block, "thinking": "", "signature": ""}
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _halves(thought))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case {"type": "tool_use", "input": given}:
            yield {**block, "input": {}}
            written = given if isinstance(given, str) else json.dumps(given) if given else ""
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _halves(written))
        case _:
            yield block


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


class Rewriter(Protocol):
    def feed(self, data: bytes) -> list[Output]: ...
    def close(self) -> list[Output]: ...
    def next_round(self) -> None: ...


@attrs.frozen
class Played:
    """The result of a played turn."""

    outputs: list[Output]

    @property
    def raw(self) -> bytes:
        return b"".join(output.raw for output in self.outputs)

    @property
    def ends(self) -> list[EndOfRound]:
        return [output for output in self.outputs if isinstance(output, EndOfRound)]


def play(
    rewriter: Rewriter, rounds: Sequence[bytes], pieces: Callable[[bytes], list[bytes]] = lambda raw: [raw]
) -> Played:
    """Feed rounds as a relay would: each one only when the previous one asks for it."""
    outputs: list[Output] = []
    for number, raw in enumerate(rounds):
        if number:
            assert isinstance(outputs[-1], EndOfRound)
            assert outputs[-1].next is Next.CONTINUE
            rewriter.next_round()
        for piece in pieces(raw):
            outputs += rewriter.feed(piece)
        outputs += rewriter.close()
    return Played(outputs)


def events_of(raw: bytes) -> list[Json]:
    """The events of a stream of complete frames, as a strict reader sees them."""
    assert raw.endswith(b"\n\n")
    events = []
    for part in raw.removesuffix(b"\n\n").split(b"\n\n"):
        name, data = part.split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        events.append(event)
    return events


def read_message(raw: bytes, *, streamed: bool) -> Json:
    """The message that a client reads from the bytes. The vendor's library reads them in ``tests/clients``."""
    kind = b"text/event-stream" if streamed else b"application/json"
    return message_of(RawReply(200, [(b"content-type", kind)], raw))
