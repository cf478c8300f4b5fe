"""Replies that no script can make."""

import json

from campaigns.scenarios.agent import (
    model_replies,
)
from campaigns.scenarios.messages import Json
from mnemosyne_lab.provider.script import ScriptedReply


def broken(name: str, fragment: str) -> Json:
    """A call whose input never became JSON."""
    return {"type": "tool_use", "id": f"toolu_{name}{abs(hash(fragment)) % 10**9}", "name": name, "fragment": fragment}


def cut(name: str, given: Json) -> Json:
    return broken(name, json.dumps(given))


def streamed(*content: Json, stop: str = "tool_use") -> ScriptedReply:
    """A literal stream of texts and calls."""
    usage = {"input_tokens": 9, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0, "output_tokens": 40}
    message: Json = {"id": f"msg_{abs(hash(json.dumps(content))) % 10**9}", "type": "message", "role": "assistant"}
    message |= {"model": "claude-opus-5-5", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[Json] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(content):
        fragment = block.get("fragment")
        first = {**block, "text": ""} if fragment is None else {**block, "input": {}}
        first.pop("fragment", None)
        piece = {"type": "text_delta", "text": block.get("text")}
        delta = piece if fragment is None else {"type": "input_json_delta", "partial_json": fragment}
        events += [
            {"type": "content_block_start", "index": index, "content_block": first},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": stop, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return model_replies(raw={"headers": [["content-type", "text/event-stream"]], "body": body})
