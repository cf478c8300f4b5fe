"""Compare messages: their normal form, its hash, and whether a client echoed a reply.

The provider's prefix check ignores key order, ``1`` against ``1.0``, a string against a single text block, white space
around a text block, white-space-only text blocks, and ``cache_control`` (Anthropic's preserved-thinking documentation,
as shipped with Claude Code 2.1.329). Clients use that freedom: Claude Code 2.1.329 turns ``[{"type":"text",…}]`` into a
string as soon as its cache marker moves on. Everything else counts, including every character of tool inputs and tool
results.
"""

import json
from collections.abc import Callable, Sequence
from enum import Enum
from hashlib import sha256
from typing import Any

from mnemosyne.domain.wire import json_values
from mnemosyne.domain.wire.blocks import is_any_call

Block = dict[str, Any]
"""A content block as parsed from JSON."""

THINKING = ("thinking", "redacted_thinking")
"""The types of thinking blocks: signed, never marked, and sent back completely or not at all. A tuple and not a set,
because a client may send an unhashable object as a type.
"""

ReadMessage = Callable[[dict[str, Any]], dict[str, Any]]

DEEPEST = 100
"""How many levels of nesting are normalized; deeper values are compared as raw bytes, independent of the interpreter's
stack.
"""


class TooDeep(ValueError):
    """A value is nested deeper than ``DEEPEST`` levels. Never raised out of this module."""


class Echo(Enum):
    """How a client's history shows a recorded reply."""

    SAME = "same"
    TRIMMED = "trimmed"
    """A prefix of it: the user interrupted, and the client kept what it had shown."""
    REWRITTEN = "rewritten"
    ABSENT = "absent"


def message_digest(raw: bytes, read: ReadMessage = lambda message: message) -> tuple[str, bytes]:
    """Return the role of a message and the SHA-256 of its normal form.

    For anything but a message of blocks, returns ``""`` and the hash of the bytes. ``read`` converts an element of
    another dialect to a message.
    """
    try:
        # Invalid bytes become lone surrogates: different texts stay different.
        parsed = json_values.read(raw.decode("utf-8", "surrogateescape"))
        if isinstance(parsed, dict) and holds_blocks(parsed):
            message = read(parsed)
            role = message.get("role")
            form = {**message, "content": content_form(message["content"])} if "content" in message else message
            return role if isinstance(role, str) else "", _digest(b"message\0", _canonical(form))
    except (ValueError, RecursionError):
        pass
    return "", sha256(b"bytes\0" + raw).digest()


def holds_blocks(message: dict[str, Any]) -> bool:
    """Return whether every element of a message's content is an object."""
    content = message.get("content")
    return not isinstance(content, list) or all(isinstance(block, dict) for block in content)


def system_digest(system: object) -> bytes:
    """Return the SHA-256 of a top-level ``system`` in normal form. Raises ValueError beyond ``DEEPEST``."""
    return _digest(b"system\0", _canonical(content_form(system)))


def tools_digest(tools: object) -> bytes:
    """Return the SHA-256 of ``tools`` in normal form, including their order. Raises ValueError beyond ``DEEPEST``."""
    bare = [_unmark(tool) for tool in tools] if isinstance(tools, list) else tools
    return _digest(b"tools\0", _canonical(bare))


