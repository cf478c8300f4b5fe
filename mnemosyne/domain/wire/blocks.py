"""Content blocks: calls, results and attachments, their text, and how a stub describes them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.domain.text.stubs import attachment

Block = Mapping[str, Any]

CALL, RESULT = "tool_use", "tool_result"
"""The block types of calls to tools of the client or the proxy, and of their results."""
_CALLS = frozenset({CALL, "server_tool_use", "mcp_tool_use"})
_ATTACHMENTS = frozenset({"image", "document"})

MARKER = "cache_control"
"""The key of a cache marker in a block or a tool."""

CALL_IDS = frozenset({"id", "tool_use_id"})
"""Members with the id of a call."""

HIDDEN = frozenset({"data", "signature", "encrypted_content"})
"""Members that the model does not read as text."""

_DEEPEST = 20
"""How many levels of nested blocks are read."""


def type_of(block: Block) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def is_call(block: Block) -> bool:
    """Return whether the block calls a tool of the client or the proxy. The next message must hold its result."""
    return block.get("type") == CALL


def is_result(block: Block) -> bool:
    """Return whether the block is the result of such a call."""
    return block.get("type") == RESULT


def has_results(blocks: Iterable[Block]) -> bool:
    """Return whether any block is a tool result, which means that no person typed the message."""
    return any(map(is_result, blocks))


def is_prompt(role: object, content: Iterable[Block]) -> bool:
    """Whether a message has the user's role and holds no results of tools. The client may have written it."""
    return role == "user" and not has_results(content)


def is_blank(block: Block) -> bool:
    """Return whether the block is a blank text. Models write such blocks, but requests should not contain them."""
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def is_any_call(block: Block) -> bool:
    """Return whether the block calls any tool, including one that the provider runs."""
    return type_of(block) in _CALLS


def is_any_result(block: Block) -> bool:
    """Return whether the block answers any call, including one to a tool that the provider runs."""
    return type_of(block).endswith(RESULT)


def call_id_of(result: Block) -> str | None:
    """Return the id of the call that a result answers, converted to text; None for other blocks."""
    call_id = result.get("tool_use_id")
    return None if call_id is None else str(call_id)


def has_failed(result: Block) -> bool:
    """Return whether a result reports that its call failed, including calls to tools that the provider runs."""
    content = result.get("content")
    by_provider = isinstance(content, Mapping) and str(content.get("type")).endswith("_error")
    return result.get("is_error") is True or by_provider


def is_provider_summary(block: Block) -> bool:
    """Return whether the block is a compaction summary written by the provider."""
    return type_of(block) == "compaction"


def marker_of(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the cache marker of a block or a tool."""
    marker = value.get(MARKER)
    return marker if isinstance(marker, dict) else None


def without_marker(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block or a tool without its cache marker."""
    return {key: item for key, item in value.items() if key != MARKER}


def text_of(block: Block, depth: int = 0) -> str:
    """Return the text of a block. Images and documents are named, not shown; unknown blocks are written as JSON."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "thinking" | "redacted_thinking"}:
            return ""
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return text
        case {"type": "image" | "document"}:
            return f"[{attachment(block)}]"
        case _ if is_any_call(block):
            return _input_text(block.get("input"))
        case {"content": str(text)} if is_any_result(block):
            return text
        case {"content": list(content)} if depth < _DEEPEST:
            return "\n".join(_texts_of(content, depth + 1))
        case _:
            return "" if is_any_result(block) and not block.get("content") else as_json(block)


def texts_in(content: object) -> list[str]:
    """Return the texts of a message's content: the content if it is a text, else the texts of its blocks."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def list_attached(block: Block) -> list[Block]:
    """Return the images and documents in a block."""
    content = block.get("content")
    parts = content if isinstance(content, list) else [block]
    return [part for part in parts if isinstance(part, Mapping) and type_of(part) in _ATTACHMENTS]


def attachments(block: Block) -> list[str]:
    """Describe the images and documents in a block, as stubs do."""
    return [attachment(block) for block in list_attached(block)]


def is_referenced(block: Block) -> bool:
    """Return whether an image or document is identified by more than its bytes: by a URL, by a file id, or by its place
    among the documents that the model may cite.
    """
    source, citations = block.get("source"), block.get("citations")
    return (isinstance(source, Mapping) and source.get("type") in ("url", "file")) or (
        isinstance(citations, Mapping) and citations.get("enabled") is True
    )


def is_named_only(block: Block) -> bool:
    """Return whether the text of an image or document is only its name."""
    return text_of(block) == f"[{attachment(block)}]"


def as_json(value: object) -> str:
    """Write a value as JSON on one line with sorted keys."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(type(value).__name__)


def _texts_of(content: Iterable[object], depth: int) -> Iterable[str]:
    for part in content:
        if isinstance(part, Mapping):
            yield text_of(part, depth)
        else:
            yield part if isinstance(part, str) else as_json(part)


def _input_text(value: object) -> str:
    """Return a call's input as text. Long strings are not escaped, so that a search finds what the model wrote."""
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else as_json(value)
    return "\n".join(f"{key}: {item if isinstance(item, str) else as_json(item)}" for key, item in value.items())
