"""Handmade event streams, for the tests of what relays and reads them."""

import itertools
import json
from typing import Any

Block = list[dict[str, Any]]
"""A content block as its start and its deltas."""


def frame(event: dict[str, Any], newline: str = "\n") -> bytes:
    """One frame as the provider writes it."""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}{newline}data: {data}{newline}{newline}".encode()


def message(*blocks: Block, stop_reason: str = "end_turn") -> list[dict[str, Any]]:
    """The events of a whole message; each block is its start and deltas."""
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": []}
    usage = {"input_tokens": 12, "cache_read_input_tokens": 100, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "usage": usage}},
        {"type": "ping"},
    ]
    for index, (first, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 9}})
    events.append({"type": "message_stop"})
    return events


THINKING: Block = [
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Let me see."},
    {"type": "signature_delta", "signature": "c2ln"},
]
TEXT: Block = [
    {"type": "text", "text": ""},
    {"type": "text_delta", "text": "Zwölf\u2028Boxkämpfer\x85"},
    {"type": "text_delta", "text": " 😀\r\n"},
]
TOOL: Block = [
    {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"file_pa'},
    {"type": "input_json_delta", "partial_json": 'th":"/a"}'},
]


def stream(events: list[dict[str, Any]], newline: str = "\n") -> bytes:
    """The bytes of a stream, with a comment and an unknown field in it."""
    head = f": opened{newline}{newline}retry: 10{newline}{newline}".encode()
    return head + b"".join(frame(event, newline) for event in events)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """The data in pieces, cut at the given places."""
    edges = [0, *sorted({place % (len(data) + 1) for place in at}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]
