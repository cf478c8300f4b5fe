"""A request as the text that a model reads, in each dialect, as a chat template writes it.

Ids, statuses and markers are excluded. A reply has the same form as the client's echo of it, unless the client omits
something.
"""

from itertools import takewhile

import orjson

from mnemosyne_lab.provider.openai_messages import SYSTEM, read_chat_message, read_item, read_parts
from mnemosyne_lab.provider.reading import Body, Json, as_dict, blocks, messages, text_in, tools
from mnemosyne_lab.provider.responses import list_items


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
