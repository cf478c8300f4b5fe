"""The first difference between two prompts as the provider's cache sees them: what changed, and its byte offset.

Cache markers may move: they are no part of a prompt.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import Enum
from typing import Any

import attrs

from mnemosyne.domain.cost.prompt import Tier, block_of, serialize
from mnemosyne.domain.cost.prompt_layout import KEY_MEMBERS, PromptLayout, head_values
from mnemosyne.domain.wire import json_spans, json_values
from mnemosyne.domain.wire.blocks import text_of
from mnemosyne.domain.wire.client_texts import InsertedText, find_inserted
from mnemosyne.domain.wire.fragments import name_of_tool
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.normal_form import THINKING
from mnemosyne.domain.wire.recipe import common_prefix
from mnemosyne.domain.wire.transcript import Transcript


class ChangedPart(Enum):
    """The part of a request that changed."""

    MODEL = "model"
    SETTING = "setting"
    """A parameter that makes a prompt different: effort, thinking, speed, tool choice, the first image."""
    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGES = "messages"


class How(Enum):
    """How a part changed."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    REORDERED = "reordered"


@attrs.frozen(kw_only=True)
class Change:
    """The first difference of a request from an earlier one.

    ``shared`` is the number of prompt blocks before it, and ``offset`` its place in the later request's body, in bytes.
    ``name`` is the tool or the parameter; ``message`` and ``block`` are the numbers of the message, and of the block in
    that message, in the system prompt or among the tools. ``inserted`` is the kind of a text that the client inserted,
    if such a text changed; ``thinking`` means that a block of thinking left the prompt.
    """

    part: ChangedPart
    how: How
    shared: int
    offset: int
    name: str | None = None
    message: int | None = None
    block: int | None = None
    inserted: InsertedText | None = None
    thinking: bool = False


def find_change(before: PromptLayout, now: PromptLayout) -> Change | None:
    """Return where ``now`` first differs from ``before``; None if nothing before its end changed."""
    shared = count_shared(before, now)
    for tier, start in zip(Tier, _starts(now), strict=True):
        if start <= shared and before.prompt.keys.of(tier) != now.prompt.keys.of(tier):
            return _change_of_keys(before, now, tier, start)
    if shared == len(before.prompt):
        return None
    return _change_of_block(before, now, shared)


def count_shared(before: PromptLayout, now: PromptLayout) -> int:
    """Return the number of leading blocks that both prompts share, regardless of their parameters."""
    if before.prompt.keys == now.prompt.keys:
        return before.prompt.count_shared(now.prompt)
    limit = range(min(len(before.prompt), len(now.prompt)))
    differing = (number for number in limit if before.prompt[number].block.digest != now.prompt[number].block.digest)
    return next(differing, len(limit))


def count_shared_tokens(before: PromptLayout, now: PromptLayout) -> int:
    """Return the estimated size of the prefix that both prompts share, up to the first changed byte."""
    change = find_change(before, now)
    shared = min(len(before.prompt), len(now.prompt)) if change is None else change.shared
    tokens = now.prompt[shared - 1].tokens if shared else 0
    if change is None or shared >= len(now.prompt):
        return tokens
    start, end = _place_of(now, shared).span
    same = max(0, min(change.offset, end) - start)
    return tokens + now.prompt[shared].block.tokens * same // max(1, end - start)


def _starts(layout: PromptLayout) -> tuple[int, int, int]:
    """Return the number of the first block of each tier."""
    tools = bisect_left(range(layout.head), Tier.SYSTEM, key=lambda number: layout.prompt[number].block.tier)
    return 0, tools, layout.head


# Parameters


def _change_of_keys(before: PromptLayout, now: PromptLayout, tier: Tier, shared: int) -> Change:
    fields = {Tier.TOOLS: ("model", "thinking"), Tier.SYSTEM: ("speed", "features"), Tier.MESSAGES: ("messages",)}
    keys = before.prompt.keys, now.prompt.keys
    changed = next(name for name in fields[tier] if getattr(keys[0], name) != getattr(keys[1], name))
    names = KEY_MEMBERS.get(changed, ())
    name = next((name for name in names if before.read.member(name) != now.read.member(name)), "image")
    return Change(
        part=ChangedPart.MODEL if changed == "model" else ChangedPart.SETTING,
        how=How.CHANGED,
        shared=shared,
        offset=now.read.member_range(name)[0],
        name=name,
    )


# Blocks


@attrs.frozen
class _Place:
    """A block in a body: its tier, its message, its number there, its value and its bytes. ``span`` is empty at the end
    of a prompt that is shorter than the other.
    """

    tier: Tier
    message: int | None
    block: int
    value: dict[str, Any]
    span: Range


