r"""A strict reader of the Messages API for the judge, which shares no code with the proxy.

It reads a reply from its bytes alone, streamed or whole. Each deviation from the API's documentation is a fault, as
a sentence.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne_lab.provider.openai_messages import read_input
from tests.http.managing import bare

Json = dict[str, Any]

MEMORY_TOOLS = frozenset({"memory_query", "memory_restore", "memory_release", "memory_search", "memory_tool"})
"""The names that no client may ever see in a call."""

BILLING = "x-anthropic-billing-header:"
THINKING = ("thinking", "redacted_thinking")

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
    "citations_delta": ("text", "citation"),
}


@attrs.define
class ReadReply:
    """A reply as a strict client reads it. ``message`` holds the part that arrived."""

    status: int
    message: Json = attrs.field(factory=dict)
    faults: list[str] = attrs.field(factory=list)
    usages: list[Json] = attrs.field(factory=list)
    error: str | None = None
    """The type of the error that came, as a body or as an event."""
    ended: bool = False

    @property
    def content(self) -> list[Json]:
        content: list[Json] = self.message.get("content", [])
        return content


def read_reply(status: int, headers: Mapping[str, str], raw: bytes, *, cut: bool = False) -> ReadReply:
    reply = ReadReply(status)
    if headers.get("content-encoding") == "gzip":
        raw = gzip.decompress(raw)
    if headers.get("content-type", "").startswith("text/event-stream"):
        _Stream(reply).read(raw, cut=cut)
    elif (found := read_whole(reply, raw, cut=cut)) is not None:
        reply.message, reply.usages = found, [found.get("usage", {})]
    return reply


def read_whole(reply: ReadReply, raw: bytes, *, cut: bool) -> Json | None:
    """The body of a reply that is not streamed; None if it is an error, or no JSON."""
    try:
        found: Json = json.loads(raw)
    except ValueError:
        if not cut:
            reply.faults.append("the body is not JSON")
        return None
    if found.get("error") is not None or reply.status != 200:
        reply.error = str(found.get("error", {}).get("type"))
        return None
    reply.ended = not cut
    return found


def read_events(reply: ReadReply, raw: bytes, *, cut: bool) -> Iterator[Json]:
    """The events of a stream. The end of a stream in OpenAI's form is one of the type ``done``."""
    frames = raw.split(b"\n\n")
    if frames.pop() and not cut:
        reply.faults.append("the stream ends in the midst of a frame")
    for frame in frames:
        lines = [line for line in frame.split(b"\n") if line and not line.startswith(b":")]
        fields = dict(line.split(b": ", 1) for line in lines)
        if fields.get(b"data") == b"[DONE]":
            yield {"type": "done"}
        elif fields:
            try:
                event = json.loads(fields[b"data"])
            except (KeyError, ValueError):
                reply.faults.append(f"a frame that is no event: {frame[:80]!r}")
                continue
            if fields.get(b"event", b"").decode() != event.get("type", ""):
                reply.faults.append(f"an event is named {fields.get(b'event')!r} and is {event.get('type')!r}")
            yield event


class _Stream:
    def __init__(self, reply: ReadReply) -> None:
        self._reply = reply
        self._open: Json | None = None
        self._json = ""
        self._next = 0
        self._told_end = False

    def read(self, raw: bytes, *, cut: bool) -> None:
        for event in read_events(self._reply, raw, cut=cut):
            self._take(event)
        if not self._reply.ended and self._reply.error is None and not cut:
            self._fault("the stream ends without message_stop")

    def _fault(self, words: str) -> None:
        self._reply.faults.append(words)

    def _take(self, event: Json) -> None:
        kind = event["type"]
        if self._reply.ended or self._reply.error is not None:
            self._fault(f"{kind} behind the end")
        if kind not in ("message_start", "ping", "error") and not self._reply.message:
            self._fault(f"{kind} before message_start")
        match kind:
            case "message_start" if self._reply.message:
                self._fault("a second message_start")
            case "message_start":
                self._reply.message = {**event["message"], "content": []}
                self._reply.usages.append(event["message"].get("usage", {}))
                if event["message"].get("content") != []:
                    self._fault("message_start brings content")
            case "content_block_start":
                self._start(event)
            case "content_block_delta":
                self._delta(event)
            case "content_block_stop":
                self._stop(event)
            case "message_delta":
                if self._open is not None:
                    self._fault("message_delta within a block")
                self._told_end = True
                self._reply.message.update(event["delta"])
                self._reply.usages.append(event.get("usage", {}))
            case "message_stop":
                self._reply.ended = True
                if not self._told_end or self._open is not None:
                    self._fault("message_stop without message_delta, or within a block")
            case "error":
                self._reply.error = str(event["error"]["type"])
            case "ping":
                pass
            case _:
                self._fault(f"an unknown event: {kind}")

    def _start(self, event: Json) -> None:
        if self._open is not None or self._told_end:
            self._fault("a block begins within a block, or behind message_delta")
        if event["index"] != self._next:
            self._fault(f"block {event['index']} where {self._next} comes next")
        self._next = event["index"] + 1
        self._open, self._json = dict(event["content_block"]), ""

    def _delta(self, event: Json) -> None:
        delta = event["delta"]
        expected = _DELTAS.get(delta["type"])
        if self._open is None or event["index"] != self._next - 1 or expected is None:
            self._fault(f"a delta that belongs to no block: {delta}")
            return
        kind, key = expected
        if self._open["type"] != kind:
            self._fault(f"{delta['type']} in a block of type {self._open['type']}")
        elif key == "partial_json":
            self._json += delta[key]
        elif key == "citation":
            self._open.setdefault("citations", []).append(delta[key])
        else:
            self._open[key] = self._open.get(key, "") + delta[key]

    def _stop(self, event: Json) -> None:
        if self._open is None or event["index"] != self._next - 1:
            self._fault("a block ends that is not open")
            return
        if self._open["type"] == "tool_use":
            self._open["input"] = read_input(self._json)
        self._reply.content.append(self._open)
        self._open = None


def blocks_of(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def messages_of(body: Json) -> list[Json]:
    return [{**message, "content": blocks_of(message["content"])} for message in body["messages"]]


def frame_of(body: Json) -> list[Json]:
    """Tools and the system prompt without its billing entry, without markers."""
    system = [each for each in blocks_of(body.get("system") or []) if not each["text"].startswith(BILLING)]
    return [bare(piece) for piece in (*body.get("tools", []), *system)]


def prompt_of(body: Json) -> list[str]:
    """The prompt as the provider caches it, piece by piece."""
    pieces: list[Any] = frame_of(body)
    for message in messages_of(body):
        options = {key: value for key, value in message.items() if key != "content"}
        if not message["content"]:
            pieces.append(options)
        pieces += [{**options, "block": block} for block in message["content"]]
    return [json.dumps(bare(piece)) for piece in pieces]


def is_hidden(block: Json) -> bool:
    """Whether a block is a call that the client must not see."""
    return block.get("type") == "tool_use" and block.get("name") in MEMORY_TOOLS


def attachments_in(content: Sequence[Json]) -> Iterator[Json]:
    """Images and documents, including those within results."""
    for block in content:
        if block.get("type") in ("image", "document"):
            yield bare(block)
        elif isinstance(block.get("content"), list):
            yield from attachments_in(block["content"])
