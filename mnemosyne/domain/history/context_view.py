"""View a context window block by block, with sizes, origins and cache markers, and compare two windows."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any, Literal

import attrs

from mnemosyne.bounded import Lru
from mnemosyne.domain.cost.tokens import Estimator, apportion, features_of_block
from mnemosyne.domain.objects.ids import MARK, NOTE
from mnemosyne.domain.wire import json_spans, json_values, normal_form
from mnemosyne.domain.wire.blocks import call_id_of, is_any_call, marker_of
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.fragments import name_of_tool, read_block
from mnemosyne.domain.wire.json_spans import Member, Range
from mnemosyne.domain.wire.reply import json_object

Section = Literal["system", "tools", "messages", "reply"]
PREVIEW = 60


@attrs.frozen(kw_only=True)
class ContextBlock:
    """One block of a context window.

    ``message`` is the index of its message from 0, as the provider counts, None outside ``messages``. ``size`` is its
    JSON in bytes, ``tokens`` an estimate for the body's model (None for non-text content such as an image), ``marker``
    its cache marker's time to live. ``origin`` is the turn whose request was the first to contain its message, or the
    long texts of a tool or of the system prompt; for a block that replaces an object, the object's turn; None for a
    reply. ``digest`` is the hash of its normal form. ``stands_for`` is the id of the object that it replaces, the first
    of several.
    """

    section: Section
    message: int | None = None
    role: str | None = None
    kind: str
    name: str | None = None
    tool_id: str | None = None
    size: int
    tokens: int | None
    marker: str | None
    origin: int | None = None
    preview: str
    digest: bytes
    span: Range
    stands_for: str | None = None

    @property
    def same(self) -> tuple[str, str | bytes]:
        """A key that is equal for a block on the wire and the client's own block that it comes from."""
        return self.kind, self.tool_id or self.digest


@attrs.frozen(kw_only=True)
class View:
    """A parsed body. ``settings`` are its other top-level members; ``opaque`` is the reason if there are no blocks."""

    blocks: tuple[ContextBlock, ...]
    settings: dict[str, Any]
    size: int
    opaque: str | None = None


KnownBlocks = Lru[tuple[str, str | None, bytes], tuple[ContextBlock, ...]]
"""A cache of the blocks of history elements, by dialect, model and hash of the element's bytes; spans are relative to
the element. Consecutive requests share nearly all elements.
"""

_KNOWN_BLOCKS = 40_000


def no_blocks() -> KnownBlocks:
    """An empty cache of at most 20 MB: enough for a session of 5,000 turns."""
    return Lru(_KNOWN_BLOCKS, lambda blocks: 1 + len(blocks))


def view(body: bytes, origins: Sequence[int], dialect: Dialect, known: KnownBlocks | None = None) -> View:
    """The blocks of a request body in the order in which the provider reads them: tools, system, messages.

    ``origins`` are the turns in which each message was first sent; empty if the body was not read as a conversation.
    ``known`` caches parsed elements.
    """
    members = json_spans.members(body, array=dialect.array)
    if members is None:
        return View(blocks=(), settings={}, size=len(body), opaque="not a JSON object")
    by_key = {member.key: member for member in members}
    held = ("tools", dialect.system, dialect.array)
    settings = {
        member.key: json_values.try_read(body[member.value_start : member.value_end])
        for member in members
        if member.key not in held
    }
    model = _text(settings.get("model"))
    estimator = Estimator.of(model)
    blocks = [
        *_plain("tools", body, by_key.get("tools"), estimator),
        *_plain("system", body, by_key.get(dialect.system or ""), estimator),
        *_of_messages(body, by_key.get(dialect.array), origins, dialect, model, known),
    ]
    return View(
        blocks=tuple(blocks),
        settings=settings,
        size=len(body),
    )


_STANDS_FOR = re.compile(rf"(?:\[|{re.escape(NOTE)}\n(?:\d+ objects: )?){MARK}(\w+) ")
"""The beginning of a text that replaces an object, or of a note about several (``assembly.ObjectRendering``)."""


def with_origins_of(wire: View, client: View, body: bytes, objects: Mapping[str, int]) -> View:
    """The wire view, each block with its origin: the turn of the client's block that it comes from, or of the object
    that it replaces (the first of several). ``objects`` maps object ids to turns.
    """
    known = {block.same: block.origin for block in client.blocks if block.section == "messages"}

    def place(block: ContextBlock) -> ContextBlock:
        stands_for = _STANDS_FOR.match(find_text(body[slice(*block.span)]))
        if stands_for is not None and stands_for[1] in objects:
            return attrs.evolve(block, origin=objects[stands_for[1]], stands_for=stands_for[1])
        return attrs.evolve(block, origin=known.get(block.same, block.origin))

    blocks = (place(block) if block.section == "messages" else block for block in wire.blocks)
    return attrs.evolve(wire, blocks=tuple(blocks))


