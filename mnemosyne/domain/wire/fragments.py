"""Read a single block of another dialect from its JSON. The shape of the JSON shows what kind of block it is.

Shapes: Chat Completions and Responses as typed by openai 3.52.0, and as opencode 1.18.33 and Codex 0.169.0 send them.
"""

from collections.abc import Mapping
from typing import Any

from mnemosyne.domain.wire.reply import read_input

Fragment = dict[str, Any]

_TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "summary_text": "text", "refusal": "refusal"}
"""The types of text parts, and the member that holds the text."""

_IMAGES = frozenset({"image_url", "input_image"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})


def read_block(value: Any) -> Fragment:
    """Convert a piece of a message's JSON to a block; ``{}`` if it is not one. A string is a text block."""
    match value:
        case str(text):
            return {"type": "text", "text": text}
        case {"role": "tool" | "function"} if "type" not in value:
            return _result(value.get("tool_call_id", value.get("name")), value.get("content"))
        case {"function": {"name": str(name)} as called} if value.get("type", "function") == "function":
            return _call(value.get("id"), name, _arguments(called.get("arguments")))
        case {"type": "custom", "custom": {"name": str(name)} as called}:
            return _call(value.get("id"), name, called.get("input"))
        case {"type": "function_call", "name": str(name)}:
            return _call(value.get("call_id"), name, _arguments(value.get("arguments")))
        case {"type": "custom_tool_call", "name": str(name)}:
            return _call(value.get("call_id"), name, value.get("input"))
        case {"type": "local_shell_call", "action": dict(action)}:
            return _call(value.get("call_id"), "local_shell", action)
        case {"type": str(kind), "output": output} if kind in _OUTPUTS:
            return _result(value.get("call_id"), output)
        case {"type": "reasoning"}:
            return _thinking(value)
        case {"type": str(kind)} if kind in _TEXTS and isinstance(value.get(_TEXTS[kind]), str):
            return {**value, "type": "text", "text": value[_TEXTS[kind]]} if kind != "text" else dict(value)
        case {"type": str(kind)} if kind in _IMAGES:
            return _image(value)
        case dict():
            return value
        case _:
            return {}


def read_parts(content: object) -> list[Fragment]:
    """Return the blocks of a content. A string is one block; items that are not blocks are omitted."""
    if isinstance(content, str):
        return [read_block(content)]
    return [read_block(part) for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []


def thinking_of(text: str) -> Fragment:
    return {"type": "thinking", "thinking": text}


def name_of_tool(tool: object) -> str:
    """Return the name of a tool in a request; for a tool that the provider runs, its type."""
    match tool:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return name
        case {"type": str(kind)}:
            return kind
        case _:
            return ""


def _call(identity: object, name: str, arguments: object) -> Fragment:
    return {"type": "tool_use", "id": _text(identity), "name": name, "input": arguments}


def _text(identity: object) -> str:
    """Return an id as text: some servers number their calls."""
    return "" if identity is None else str(identity)


def _arguments(text: object) -> object:
    """Parse arguments. They are JSON text that the model wrote, which may be incomplete or invalid."""
    if not isinstance(text, str):
        return {} if text is None else text
    return read_input(text) if text.strip() else {}


def _result(identity: object, content: object) -> Fragment:
    parts = content if isinstance(content, str) else read_parts(content)
    return {"type": "tool_result", "tool_use_id": _text(identity), "content": parts}


def _list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _thinking(item: Mapping[str, Any]) -> Fragment:
    texts = [
        str(part.get("text", ""))
        for name in ("summary", "content")
        for part in _list_of(item.get(name))
        if isinstance(part, Mapping)
    ]
    sealed = item.get("encrypted_content")
    block = thinking_of("\n".join(texts))
    return {**block, "signature": sealed} if isinstance(sealed, str) else block


def _image(part: Mapping[str, Any]) -> Fragment:
    source = part.get("image_url")
    url = source.get("url") if isinstance(source, Mapping) else source
    if not isinstance(url, str):
        return {"type": "image", "source": {"type": "file", "file_id": part.get("file_id")}}
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:"):
        return {"type": "image", "source": {"type": "base64", "media_type": head[5:].split(";")[0], "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}
