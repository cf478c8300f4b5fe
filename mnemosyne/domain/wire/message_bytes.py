"""Messages of the Messages API as bytes in a history: without cache markers, and never changed once written.

A client's message keeps its bytes except for what varies between requests: cache markers are removed, and a string
content is written as the equivalent text block, so that the bytes are the same with and without a marker.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from mnemosyne.domain.wire import json_spans, json_values
from mnemosyne.domain.wire.blocks import MARKER, is_blank
from mnemosyne.domain.wire.json_spans import Member, Range
from mnemosyne.domain.wire.normal_form import THINKING, Block, content_blocks
from mnemosyne.domain.wire.reply import as_json

_MARKER = b'"cache_control"'
NO_CONTENT = "(no content)"
"""The content of a message that would otherwise be empty, in Claude Code's own wording."""


def of_client(message: bytes, *, keep_thinking: bool = False) -> bytes:
    """Convert a client's message for sending upstream. An assistant message loses its thinking and blank texts."""
    message = as_valid(message)
    members = json_spans.members(message) or ()  # once: a session that begins to be managed reads all its messages
    place = _content_in(message, members)
    if place is None:
        return message
    start, end = place.value_start, place.value_end
    if message[start : start + 1] == b'"':
        blocks = [b'{"type":"text","text":' + message[start:end] + b"}"]
    else:
        blocks = [unmark(message[at:until]) for at, until in json_spans.elements(message, start) or ()]
        if not keep_thinking and _role_in(message, members) == "assistant":
            kept = [block for block in blocks if not _is_excluded(json_values.read(block))]
            blocks = kept if kept or not blocks else [as_json({"type": "text", "text": NO_CONTENT})]
    return message[:start] + b"[" + b",".join(blocks) + b"]" + message[end:]


def as_valid(element: bytes) -> bytes:
    """Return an element of a client's history as valid JSON. Invalid JSON is parsed leniently and written again."""
    return element if json_values.is_valid(element) else as_json(json_values.read(element))


def _is_excluded(block: Block) -> bool:
    return block.get("type") in THINKING or is_blank(block)


def of_assistant(blocks: Iterable[bytes]) -> bytes:
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}"


def of_results(results: Iterable[bytes]) -> bytes:
    """Write a message that contains only results of calls."""
    return b'{"role":"user","content":[' + b",".join(results) + b"]}"


def with_results(results: Sequence[bytes], message: bytes) -> bytes:
    """Put results in front of a user's message: results come before any other block (Messages API, tool use)."""
    place = _content(message)
    if place is None or not results:
        return message
    rest = message[place.value_start + 1 :]
    separator = b"" if rest.lstrip().startswith(b"]") else b","
    return message[: place.value_start + 1] + b",".join(results) + separator + rest


def with_block(message: bytes, block: bytes) -> bytes:
    """Append a block to a user's message. The message is returned unchanged if its content is not a non-empty list."""
    place = _content(message)
    if place is None or not blocks_of(message):
        return message
    return message[: place.value_end - 1] + b"," + block + message[place.value_end - 1 :]


def role_of(message: bytes) -> str:
    return _role_in(message, json_spans.members(message) or ())


def _role_in(message: bytes, members: Sequence[Member]) -> str:
    for member in reversed(members):
        if member.key == "role":
            role = json_values.read(message[member.value_start : member.value_end])
            return role if isinstance(role, str) else ""
    return ""


def blocks_of(message: bytes) -> list[bytes]:
    """Return the JSON of each content block; empty if the content is not a list."""
    return [message[start:end] for start, end in _ranges(message)]


def parse_blocks(message: bytes) -> list[Block]:
    """Parse the content blocks; a string is one text block."""
    place = _content(message)
    return content_blocks(json_values.read(message[place.value_start : place.value_end])) if place else []


def marker_in(message: bytes) -> bytes | None:
    """Return the JSON of the last cache marker on a block of the message, or on a nested block."""
    return _marker_in(blocks_of(message))


def _marker_in(blocks: Sequence[bytes]) -> bytes | None:
    for block in reversed(blocks):
        if _MARKER not in block:
            continue
        for member in json_spans.members(block) or ():
            if member.key == MARKER:
                return block[member.value_start : member.value_end]
        inside = _marker_in(blocks_of(block))
        if inside is not None:
            return inside
    return None


def mark(message: bytes, marker: bytes) -> bytes:
    """Put a cache marker on the last block that may carry one; ``unmark`` removes it."""
    for start, end in reversed(_ranges(message)):
        if _may_be_marked(json_values.read(message[start:end])):
            members = json_spans.members(message, start) or ()
            at = members[-1].value_end if members else end - 1
            return message[:at] + b',"cache_control":' + marker + message[at:]
    return message


def _may_be_marked(block: Any) -> bool:
    if not isinstance(block, dict) or block.get("type") in THINKING:
        return False
    return not is_blank(block)


def replace_marker(blocks: bytes, marker: bytes) -> bytes:
    """Replace the marker of each marked block in a JSON list of blocks."""
    at, parts = 0, []
    for start, _ in json_spans.elements(blocks, 0) or ():
        for member in json_spans.members(blocks, start) or ():
            if member.key == MARKER:
                parts += [blocks[at : member.value_start], marker]
                at = member.value_end
    return b"".join((*parts, blocks[at:]))


def unmark(block: bytes) -> bytes:
    """Return a block's JSON without its cache marker and without those of the blocks in its content."""
    return bare(_without_own_marker(block)) if _MARKER in block else block


def _without_own_marker(block: bytes) -> bytes:
    members = list(json_spans.members(block) or ())
    for number, member in enumerate(members):
        if member.key == MARKER:
            if number + 1 < len(members):
                return block[: member.start] + block[members[number + 1].start :]
            start = members[number - 1].value_end if number else member.start
            return block[:start] + block[member.value_end :]
    return block


def bare(message: bytes) -> bytes:
    """Remove the cache markers from a message that was sent, which gives its form in the history."""
    if _MARKER not in message:
        return message
    place = _content(message)
    if place is None or message[place.value_start : place.value_start + 1] == b'"':
        return message
    blocks = b",".join(unmark(block) for block in blocks_of(message))
    return message[: place.value_start] + b"[" + blocks + b"]" + message[place.value_end :]


def _content(message: bytes) -> Member | None:
    """Locate the content of a message, if it is a string or a list. If the key is repeated, JSON parsers use the last
    one.
    """
    return _content_in(message, json_spans.members(message) or ())


def _content_in(message: bytes, members: Sequence[Member]) -> Member | None:
    contents = [member for member in members if member.key == "content"]
    is_read = contents and message[contents[-1].value_start : contents[-1].value_start + 1] in (b"[", b'"')
    return contents[-1] if is_read else None


def _ranges(message: bytes) -> tuple[Range, ...]:
    place = _content(message)
    spans = json_spans.elements(message, place.value_start) if place is not None else None
    return tuple(spans or ())