def objects_of(client: View, places: Mapping[tuple[int, int], str]) -> Mapping[tuple[str, str | bytes], str]:
    """The object of each block of the client's request, by ``ContextBlock.same``; ``places`` maps message and block
    numbers to objects.
    """
    objects = {}
    message, number = None, 0
    for block in client.blocks:
        if block.message is None:
            continue
        message, number = (message, number + 1) if block.message == message else (block.message, 0)
        if (message, number) in places:
            objects[block.same] = places[message, number]
    return objects


def size_blocks(
    view: View, client: View, counted: int | None, places: Mapping[tuple[int, int], str], size: Callable[[str], int]
) -> View:
    """A request's blocks with the sizes that people see: an object in full takes its ``size``, over all its blocks, and
    the other blocks share the rest of the tokens that the provider ``counted``, if that is possible.
    """
    objects = _sizes_of_objects(client, places, size)
    sizes = {number: objects[block.same] for number, block in enumerate(view.blocks) if _is_own(block, objects)}
    estimates = [block.tokens or 0 for block in view.blocks]
    others = [number for number in range(len(estimates)) if number not in sizes]
    rest = (counted or 0) - sum(sizes.values())
    if rest > 0 and all(block.tokens is not None for block in view.blocks):
        sizes |= zip(others, apportion(rest, [estimates[number] for number in others]), strict=True)
    return _with_sizes(view, sizes)


def size_alike(client: View, sent: View, places: Mapping[tuple[int, int], str], size: Callable[[str], int]) -> View:
    """The blocks of the client's request from which ``sent`` was made, each with its size there; an evicted object's
    blocks take the object's ``size``.
    """
    known = {(block.section, block.same): block.tokens for block in sent.blocks if block.tokens is not None}
    objects = _sizes_of_objects(client, places, size)
    sizes = {
        number: objects[block.same] if _is_own(block, objects) else known[block.section, block.same]
        for number, block in enumerate(client.blocks)
        if _is_own(block, objects) or (block.section, block.same) in known
    }
    return _with_sizes(client, sizes)


def _is_own(block: ContextBlock, objects: Mapping[tuple[str, str | bytes], int]) -> bool:
    """Whether a block is the client's own block of an object."""
    return block.section == "messages" and block.stands_for is None and block.same in objects


def _sizes_of_objects(
    client: View, places: Mapping[tuple[int, int], str], size: Callable[[str], int]
) -> Mapping[tuple[str, str | bytes], int]:
    """The size of each block of an object, by ``ContextBlock.same``."""
    objects = objects_of(client, places)
    blocks: dict[str, dict[tuple[str, str | bytes], int]] = {}
    for each in client.blocks:
        if each.section == "messages" and each.tokens and each.same in objects:
            blocks.setdefault(objects[each.same], {})[each.same] = each.tokens
    return {
        same: tokens
        for name, own in blocks.items()
        for same, tokens in zip(own, apportion(size(name), list(own.values())), strict=True)
    }


def _with_sizes(view: View, sizes: Mapping[int, int]) -> View:
    blocks = (
        attrs.evolve(each, tokens=sizes[number]) if number in sizes else each for number, each in enumerate(view.blocks)
    )
    return attrs.evolve(view, blocks=tuple(blocks))


def find_text(raw: bytes) -> str:
    """The text of a block in any dialect, or its first text; empty without one."""
    match json_values.try_read(raw):
        case str(text) | {"text": str(text)} | {"content": str(text)} | {"output": str(text)}:
            return text
        case {"content": [{"text": str(text)}, *_]}:
            return text
        case _:
            return ""


def reply_blocks(reply: bytes, dialect: Dialect) -> tuple[ContextBlock, ...]:
    """The blocks of a recorded reply; none if it is not a message."""
    message = json_object(reply)
    estimator = Estimator.of(_text(message.get("model")))
    spans = dialect.reply_ranges(reply)
    blocks = zip(dialect.reply_content(message), spans, strict=False)
    return tuple(_block("reply", block, span, "assistant", estimator) for block, span in blocks)


def _plain(section: Section, body: bytes, member: Member | None, estimator: Estimator) -> Iterator[ContextBlock]:
    if member is None:
        return
    spans = json_spans.elements(body, member.value_start)
    for start, end in [(member.value_start, member.value_end)] if spans is None else spans:
        value = json_values.try_read(body[start:end])
        block = value if isinstance(value, dict) else read_block(value)
        yield _block(section, block, (start, end), None, estimator)


def _of_messages(
    body: bytes,
    member: Member | None,
    origins: Sequence[int],
    dialect: Dialect,
    model: str | None,
    known: KnownBlocks | None,
) -> Iterator[ContextBlock]:
    estimator = Estimator.of(model)
    for index, (start, end) in enumerate((member.elements if member is not None else None) or ()):
        raw = body[start:end]
        key = (dialect.name, model, sha256(raw).digest())
        blocks = known.get(key) if known is not None else None
        if blocks is None:
            blocks = tuple(_of_message(raw, dialect, estimator))
            if known is not None:
                known.put(key, blocks)
        origin = origins[index] if index < len(origins) else None
        for each in blocks:
            span = each.span[0] + start, each.span[1] + start
            yield attrs.evolve(each, message=index, origin=origin, span=span)