def content_blocks(content: object) -> list[Block]:
    """Return the blocks of a parsed content: a string is one text block; items that are not objects are omitted."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def content_form(content: object) -> object:
    """Convert a message's content to a list of blocks: texts are stripped, and blank texts and cache markers
    removed.
    """
    blocks = _as_blocks(content)
    if not isinstance(blocks, list):
        return blocks
    formed = (_block_form(block) for block in blocks)
    return [block for block in formed if block != {"type": "text", "text": ""}]


def _block_form(block: object) -> object:
    if not isinstance(block, dict):
        return block
    form = _unmark(block)
    match form:
        case {"type": "text", "text": str(text)}:
            form["text"] = text.strip()
        case _ if is_any_call(form):
            pass  # input belongs to the tool: it contains no marker and no block
        case {"content": str() | list() as nested}:
            # A tool result's text is compared exactly, so nested texts keep their white space.
            form["content"] = _form_inside(nested)
        case {"source": {"content": list() as nested} as source}:
            form["source"] = {**source, "content": _form_inside(nested)}
    return form


def _form_inside(content: str | list[object]) -> object:
    blocks = _as_blocks(content)
    return [_unmark(block) for block in blocks] if isinstance(blocks, list) else blocks


def _as_blocks(content: object) -> object:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _unmark(block: object) -> Any:
    return {key: block[key] for key in block if key != "cache_control"} if isinstance(block, dict) else block


def _canonical(value: object, *, as_javascript: bool = False) -> bytes:
    plain = _plain_numbers(value, as_javascript, DEEPEST)
    # ASCII, because a lone surrogate has no UTF-8; JSON escapes keep different texts different.
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def _plain_numbers(value: object, as_javascript: bool, levels: int) -> object:
    if levels == 0:
        raise TooDeep
    match value:
        case dict():
            return {key: _plain_numbers(inner, as_javascript, levels - 1) for key, inner in value.items()}
        case list():
            return [_plain_numbers(inner, as_javascript, levels - 1) for inner in value]
        case float() if value.is_integer():
            return int(value)
        case int() if as_javascript and not isinstance(value, bool) and abs(value) > 2**53:
            return _round(value)
        case _:
            return value


def _round(value: int) -> object:
    """Return a large integer as a JavaScript client sends it back: converted through a double."""
    try:
        return int(float(value))
    except OverflowError:
        return None


def _digest(domain: bytes, canonical: bytes) -> bytes:
    digest = sha256(domain)
    digest.update(canonical)  # not concatenated: a body may have twenty megabytes
    return digest.digest()


def compare_blocks(echoed: Sequence[object], reply: Sequence[Block]) -> Echo:
    """Compare ``echoed``, the content of an assistant message, with the reply: SAME, TRIMMED or REWRITTEN.

    Apart from the normal form, these do not count: numbers converted by JavaScript (60000.0 comes back as 60000),
    members that are null on one side, and blocks of the reply without text or thinking, which clients drop.
    """
    theirs = [_comparable(block) for block in _form(echoed)]
    at = 0
    ours = _form(reply)
    for index, block in enumerate(ours):
        if at == len(theirs):
            return Echo.SAME if all(_may_be_dropped(remaining) for remaining in ours[index:]) else Echo.TRIMMED
        if theirs[at] == _comparable(block):
            at += 1
        elif not _may_be_dropped(block):
            last = at == len(theirs) - 1
            return Echo.TRIMMED if last and _is_cut_short(_form(echoed)[at], block) else Echo.REWRITTEN
    return Echo.SAME if at == len(theirs) else Echo.REWRITTEN


def share_words(one: Sequence[Block], other: Sequence[Block]) -> bool:
    """Return whether two contents have a text or a call in common."""
    forms = {_comparable(block) for block in _form(one) if _has_words(block)}
    return any(_comparable(block) in forms for block in _form(other) if _has_words(block))


def _has_words(block: object) -> bool:
    match block:
        case {"type": "text", "text": str(text)}:
            return bool(text.strip())
        case {"type": "tool_use"}:
            return True
        case _:
            return False


def _form(blocks: Sequence[object]) -> list[object]:
    form = content_form(list(blocks))
    return form if isinstance(form, list) else []


def _comparable(block: object) -> bytes:
    present = {key: value for key, value in block.items() if value is not None} if isinstance(block, dict) else block
    try:
        return _canonical(present, as_javascript=True)
    except (ValueError, RecursionError):
        return repr(block).encode("utf-8", "replace")


def _may_be_dropped(block: object) -> bool:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            return not text.strip()
        case _:
            return False


def _is_cut_short(echoed: object, block: object) -> bool:
    match echoed, block:
        case {"type": "text", "text": str(kept)}, {"type": "text", "text": str(whole)}:
            return whole.startswith(kept)
        case {"type": "thinking", "thinking": str(kept)}, {"type": "thinking", "thinking": str(whole)}:
            return whole.startswith(kept)
        case _:
            return False