def _change_of_block(before: PromptLayout, now: PromptLayout, shared: int) -> Change:
    old = _place_of(before, shared)
    new = _place_of(now, shared) if shared < len(now.prompt) else _end_of(now, old)
    tier = min(old.tier, new.tier)
    if tier is Tier.TOOLS:
        return _change_of_tools(before, now, shared, new)
    if old.message is not None and new.message == old.message and new.message == now.read.offering:
        names = _names(json_values.try_read(before.read.tools)), _names(json_values.try_read(now.read.tools))
        how, name = _compare_tools(*names, _first_difference(*names))
        return Change(
            part=ChangedPart.TOOLS, how=how, shared=shared, offset=_first_byte(before, now, old, new), name=name
        )
    is_system = tier is Tier.SYSTEM or _leads(now.read, new.message)
    how = _how(before, now, shared) if old.tier == new.tier else How.REMOVED if old.tier < new.tier else How.ADDED
    return Change(
        part=ChangedPart.SYSTEM if is_system else ChangedPart.MESSAGES,
        how=how,
        shared=shared,
        offset=_first_byte(before, now, old, new) if how is How.CHANGED else new.span[0],
        message=new.message,
        block=new.block,
        inserted=_find_inserted(old.value, new.value),
        thinking=old.value.get("type") in THINKING and new.value.get("type") not in THINKING,
    )


def _leads(read: Transcript, message: int | None) -> bool:
    """Return whether a message belongs to the leading system messages of a history."""
    return message is not None and all(each.role == "system" for each in read.messages[: message + 1])


def _how(before: PromptLayout, now: PromptLayout, shared: int) -> How:
    """Return whether the block at ``shared`` was added, removed or changed, judging by the block that follows."""
    old, new = (
        [step.block.digest for step in layout.prompt[shared : shared + 2]] + [b""] * 2 for layout in (before, now)
    )
    if new[0] == old[1]:
        return How.REMOVED
    return How.ADDED if new[1] == old[0] else How.CHANGED


def _place_of(layout: PromptLayout, number: int) -> _Place:
    read, step = layout.read, layout.prompt[number]
    if number >= layout.head:
        message = bisect_right(layout.ends, number)
        role = read.messages[message].role
        for place, (value, span) in enumerate(zip(read.blocks(message), read.block_ranges(message), strict=False)):
            if block_of(Tier.MESSAGES, value, serialize(value), 0, role).digest == step.block.digest:
                return _Place(Tier.MESSAGES, message, place, value, span)
        return _Place(Tier.MESSAGES, message, 0, {}, read.message_range(message))
    values = list(head_values(read.member("tools"), read.system))
    first = number if step.block.tier is Tier.TOOLS else number - _starts(layout)[1]
    key = "tools" if step.block.tier is Tier.TOOLS else read.dialect.system or ""
    spans = json_spans.elements_of(read.raw, 0, key)
    # A billing line before the system prompt is no block of the prompt.
    skipped = len(spans) - sum(tier is step.block.tier for tier, _ in values) if spans else 0
    span = spans[first + skipped] if first + skipped < len(spans) else read.member_range(key)
    return _Place(step.block.tier, None, first + skipped, values[number][1], span)


def _end_of(layout: PromptLayout, like: _Place) -> _Place:
    """Return the place behind the last block of a prompt."""
    read = layout.read
    messages = len(read.messages)
    end = read.message_range(messages - 1)[1]
    return _Place(Tier.MESSAGES, messages if like.message is not None else None, 0, {}, (end, end))


def _first_byte(before: PromptLayout, now: PromptLayout, old: _Place, new: _Place) -> int:
    same = common_prefix(before.read.raw[slice(*old.span)], now.read.raw[slice(*new.span)])
    return new.span[0] + min(same, new.span[1] - new.span[0])


def _find_inserted(old: dict[str, Any], new: dict[str, Any]) -> InsertedText | None:
    """Return the kind of the inserted text that differs: a block of its own, or behind the text that both share."""
    texts = text_of(old) if old else "", text_of(new) if new else ""
    same = len(_common(*texts))
    rests = (rest for text in texts for rest in (text, text[same:], text[text.rfind("<", 0, same + 1) :]))
    return next((kind for rest in rests if (kind := find_inserted(rest)) is not None), None)


def _common(one: str, other: str) -> str:
    length = common_prefix(one.encode("utf-32-le", "surrogatepass"), other.encode("utf-32-le", "surrogatepass"))
    return one[: length // 4]


# Tools


def _change_of_tools(before: PromptLayout, now: PromptLayout, shared: int, new: _Place) -> Change:
    how, name = _compare_tools(_names(before.read.member("tools")), _names(now.read.member("tools")), shared)
    old = _place_of(before, shared)
    both = how is How.CHANGED and old.tier is Tier.TOOLS
    offset = _first_byte(before, now, old, new) if both else new.span[0]
    if new.tier is not Tier.TOOLS:  # the last tools are gone
        offset = now.read.member_range("tools")[1]
    return Change(part=ChangedPart.TOOLS, how=how, shared=shared, offset=offset, name=name, block=shared)


def _names(tools: object) -> list[str]:
    return [name_of_tool(tool) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _first_difference(before: Sequence[str], now: Sequence[str]) -> int:
    differing = (number for number, (old, new) in enumerate(zip(before, now, strict=False)) if old != new)
    return next(differing, min(len(before), len(now)))


def _compare_tools(before: Sequence[str], now: Sequence[str], at: int) -> tuple[How, str | None]:
    """Return how the tools changed at the first that differs, and its name."""
    old, new = (names[at] if at < len(names) else None for names in (before, now))
    if old == new:
        return How.CHANGED, new
    if new is not None and new not in before:
        return How.ADDED, new
    if old is not None and old not in now:
        return How.REMOVED, old
    return How.REORDERED, new if new is not None else old
