"""Messages and items of OpenAI's dialects in the form of the Messages API (a role, and content as blocks), and the text
of each dialect's requests that a model reads.

Results have the role ``tool``. A call also has its arguments as they were written (``raw``); an item that is no
message, call or result is kept in its block (``item``).
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import orjson

from mnemosyne_lab.provider.reading import Body, Json, as_dict, as_list, blocks, messages, text_in, tools

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


# The items of a Responses body


def list_items(body: Body) -> list[dict[str, Json]]:
    """The input items that are objects, in order; a text is one user message."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [item for item in as_list(given) if isinstance(item, dict)]


def list_tools(body: Body) -> Iterator[dict[str, Json]]:
    """Every tool of the body and of its `additional_tools` items; `namespace` is the namespace of a tool in one."""
    offered = list(tools(body))
    for item in list_items(body):
        if item_type(item) == "additional_tools":
            offered += tools(item)
    for tool in offered:
        if tool.get("type") == "namespace":
            yield from ({**inner, "namespace": tool.get("name")} for inner in tools(tool))
        else:
            yield tool


def item_type(item: dict[str, Json]) -> str:
    """The type of an item; a message may leave it out."""
    return str(item.get("type", "message" if "role" in item else ""))


# Sealed reasoning: `encrypted_content` signs the text and the next item's name, so that every change is detected

_SIZE = 16


def name_item(item: dict[str, Json]) -> str:
    """The identity of an item, however a client echoes it: its type and, for a call, its id."""
    return f"{item.get('type')} {item.get('call_id', '')}".strip()


def seal(secret: bytes, following: str, text: str) -> str:
    """The seal of a text before the item of that name."""
    held = f"{following}\n{text}".encode()
    return base64.urlsafe_b64encode(_sign(secret, held) + held).decode()


def open_seal(secret: bytes, sealed: str) -> tuple[str, str]:
    """The name of the item that followed, and the text. Raises ValueError if ``seal`` did not make it."""
    held = base64.b64decode(sealed, altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(held).decode() != sealed:
        raise ValueError("the seal has another encoding")
    if not hmac.compare_digest(held[:_SIZE], _sign(secret, held[_SIZE:])):
        raise ValueError("the signature of the seal is wrong")
    following, _, text = held[_SIZE:].decode().partition("\n")
    return following, text


def _sign(secret: bytes, held: bytes) -> bytes:
    return hmac.new(secret, held, hashlib.sha256).digest()[:_SIZE]


# Prompts, as a chat template writes them: without ids, statuses and markers. A reply has the same form as the client's
# echo of it, unless the client omits something.


def wrap(role: str, text: str) -> str:
    return f"<|{role}|>\n{text}<|end|>\n"


def _dump(value: Json, *without: str) -> str:
    kept = {name: each for name, each in value.items() if name not in without} if isinstance(value, dict) else value
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS).decode()


def _write_tools(body: Body) -> str:
    return "".join(_dump(tool, "cache_control") + "\n" for tool in tools(body))


def write_messages(body: Body) -> str:
    """A prompt of the Messages API: tools, system, messages."""
    system = "".join(wrap("system", text_in(block)) for block in blocks(body.get("system")))
    return _write_tools(body) + system + "".join(map(write_message, messages(body)))


def write_chat(body: Body) -> str:
    """A prompt of Chat Completions: leading system messages, tools, the rest in order."""
    said = messages(body)
    written = [write_message(read_chat_message(each)) for each in said]
    leading = len([*takewhile(is_leading, said)])
    return "".join([*written[:leading], _write_tools(body), *written[leading:]])


def is_leading(message: Json) -> bool:
    """Whether a message of Chat Completions, if it comes first, is part of the instructions."""
    return as_dict(message).get("role") in SYSTEM


def write_responses(body: Body) -> str:
    """A prompt of Responses: instructions, tools, items in order."""
    instructions = body.get("instructions")
    system = wrap("system", instructions) if isinstance(instructions, str) else ""
    return system + _write_tools(body) + "".join(write_message(read_item(item)) for item in list_items(body))


def write_message(message: dict[str, Json]) -> str:
    return wrap(str(message.get("role")), write_blocks(blocks(message.get("content"))))


def write_blocks(content: list[dict[str, Json]]) -> str:
    return "".join(_write_block(each) for each in content)


def _write_block(block: dict[str, Json]) -> str:
    match block:
        case {"type": "text"}:
            return str(block.get("text"))
        case {"type": "thinking" | "compaction", "item": item}:
            return str(item.get("encrypted_content") or text_in(item.get("summary")))
        case {"item": item}:
            return _dump(item, "id", "status")
        case {"type": "thinking"}:
            return f"<|think|>{block.get('thinking')}<|/think|>"
        case {"type": "tool_use"}:
            return f"<|call|>{block.get('name')} {block['raw'] if 'raw' in block else _dump(block.get('input'))}"
        case {"type": "tool_result"}:
            return write_blocks(read_parts(block.get("content")))
    return _dump(block, "cache_control")
