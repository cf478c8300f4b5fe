"""A request as the text that a model reads, in each dialect, as a chat template writes it.

Ids, statuses and markers are excluded. A reply has the same form as the client's echo of it, unless the client omits
something.
"""

from itertools import takewhile

import orjson

from mnemosyne_lab.provider.reading import Body, Json, as_dict, as_list, blocks, messages, text_in, tools

_LEADING = {"system", "developer"}


def wrap(role: str, text: str) -> str:
    """One turn."""
    return f"<|{role}|>\n{text}<|end|>\n"


def write_call(name: str, arguments: str) -> str:
    """One tool call inside a turn."""
    return f"<|call|>{name} {arguments}"


def _dump(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def write_messages(body: Body) -> str:
    """A prompt of the Messages API: tools, system, messages."""
    offered = "".join(_dump(_strip_marker(tool)) + "\n" for tool in tools(body))
    system = "".join(wrap("system", text_in(block)) for block in blocks(body.get("system")))
    said = (wrap(str(each.get("role")), write_blocks(blocks(each.get("content")))) for each in messages(body))
    return offered + system + "".join(said)


def _strip_marker(block: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def write_blocks(content: list[dict[str, Json]]) -> str:
    """The content of one message of the Messages API."""
    return "".join(_block(each) for each in content)


def _block(block: dict[str, Json]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text"))
        case "thinking":
            return f"<|think|>{block.get('thinking')}<|/think|>"
        case "tool_use":
            return write_call(str(block.get("name")), _dump(block.get("input")))
        case "tool_result":
            return text_in(block.get("content"))
    return _dump(_strip_marker(block))


def write_chat(body: Body) -> str:
    """A prompt of Chat Completions: leading system messages, tools, the rest in order."""
    said = messages(body)
    leading = len([*takewhile(is_leading, said)])
    offered = "".join(_dump(tool) + "\n" for tool in tools(body))
    return "".join(map(write_chat_message, said[:leading])) + offered + "".join(map(write_chat_message, said[leading:]))


def is_leading(message: Json) -> bool:
    """Whether a message of Chat Completions, if it comes first, is part of the instructions."""
    return as_dict(message).get("role") in _LEADING


def write_chat_message(message: dict[str, Json]) -> str:
    """One message of Chat Completions."""
    reasoning = message.get("reasoning_content")
    thought = f"<|think|>{reasoning}<|/think|>" if reasoning else ""
    calls = "".join(_chat_call(as_dict(call)) for call in as_list(message.get("tool_calls")))
    return wrap(str(message.get("role")), thought + _parts(message.get("content")) + calls)


def _chat_call(call: dict[str, Json]) -> str:
    called = as_dict(call.get(str(call.get("type"))))
    return write_call(str(called.get("name")), str(called.get("arguments", called.get("input"))))


def _parts(content: Json) -> str:
    return "".join(str(part["text"]) if isinstance(part.get("text"), str) else _dump(part) for part in blocks(content))


def write_responses(body: Body, items: list[dict[str, Json]]) -> str:
    """A prompt of Responses: instructions, tools, items in order."""
    instructions = body.get("instructions")
    system = wrap("system", instructions) if isinstance(instructions, str) else ""
    offered = "".join(_dump(tool) + "\n" for tool in tools(body))
    return system + offered + "".join(map(write_item, items))


def write_item(item: dict[str, Json]) -> str:
    """One input or output item of Responses."""
    match item.get("type", "message"):
        case "message":
            return wrap(str(item.get("role")), _parts(item.get("content")))
        case "agent_message":
            return wrap("user", _parts(item.get("content")))
        case "function_call" | "custom_tool_call":
            return wrap("assistant", write_call(str(item.get("name")), str(item.get("arguments", item.get("input")))))
        case "function_call_output" | "custom_tool_call_output":
            return wrap("tool", _parts(item.get("output")))
        case "reasoning" | "compaction":
            return wrap("assistant", str(item.get("encrypted_content") or text_in(item.get("summary"))))
    return wrap("assistant", _dump({key: value for key, value in item.items() if key not in {"id", "status"}}))
