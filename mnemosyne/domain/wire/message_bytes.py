"""Messages as they stand in a wire history: the bytes of each, without cache markers, made once and never again.

A client's message keeps its bytes but for what moves from request to request: markers are cut out, and a string is
written as the one text block that it means, so that the bytes are the same with and without a marker.
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
"""Stands where a message would be empty: Claude Code's own words."""


def of_client(message: bytes, *, keep_thinking: bool = False) -> bytes:
    """A client's message as it goes upstream; of the assistant's without thinking and blank texts."""
    message = as_valid(message)
    place = _content(message)
    if place is None:
        return message
    start, end = place.value_start, place.value_end
    if message[start : start + 1] == b'"':
        blocks = [b'{"type":"text","text":' + message[start:end] + b"}"]
    else:
        blocks = [unmark(block) for block in blocks_of(message)]
        if not keep_thinking and role_of(message) == "assistant":
            kept = [block for block in blocks if not _is_left_out(json_values.read(block))]
            blocks = kept if kept or not blocks else [as_json({"type": "text", "text": NO_CONTENT})]
    return message[:start] + b"[" + b",".join(blocks) + b"]" + message[end:]


def as_valid(element: bytes) -> bytes:
    """An element of a client's history as it goes upstream beside bytes of ours: what is not JSON in it is read as a
    lenient parser does, and written again.
    """
    return element if json_values.is_valid(element) else as_json(json_values.read(element))


def _is_left_out(block: Block) -> bool:
    return block.get("type") in THINKING or is_blank(block)


def of_assistant(blocks: Iterable[bytes]) -> bytes:
    """A message of the model's."""
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}"


def of_results(results: Iterable[bytes]) -> bytes:
    """A message that holds nothing but results of calls."""
    return b'{"role":"user","content":[' + b",".join(results) + b"]}"


def with_results(results: Sequence[bytes], message: bytes) -> bytes:
    """A user's message behind the results of calls: results come before any other block (Messages API, tool use)."""
    place = _content(message)
    if place is None or not results:
        return message
    rest = message[place.value_start + 1 :]
    separator = b"" if rest.lstrip().startswith(b"]") else b","
    return message[: place.value_start + 1] + b",".join(results) + separator + rest


def with_block(message: bytes, block: bytes) -> bytes:
    """A user's message with one more block at its end; as it is where its content is no list with something in it."""
    place = _content(message)
    if place is None or not blocks_of(message):
        return message
    return message[: place.value_end - 1] + b"," + block + message[place.value_end - 1 :]


def role_of(message: bytes) -> str:
    """The role of a message, ``""`` if it has none."""
    for member in reversed(json_spans.members(message) or ()):
        if member.key == "role":
            role = json_values.read(message[member.value_start : member.value_end])
            return role if isinstance(role, str) else ""
    return ""


def blocks_of(message: bytes) -> list[bytes]:
    """The JSON of each content block; none where the content is no list."""
    return [message[start:end] for start, end in _ranges(message)]


def parse_blocks(message: bytes) -> list[Block]:
    """The content blocks; a string is one text block."""
    place = _content(message)
    return content_blocks(json_values.read(message[place.value_start : place.value_end])) if place else []


def marker_in(message: bytes) -> bytes | None:
    """The last cache marker on a block of the message, or on one inside of a block, as its JSON."""
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
    """The message with a cache marker on its last block that may carry one; ``unmark`` takes it away again."""
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
    """A list of blocks, each that is marked with another marker."""
    at, parts = 0, []
    for start, _ in json_spans.elements(blocks, 0) or ():
        for member in json_spans.members(blocks, start) or ():
            if member.key == MARKER:
                parts += [blocks[at : member.value_start], marker]
                at = member.value_end
    return b"".join((*parts, blocks[at:]))


def unmark(block: bytes) -> bytes:
    """A block's JSON without its cache marker, and without those of the blocks in its content."""
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
    """A message of a body that was sent, as it stands in the wire history: without markers on the blocks of its
    content.
    """
    if _MARKER not in message:
        return message
    place = _content(message)
    if place is None or message[place.value_start : place.value_start + 1] == b'"':
        return message
    blocks = b",".join(unmark(block) for block in blocks_of(message))
    return message[: place.value_start] + b"[" + blocks + b"]" + message[place.value_end :]


def _content(message: bytes) -> Member | None:
    """Where the content of a message is, if it is a string or a list. Of one that is given twice, JSON parsers take
    the last.
    """
    contents = [member for member in json_spans.members(message) or () if member.key == "content"]
    is_read = contents and message[contents[-1].value_start : contents[-1].value_start + 1] in (b"[", b'"')
    return contents[-1] if is_read else None


def _ranges(message: bytes) -> tuple[Range, ...]:
    place = _content(message)
    found = json_spans.elements(message, place.value_start) if place is not None else None
    return tuple(found or ())
