"""Replies as the provider streams them."""

import json
from collections.abc import Iterator
from typing import Any

from mnemosyne.domain.wire.reply import Reply, ReplyBuilder

PIECE = 60
"""Characters of a delta."""

Event = dict[str, Any]


def message_events(message: Event, turn: int, read: int = 0) -> Iterator[Event]:
    """Yield all events of a message but the last; ``read`` is the number of tokens read from the cache."""
    usage = {"input_tokens": 12, "cache_read_input_tokens": read, "cache_creation_input_tokens": 0, "output_tokens": 1}
    opening = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": "benchmark", "content": []}
    yield {"type": "message_start", "message": {**opening, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for index, block in enumerate(blocks):
        yield from ({**event, "index": index} for event in _block_events(block))
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}


def _block_events(block: Event) -> Iterator[Event]:
    empty, deltas = block, list[Event]()
    match block:
        case {"type": "text", "text": str(text)}:
            empty = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(text)]
        case {"type": "thinking", "thinking": str(text)}:
            empty = {**block, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(text)]
            deltas.append({"type": "signature_delta", "signature": block.get("signature", "")})
        case {"type": "tool_use", "input": value}:
            empty = {**block, "input": {}}
            text = json.dumps(value, ensure_ascii=False)
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text)]
    yield {"type": "content_block_start", "content_block": empty}
    yield from ({"type": "content_block_delta", "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop"}


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def reply_of(message: Event, turn: int) -> Reply:
    """The same reply as the relay puts it together."""
    builder = ReplyBuilder()
    for event in message_events(message, turn):
        builder.take(event)
    builder.take({"type": "message_stop"})
    return builder.result()


def reply_in_one(message: Event, number: int) -> Reply:
    """A recorded message as a reply that did not stream."""
    builder = ReplyBuilder()
    builder.take_raw(json.dumps({"id": f"msg_{number}", **message}).encode())
    builder.end_raw()
    return builder.result()
