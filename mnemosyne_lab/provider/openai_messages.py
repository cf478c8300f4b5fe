"""Messages and items of OpenAI's dialects in the form of the Messages API: a role, and content as blocks.

Results have the role ``tool``. A call also has its arguments as they were written (``raw``); an item that is no
message, call or result is kept in its block (``item``).
"""

import json
from typing import Any

from mnemosyne_lab.provider.reading import Json, as_dict, as_list, blocks
from mnemosyne_lab.provider.responses import item_type

SYSTEM = frozenset({"system", "developer"})
_INPUTS = {"function_call": "arguments", "custom_tool_call": "input"}
"""The types of call items, with the member that holds the input."""


def read_chat_message(message: dict[str, Json]) -> dict[str, Any]:
    role, thought = str(message.get("role")), message.get("reasoning_content")
    if role == "tool":
        return _result(message.get("tool_call_id"), message.get("content"))
    content: list[dict[str, Any]] = [{"type": "thinking", "thinking": thought}] if thought else []
    content += read_parts(message.get("content"))
    for call in map(as_dict, as_list(message.get("tool_calls"))):
        called = as_dict(call.get(str(call.get("type"))))
        content.append(_call(call.get("id"), called.get("name"), called.get("arguments", called.get("input"))))
    return {"role": role, "content": content}


def read_item(item: dict[str, Json]) -> dict[str, Any]:
    kind = item_type(item)
    if kind in ("message", "agent_message"):
        return {"role": str(item.get("role", "user")), "content": read_parts(item.get("content"))}
    if kind.endswith("_output"):
        return _result(item.get("call_id"), item.get("output"))
    if kind in _INPUTS:
        block = _call(item.get("call_id"), item.get("name"), item.get(_INPUTS[kind]))
    else:
        block = {"type": "thinking" if kind == "reasoning" else kind, "item": item}
    return {"role": "assistant", "content": [block]}


def read_parts(content: Json) -> list[dict[str, Any]]:
    """Content as blocks: each part with a text is a text block; an empty text gives no block."""
    parts = blocks(content) if content else []
    return [{"type": "text", "text": part["text"]} if isinstance(part.get("text"), str) else part for part in parts]


def _call(identity: Json, name: Json, raw: Json) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": read_input(raw), "raw": raw}


def _result(identity: Json, content: Json) -> dict[str, Any]:
    return {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": identity, "content": content}]}


def read_input(written: Json) -> Json:
    """The input of a call as a client parses it; invalid JSON stays text."""
    try:
        return json.loads(written or "{}") if isinstance(written, str) else written
    except ValueError:
        return written
