"""A prompt as the provider's cache sees it: tools, system and messages as blocks in this order.

A cache entry is a hash of everything up to a block, so a prompt is a chain: each ``PromptStep`` is the prompt up to and
including one block. Prompts with a common beginning share their steps: extending a prompt costs only the new blocks.

Source of the rules: the Messages API documentation on prompt caching (order, keys, markers, positions).
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from hashlib import sha256
from typing import Any, Literal, overload

import attrs

from mnemosyne.domain.wire.blocks import CALL, RESULT, without_marker
from mnemosyne.domain.wire.normal_form import THINKING

Ttl = Literal["5m", "1h"]
Markers = Mapping[int, Ttl]
"""The blocks that carry ``cache_control``, by number in the prompt, and the lifetime of their entries."""

_RUNS = frozenset({CALL, RESULT})


class Tier(IntEnum):
    """The part of the prompt that a block belongs to. A change in one changes all later ones for the cache."""

    TOOLS = 0
    SYSTEM = 1
    MESSAGES = 2


@attrs.frozen
class Keys:
    """Parameters that are not blocks but make a prompt different for the cache. ``max_tokens``, metadata and the like
    do not.

    Any texts will do, as long as equal texts mean equal parameters. A prompt with changed keys must be rebuilt.
    """

    model: str = ""
    thinking: str = ""
    """Thinking and effort. They affect all tiers here; on some models they may affect only the messages."""
    speed: str = ""
    """Affects system and messages, as does ``features``."""
    features: str = ""
    """Whether web search and citations are on."""
    messages: str = ""
    """``tool_choice``, and whether there is an image anywhere: they affect the messages."""

    def of(self, tier: Tier) -> tuple[str, ...]:
        """Return the keys that first affect this tier."""
        match tier:
            case Tier.TOOLS:
                return self.model, self.thinking
            case Tier.SYSTEM:
                return self.speed, self.features
            case Tier.MESSAGES:
                return (self.messages,)


@attrs.frozen
class PromptBlock:
    """One tool, one block of the system prompt, or one block of a message."""

    digest: bytes
    """The digest of its text and role."""
    tokens: int
    tier: Tier
    kind: str = ""
    """The block's ``type``: consecutive ``tool_use`` blocks count as one position, and so do ``tool_result`` blocks."""
    markable: bool = True
    """Whether it may carry ``cache_control``: thinking and blank text may not."""


def serialize(value: Mapping[str, Any]) -> str:
    """Return the text of a block that the cache hashes: without its marker, with its keys in the order of the
    request.
    """
    return json.dumps(without_marker(value), ensure_ascii=False, separators=(",", ":"))


def block_of(tier: Tier, value: Mapping[str, Any], text: str, tokens: int, role: str = "") -> PromptBlock:
    """Return the block for a value in a request; ``text`` is its serialized form."""
    kind = str(value.get("type", ""))
    blank = kind == "text" and not str(value.get("text", "")).strip()
    digest = sha256(f"{role}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return PromptBlock(digest, tokens, tier, kind, kind not in THINKING and not blank)


@attrs.frozen
class PromptStep:
    """The prompt up to and including ``block``: its ``tokens``, and its ``position``, which counts consecutive calls or
    results once.
    """

    digest: bytes
    tokens: int
    position: int
    block: PromptBlock


class Prompt(Sequence[PromptStep]):
    """An immutable sequence of steps; ``extend`` and ``truncate`` return new prompts.

    Prompts that extend each other share one list and each has its own length; the list only grows, and only at the end
    of the longest prompt. A prompt that diverges gets a list of its own.
    """

    __slots__ = ("_length", "_steps", "keys")

    def __init__(self, keys: Keys = Keys(), blocks: Iterable[PromptBlock] = ()) -> None:
        self.keys = keys
        self._steps = _steps(keys, None, blocks)
        self._length = len(self._steps)

    def extend(self, blocks: Iterable[PromptBlock]) -> "Prompt":
        """Append blocks. Raises ValueError for a block of an earlier tier than the last one."""
        new = _steps(self.keys, self[-1] if self else None, blocks)
        steps = self._steps if self._length == len(self._steps) else self._steps[: self._length]
        steps += new
        return _sharing(self.keys, steps, self._length + len(new))

    def truncate(self, length: int) -> "Prompt":
        """Return the first ``length`` blocks. Raises ValueError if there are fewer."""
        if not 0 <= length <= self._length:
            raise ValueError(f"a prompt of {self._length} blocks cannot be cut to {length}")
        return _sharing(self.keys, self._steps, length)

    def count_shared(self, other: "Prompt") -> int:
        """Return the number of blocks that both prompts begin with."""
        limit = range(min(len(self), len(other)))
        return bisect_left(limit, True, key=lambda number: self[number].digest != other[number].digest)

    @property
    def tokens(self) -> int:
        """The size of the whole prompt."""
        return self[-1].tokens if self else 0

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> PromptStep: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PromptStep]: ...
    def __getitem__(self, index: int | slice) -> PromptStep | Sequence[PromptStep]:
        if isinstance(index, slice):
            return self._steps[: self._length][index]
        if not -self._length <= index < self._length:
            raise IndexError(f"block {index} of a prompt of {self._length}")
        return self._steps[index % self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Prompt):
            return NotImplemented
        return self.keys == other.keys and len(self) == len(other) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"<Prompt of {self._length} blocks, {self.tokens} tokens>"


def _sharing(keys: Keys, steps: list[PromptStep], length: int) -> Prompt:
    shared = Prompt(keys)
    shared._steps, shared._length = steps, length
    return shared


def _steps(keys: Keys, last: PromptStep | None, blocks: Iterable[PromptBlock]) -> list[PromptStep]:
    steps = []
    digest, tokens, position = (last.digest, last.tokens, last.position) if last else (b"", 0, -1)
    tier, kind = (last.block.tier, last.block.kind) if last else (-1, "")
    for block in blocks:
        if block.tier < tier:
            raise ValueError(f"a block of {block.tier.name.lower()} cannot follow {Tier(tier).name.lower()}")
        for entered in range(tier + 1, block.tier + 1):
            digest = sha256(digest + repr(keys.of(Tier(entered))).encode("utf-8", "surrogatepass")).digest()
        digest = sha256(digest + block.digest).digest()
        tokens += block.tokens
        if block.kind not in _RUNS or block.kind != kind:
            position += 1
        tier, kind = block.tier, block.kind
        steps.append(PromptStep(digest, tokens, position, block))
    return steps


# Markers


def with_automatic(prompt: Prompt, markers: Markers, ttl: Ttl = "5m") -> dict[int, Ttl]:
    """Add the marker of a top-level ``cache_control``, which applies to the last block that may carry one."""
    last = last_markable(prompt)
    return {**markers} if last is None else {**markers, last: ttl}


def last_markable(prompt: Prompt) -> int | None:
    """Return the number of the last block that may carry a marker."""
    return next((number for number in range(len(prompt) - 1, -1, -1) if prompt[number].block.markable), None)
