"""What blocks of messages are, calls and results, and what they hold: their text, and what a stub says of the rest."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mnemosyne.domain.text.stubs import attachment

Block = Mapping[str, Any]

CALL, RESULT = "tool_use", "tool_result"
"""The types of a call of the client's or of ours, and of its result."""
_CALLS = frozenset({CALL, "server_tool_use", "mcp_tool_use"})
_ATTACHMENTS = frozenset({"image", "document"})

MARKER = "cache_control"
"""The member of a block or a tool by which a client marks it for the provider's cache."""

HIDDEN = frozenset({"data", "signature", "encrypted_content"})
"""Members that no model reads as words."""

_DEEPEST = 20
"""Blocks within blocks that are looked into."""


def type_of(block: Block) -> str:
    """The type of a block; empty if it has none."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def is_call(block: Block) -> bool:
    """Whether it calls a tool of the client's or of ours, so that the next message has to bring its result."""
    return block.get("type") == CALL


def is_result(block: Block) -> bool:
    """Whether it is the result of such a call."""
    return block.get("type") == RESULT


def has_results(blocks: Iterable[Block]) -> bool:
    """Whether a message with these blocks brings results, so that nobody typed it."""
    return any(map(is_result, blocks))


def is_prompt(role: object, content: Iterable[Block]) -> bool:
    """Whether a message has the user's role and holds no results of tools. The client may have written it."""
    return role == "user" and not has_results(content)


def is_blank(block: Block) -> bool:
    """Whether it is a text without a word, which models write and a request had better not hold."""
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def is_any_call(block: Block) -> bool:
    """Whether it calls a tool, be it such a one or one that the provider runs."""
    return type_of(block) in _CALLS


def is_any_result(block: Block) -> bool:
    """Whether it answers a call: the client's results and those of the provider's own tools."""
    return type_of(block).endswith(RESULT)


def call_id_of(result: Block) -> str | None:
    """The id of the call that a result answers, as text whatever was sent; None for other blocks."""
    found = result.get("tool_use_id")
    return None if found is None else str(found)


def has_failed(result: Block) -> bool:
    """Whether a result says that its call failed: the client's, or a tool's that the provider ran."""
    content = result.get("content")
    by_provider = isinstance(content, Mapping) and str(content.get("type")).endswith("_error")
    return result.get("is_error") is True or by_provider


def is_provider_summary(block: Block) -> bool:
    """Whether the provider put it in the place of what came before."""
    return type_of(block) == "compaction"


def marker_of(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The marker that a block or a tool bears."""
    marker = value.get(MARKER)
    return marker if isinstance(marker, dict) else None


def without_marker(value: Mapping[str, Any]) -> dict[str, Any]:
    """A block or a tool without its marker."""
    return {key: item for key, item in value.items() if key != MARKER}


def text_of(block: Block, depth: int = 0) -> str:
    """The text of a block. Images and documents are named, not shown; what is unknown is written as JSON."""
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
            return "\n".join(_each(content, depth + 1))
        case _:
            return "" if is_any_result(block) and not block.get("content") else as_json(block)


def list_attached(block: Block) -> list[Block]:
    """The images and documents in a block."""
    content = block.get("content")
    inner = content if isinstance(content, list) else [block]
    return [each for each in inner if isinstance(each, Mapping) and type_of(each) in _ATTACHMENTS]


def attachments(block: Block) -> list[str]:
    """The same as a stub says them."""
    return [attachment(each) for each in list_attached(block)]


def is_referenced(block: Block) -> bool:
    """Whether the provider knows an image or document by more than its bytes: by an address, as one of its files, or by
    its place among the documents that are cited.
    """
    source, citations = block.get("source"), block.get("citations")
    return (isinstance(source, Mapping) and source.get("type") in ("url", "file")) or (
        isinstance(citations, Mapping) and citations.get("enabled") is True
    )


def is_named_only(block: Block) -> bool:
    """Whether the text of an image or document says no more than that it is there."""
    return text_of(block) == f"[{attachment(block)}]"


def as_json(value: object) -> str:
    """JSON on one line, keys in order."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    except (ValueError, TypeError, RecursionError):
        return str(type(value).__name__)


def _each(content: Iterable[object], depth: int) -> Iterable[str]:
    for each in content:
        if isinstance(each, Mapping):
            yield text_of(each, depth)
        else:
            yield each if isinstance(each, str) else as_json(each)


def _input_text(value: object) -> str:
    """A call's input as text: long strings as they are, so that what was written can be found in it."""
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else as_json(value)
    return "\n".join(f"{key}: {each if isinstance(each, str) else as_json(each)}" for key, each in value.items())
