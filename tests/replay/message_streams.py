"""Requests and replies as bytes: JSON in the clients' format, and the event stream of a message."""

import json
from collections.abc import Iterator
from typing import Any

from mnemosyne.domain.wire.exchange import ReplyHead

Json = dict[str, Any]

MARKER = {"type": "ephemeral"}

STREAM = ReplyHead(200, ((b"content-type", b"text/event-stream"),))


def dumps(value: object) -> bytes:
    """JSON as JavaScript writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def blocks_of(message: Json) -> list[Json]:
    """The blocks of a message, also of one that is a text."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def as_string(message: Json) -> Json:
    """A message of one text as clients send it once it is not the last."""
    match message:
        case {"role": "user", "content": [{"type": "text", "text": str(text)}]}:
            return {**message, "content": text}
        case _:
            return message


def mark(message: Json) -> Json:
    """A message with a cache marker at its end."""
    blocks = blocks_of(message)
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": MARKER}]} if blocks else message


def stream_of_message(message: Json) -> bytes:
    """The event stream of a message: one delta for each block."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), dumps(event)) for event in _events(message))


def _events(message: Json) -> Iterator[Json]:
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    start = message | {"content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _opening(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _opening(block: Json) -> Json:
    match block:
        case {"type": "text", "text": str()}:
            return block | {"text": ""}
        case {"type": "thinking", "thinking": str()}:
            return block | {"thinking": "", "signature": ""}
        case {"type": "tool_use"}:
            return block | {"input": {}}
        case _:
            return block


def _deltas(block: Json) -> Iterator[Json]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield {"type": "text_delta", "text": text}
        case {"type": "thinking", "thinking": str(text)}:
            yield {"type": "thinking_delta", "thinking": text}
            if isinstance(block.get("signature"), str):
                yield {"type": "signature_delta", "signature": block["signature"]}
        case {"type": "tool_use"}:
            yield {"type": "input_json_delta", "partial_json": dumps(block.get("input", {})).decode()}
