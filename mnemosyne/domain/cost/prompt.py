"""A prompt as the provider's cache sees it: blocks in the order tools, system, messages, each with all before it.

An entry of the cache is a hash of everything up to a block, so a prompt is a chain: each ``Step`` is the prompt up to
and including one block. Prompts that begin alike share their steps: extending one costs what is new, not what is old.

Source of the rules: the Messages API documentation on prompt caching (order, keys, markers, positions).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from hashlib import sha256
from typing import Any, Literal, overload

import attrs

from mnemosyne.domain.wire.blocks import CALL, RESULT, without_marker
from mnemosyne.domain.wire.normal_form import THINKING

Ttl = Literal["5m", "1h"]
Markers = Mapping[int, Ttl]
"""The blocks that carry ``cache_control``, by their number in the prompt, and how long their entries live."""

MOST_MARKERS = 4

_RUNS = frozenset({CALL, RESULT})


class UnlawfulMarkers(ValueError):
    """The provider would refuse the request for its markers."""


class Tier(IntEnum):
    """The part of the prompt that a block stands in; a change in one is a change of all after it."""

    TOOLS = 0
    SYSTEM = 1
    MESSAGES = 2


@attrs.frozen
class Keys:
    """What is no block and still makes another prompt. ``max_tokens``, metadata and the like do not.

    Any texts will do, as long as equal means equal. A prompt whose keys changed is another one: build it anew.
    """

    model: str = ""
    thinking: str = ""
    """Thinking and effort. They key everything here; on some models they may key the messages alone."""
    speed: str = ""
    """Keys system and messages, as does ``features``."""
    features: str = ""
    """Whether web search and citations are on."""
    messages: str = ""
    """``tool_choice``, and whether there is an image anywhere: they key the messages."""

    def of(self, tier: Tier) -> tuple[str, ...]:
        """What keys a tier and those after it."""
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
    """Of its text and its role."""
    tokens: int
    tier: Tier
    kind: str = ""
    """The block's ``type``: a run of ``tool_use`` is one position, and so is one of ``tool_result``."""
    markable: bool = True
    """Whether it may carry ``cache_control``: thinking and blank text may not."""


def serialize(value: Mapping[str, Any]) -> str:
    """The text of a block that the cache hashes: without its marker, its keys in the order they were sent."""
    return json.dumps(without_marker(value), ensure_ascii=False, separators=(",", ":"))


def block_of(tier: Tier, value: Mapping[str, Any], text: str, tokens: int, role: str = "") -> PromptBlock:
    """The block for a value as it stands in a request; ``text`` is its ``serialize`` one."""
    kind = str(value.get("type", ""))
    blank = kind == "text" and not str(value.get("text", "")).strip()
    digest = sha256(f"{role}\0{text}".encode("utf-8", "surrogatepass")).digest()
    return PromptBlock(digest, tokens, tier, kind, kind not in THINKING and not blank)


@attrs.frozen
class PromptStep:
    """The prompt up to and including ``block``. ``tokens`` are all of these; ``position`` counts a run once."""

    digest: bytes
    tokens: int
    position: int
    block: PromptBlock


class Prompt(Sequence[PromptStep]):
    """A prompt's steps. It is a value: nothing changes it, and ``extend`` and ``truncate`` give others.

    All that were extended from one another hold the same list and each its own length; the list only grows, and only
    at the end of the longest. Two prompts that part there get lists of their own.
    """

    __slots__ = ("_length", "_steps", "keys")

    def __init__(self, keys: Keys = Keys(), blocks: Iterable[PromptBlock] = ()) -> None:
        self.keys = keys
        self._steps = _steps(keys, None, blocks)
        self._length = len(self._steps)

    def extend(self, blocks: Iterable[PromptBlock]) -> "Prompt":
        """This prompt and more blocks after it. Raises ValueError for a block of an earlier tier than the last."""
        new = _steps(self.keys, self[-1] if self else None, blocks)
        steps = self._steps if self._length == len(self._steps) else self._steps[: self._length]
        steps += new
        return _sharing(self.keys, steps, self._length + len(new))

    def truncate(self, length: int) -> "Prompt":
        """The first ``length`` blocks of it. Raises ValueError if it has fewer."""
        if not 0 <= length <= self._length:
            raise ValueError(f"a prompt of {self._length} blocks cannot be cut to {length}")
        return _sharing(self.keys, self._steps, length)

    @property
    def tokens(self) -> int:
        """The size of the whole."""
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
    prompt = Prompt(keys)
    prompt._steps, prompt._length = steps, length
    return prompt


def _steps(keys: Keys, last: PromptStep | None, blocks: Iterable[PromptBlock]) -> list[PromptStep]:
    """The steps that follow ``last``."""
    found = []
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
        found.append(PromptStep(digest, tokens, position, block))
    return found


# Markers


def client_markers(prompt: Prompt, *, head: Ttl = "5m", tail: Ttl = "5m") -> dict[int, Ttl]:
    """Where Claude Code 2.1.329 sets its three markers: the last two blocks of the system prompt, and the last block.

    The last is the last one that may carry a marker.
    """
    systems = []
    for number, step in enumerate(prompt):
        if step.block.tier == Tier.MESSAGES:
            break  # the head is short: this does not walk through the history
        if step.block.tier == Tier.SYSTEM and step.block.markable:
            systems.append(number)
    markers: dict[int, Ttl] = dict.fromkeys(systems[-2:], head)
    last = last_markable(prompt)
    if last is not None:
        markers.setdefault(last, tail)
    return markers


def with_automatic(prompt: Prompt, markers: Markers, ttl: Ttl = "5m") -> dict[int, Ttl]:
    """The markers with that of a top-level ``cache_control``, which sits on the last block that may carry one."""
    last = last_markable(prompt)
    return {**markers} if last is None else {**markers, last: ttl}


def last_markable(prompt: Prompt) -> int | None:
    """The number of the last block that may carry a marker."""
    return next((number for number in range(len(prompt) - 1, -1, -1) if prompt[number].block.markable), None)


def check_markers(prompt: Prompt, markers: Markers) -> None:
    """Raises UnlawfulMarkers for what the provider refuses: more than four, one hour after five minutes, a block that
    may carry none or is not there."""
    if len(markers) > MOST_MARKERS:
        raise UnlawfulMarkers(f"{len(markers)} markers; the provider takes {MOST_MARKERS}")
    short = None
    for number, ttl in sorted(markers.items()):
        if not 0 <= number < len(prompt):
            raise UnlawfulMarkers(f"a marker on block {number} of a prompt of {len(prompt)}")
        if not prompt[number].block.markable:
            raise UnlawfulMarkers(f"block {number} ({prompt[number].block.kind}) may not carry a marker")
        if ttl == "5m":
            short = number
        elif short is not None:
            raise UnlawfulMarkers(f"block {number} is marked for one hour, after block {short} for five minutes")