def _of_message(raw: bytes, dialect: Dialect, estimator: Estimator) -> Iterator[ContextBlock]:
    """The blocks of one history element, with spans relative to it."""
    message = (
        json_values.try_read(raw, lambda value: dialect.read_message(value) if isinstance(value, dict) else {}) or {}
    )
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block, span in zip(blocks or (), dialect.block_ranges(raw, 0), strict=False):
        held = block if isinstance(block, dict) else read_block(block)
        yield _block("messages", held, span, _text(message.get("role")), estimator)


def _block(
    section: Section,
    block: dict[str, Any],
    span: Range,
    role: str | None,
    estimator: Estimator,
) -> ContextBlock:
    kind = "tool" if section == "tools" else str(block.get("type", "unknown"))
    return ContextBlock(
        section=section,
        role=role,
        kind=kind,
        name=name_of_tool(block) if section == "tools" else _text(block.get("name")),
        tool_id=_text(call_id_of(block)) or (_text(block.get("id")) if is_any_call(block) else None),
        size=span[1] - span[0],
        tokens=_tokens(block, estimator),
        marker=_marker(block),
        preview=_preview(block),
        digest=_digest(section, block),
        span=span,
    )


def _tokens(block: dict[str, Any], estimator: Estimator) -> int | None:
    features = features_of_block(block)
    return estimator.tokens(features) if features.text > 0 or not features.fixed else None


def _marker(block: dict[str, Any]) -> str | None:
    marker = marker_of(block)
    return None if marker is None else str(marker.get("ttl") or "5m")


def _preview(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            pass
        case {"content": str(text)} | {"content": [{"text": str(text)}, *_]} | {"description": str(text)}:
            pass
        case {"input": tool_input}:
            text = json.dumps(tool_input, ensure_ascii=False, separators=(",", ":"))
        case _:
            return ""
    line = " ".join(text[: 2 * PREVIEW].split())
    if not line.isprintable():
        # Terminal control characters are shown with --raw only.
        line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line)
    return line if len(line) <= PREVIEW else line[: PREVIEW - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _digest(section: Section, block: dict[str, Any]) -> bytes:
    try:
        return normal_form.tools_digest([block]) if section == "tools" else normal_form.system_digest([block])
    except (ValueError, RecursionError):
        return sha256(repr(block).encode("utf-8", "replace")).digest()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# Comparing two windows

What = Literal["added", "removed", "changed"]


@attrs.frozen
class ContextChange:
    """A block that only one window contains, or two different blocks at the same place."""

    what: What
    before: ContextBlock | None
    after: ContextBlock | None


@attrs.frozen
class Comparison:
    """``same`` blocks are in both windows; ``settings`` holds the other members that differ, as (before, after)."""

    same: int
    changes: tuple[ContextChange, ...]
    settings: dict[str, tuple[Any, Any]]


def compare(before: View, after: View) -> Comparison:
    """The blocks added, removed or changed between two windows. Blocks are compared in normal form, so a cache marker
    that moved is no change.
    """
    changes = [change for section in ("tools", "system", "messages") for change in _changes(before, after, section)]
    gone = sum(change.before is not None for change in changes)
    keys = sorted(before.settings.keys() | after.settings.keys())
    pairs = {key: (before.settings.get(key), after.settings.get(key)) for key in keys}
    return Comparison(
        len(before.blocks) - gone, tuple(changes), {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    )


def _changes(before: View, after: View, section: str) -> Iterator[ContextChange]:
    old = [block for block in before.blocks if block.section == section]
    new = [block for block in after.blocks if block.section == section]
    # Two turns are mostly equal: skip the common beginning and end in one pass.
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    matcher = SequenceMatcher(None, [_key(block) for block in old], [_key(block) for block in new], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag != "equal":
            yield from _find_replacements(old[i:j], new[k:m])


def _common(old: Sequence[ContextBlock], new: Sequence[ContextBlock]) -> int:
    for index, (left, right) in enumerate(zip(old, new, strict=False)):
        if _key(left) != _key(right):
            return index
    return min(len(old), len(new))


def _key(block: ContextBlock) -> tuple[str | None, bytes]:
    return block.role, block.digest


def _find_replacements(old: Sequence[ContextBlock], new: Sequence[ContextBlock]) -> Iterator[ContextChange]:
    unmatched = list(new)
    for block in old:
        match = next((candidate for candidate in unmatched if _same_place(block, candidate)), None)
        if match is None:
            yield ContextChange("removed", block, None)
            continue
        for added in unmatched[: unmatched.index(match)]:
            yield ContextChange("added", None, added)
        del unmatched[: unmatched.index(match) + 1]
        yield ContextChange("changed", block, match)
    for added in unmatched:
        yield ContextChange("added", None, added)


def _same_place(old: ContextBlock, new: ContextBlock) -> bool:
    return (old.role, old.kind, old.name, old.tool_id) == (new.role, new.kind, new.name, new.tool_id) and (
        old.message == new.message
    )
