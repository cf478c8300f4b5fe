"""Sizes of a trace for one model: its blocks as the cache sees them, and its objects at each fidelity.

Estimated sizes are scaled to the provider's counts of whole prompts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any

import attrs

from mnemosyne.domain.cost.prompt import Keys, Prompt, PromptBlock, Tier, block_of, serialize
from mnemosyne.domain.cost.prompt_layout import head_blocks
from mnemosyne.domain.cost.tokens import (
    Estimator,
    features_of_block,
    features_of_message,
    features_of_text,
    features_of_tools,
)
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import is_its_own_detail, keeps_prompt
from mnemosyne.domain.text.stubs import with_amount
from mnemosyne.domain.window.assembly import Message, ObjectRendering
from mnemosyne.domain.window.object_sizes import AROUND, alone, between, find_path
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks
from mnemosyne_lab.evaluation.demand import ShownObject, plain, texts_of
from mnemosyne_lab.evaluation.policy import FIXED, Settings
from mnemosyne_lab.evaluation.trace import Item, Trace, TraceRequest

# Scales: if the provider counted each prompt and its content is known, the size of a request's new messages is the
# growth of the prompt

LEAST_GROWTH = 2_000
"""A history that grew by fewer tokens is too short to measure the scale."""

LEAST, MOST = 0.25, 4.0
"""Bounds of the scale of a request's messages; the next request compensates for the rest."""


@attrs.frozen(kw_only=True)
class Scales:
    """Actual tokens for each estimated one: in each message, in tools and system prompt, and in new renderings.
    ``fixed`` is the size of tools and system prompt if only the counted prompts reveal it.
    """

    messages: Sequence[float]
    head: float
    rest: float
    fixed: int | None


def scales_of(
    requests: Sequence[TraceRequest],
    sizes: Sequence[int],
    *,
    head: int | None,
    added: int = 0,
    overhead: int,
    dropped: Collection[int],
) -> Scales:
    """Compute the scales from the estimated ``sizes`` of messages without their ``overhead``, and of the ``head`` (None
    if not recorded), of which the provider ``added`` some tokens. ``dropped`` are the turns before which the client
    dropped its history.
    """
    rest = _measure_growth(requests, sizes, overhead, dropped)
    begun, told = _add_sizes(sizes, overhead, 0, requests[0].messages), requests[0].prompt
    first = rest
    if head is not None and told is not None:
        first = _clip((told - added - begun[1]) / max(1, head - added + begun[0]))
        rest = first if rest is None else rest
    rest = 1.0 if rest is None else rest
    first = rest if first is None else first
    scales = [first] * requests[0].messages
    carried = 0.0
    for before, request in pairwise(requests):
        size, around = _add_sizes(sizes, overhead, before.messages, request.messages)
        scale = rest
        if before.prompt is None or request.prompt is None or request.turn in dropped:
            carried = 0.0
        elif size:
            wanted = request.prompt - before.prompt - around + carried
            scale = _clip(wanted / size)
            carried = wanted - scale * size
        scales += [scale] * (request.messages - before.messages)
    scales += [rest] * (len(sizes) - len(scales))
    fixed = None
    if head is None and told is not None:
        fixed = max(0, round(told - begun[1] - first * begun[0]))
    return Scales(messages=scales, head=first, rest=rest, fixed=fixed)


def _measure_growth(
    requests: Sequence[TraceRequest], sizes: Sequence[int], overhead: int, dropped: Collection[int]
) -> float | None:
    """The growth of all prompts relative to the estimate; None if there is too little."""
    counted = estimated = 0
    for before, request in pairwise(requests):
        size, around = _add_sizes(sizes, overhead, before.messages, request.messages)
        if before.prompt is not None and request.prompt is not None and request.turn not in dropped:
            growth = request.prompt - before.prompt - around
            if growth > 0 and size:
                counted, estimated = counted + growth, estimated + size
    return _clip(counted / estimated) if estimated >= LEAST_GROWTH else None


def _add_sizes(sizes: Sequence[int], overhead: int, start: int, end: int) -> tuple[int, int]:
    """The estimated tokens of a range of messages, and of their overhead."""
    return sum(sizes[start:end]), overhead * (end - start)


def _clip(scale: float) -> float:
    return max(LEAST, min(MOST, scale))


# A trace and its sizes


@attrs.frozen(kw_only=True)
class SizedItem:
    """An object with its tokens on the wire at L0 to L4, without thinking."""

    item: Item
    thinking: int
    tokens: tuple[int, int | None, int | None, int, int]


class Sized:
    """A trace and its sizes for one model."""

    def __init__(self, trace: Trace, settings: Settings) -> None:
        self.trace = trace
        self.settings = settings
        self._estimator = Estimator.of(settings.model)
        self._overhead = self._estimator.tokens(features_of_message({"role": "user", "content": []}))
        # A system message may set the effort and say nothing.
        self.messages: list[Message] = [{**each, "content": content_blocks(each["content"])} for each in trace.messages]
        self._rendered: dict[tuple[str, str], PromptBlock] = {}
        self._said: dict[int, str] = {}
        self._shown: dict[tuple[str, Fidelity], ShownObject] = {}
        # A block that no policy touches is the same Python object wherever it is sent: it is measured once.
        self._known = {
            id(each): self._measure(each, message["role"]) for message in self.messages for each in message["content"]
        }
        self._scales = self._count() if settings.fixed is None and trace.head is not None else None
        if self._scales is not None:
            for message, scale in zip(self.messages, self._scales.messages, strict=True):
                for each in message["content"]:
                    known = self._known[id(each)]
                    self._known[id(each)] = attrs.evolve(known, tokens=round(known.tokens * scale))
            self._estimator = attrs.evolve(self._estimator, scale=self._scales.rest)
            self._rendered.clear()

    def _count(self) -> Scales | None:
        own = self.trace.head
        if own is None or not self.trace.requests:
            return None
        head = head_blocks(own.tools, own.system, self._estimator, self.settings.model)
        return scales_of(
            self.trace.requests,
            [sum(self._known[id(each)].tokens for each in message["content"]) for message in self.messages],
            head=sum(block.tokens for block in head) if head else None,
            added=self._estimator.tokens(features_of_tools([{}] if own.tools else [], self.settings.model)),
            overhead=self._overhead,
            dropped={reset.turn for reset in self.trace.resets},
        )

    def blocks(self, messages: Iterable[Message]) -> list[PromptBlock]:
        """The blocks of messages; the first block of each includes the message's overhead."""
        found = []
        for message in messages:
            for number, each in enumerate(message["content"]):
                block = self._known.get(id(each)) or self._measure(each, message["role"])
                found.append(attrs.evolve(block, tokens=block.tokens + self._overhead) if number == 0 else block)
        return found

    def text_tokens(self, text: str) -> int:
        return self._estimator.tokens(features_of_text(text))

    def under(self, settings: Settings) -> "Sized":
        """The same with other settings, such as a tariff; no size changes."""
        other = copy(self)
        other.settings = settings
        return other

    def list_texts(self, messages: Iterable[Message]) -> Iterator[str]:
        """The text of each block in the form that demands search."""
        for message in messages:
            for each in message["content"]:
                known = self._said.get(id(each))
                if known is None:
                    known = plain("\n".join(texts_of([{"content": [each]}])))
                    if id(each) in self._known:
                        self._said[id(each)] = known
                yield known

    def _measure(self, value: Mapping[str, Any], role: str, tier: Tier = Tier.MESSAGES) -> PromptBlock:
        text = serialize(value)
        known = self._rendered.get((role, text))
        if known is None:
            tokens = self._estimator.tokens(features_of_block(value))
            known = self._rendered[role, text] = block_of(tier, value, text, tokens, role)
        return known

    @cached_property
    def head(self) -> Prompt:
        """Tools and system prompt: the session's own, or as large as they are in the client's three pieces.
        Of those, the first is what others had left in the cache, if that is known.
        """
        return self.head_with(())

    def head_with(self, offered: Sequence[Mapping[str, Any]]) -> Prompt:
        """The head with more tools after the client's own: the provider's cache misses everything behind them."""
        keys, own, scales = Keys(model=self.settings.model), self.trace.head, self._scales
        if own is not None and scales is not None and scales.fixed is None:
            estimator = attrs.evolve(self._estimator, scale=scales.head)
            return Prompt(
                keys, head_blocks([*content_blocks(own.tools), *offered], own.system, estimator, self.settings.model)
            )
        fixed = scales.fixed if scales is not None else self.settings.fixed
        fixed = FIXED if fixed is None else fixed
        found, identity = self.trace.found_cached, 20
        tools = found if scales is not None and 0 < found < fixed - identity else fixed * 2 // 3
        blocks = [
            PromptBlock(b"tools", tools, Tier.TOOLS),
            *(self._measure(each, "", Tier.TOOLS) for each in offered),
            PromptBlock(b"identity", identity, Tier.SYSTEM),
            PromptBlock(b"system", fixed - tools - identity, Tier.SYSTEM),
        ]
        return Prompt(keys, blocks if fixed > identity else ())

    @cached_property
    def objects(self) -> tuple[SizedItem, ...]:
        """The objects with content of their own, in the order of the history."""
        owned = sorted((item for item in self.trace.items if item.places), key=lambda item: item.places[0])
        return tuple(map(self._size, owned))

    @cached_property
    def by_id(self) -> dict[str, SizedItem]:
        return {each.item.id: each for each in self.objects}

    @cached_property
    def born(self) -> Mapping[int, list[SizedItem]]:
        """The objects by the turn that made them."""
        born = defaultdict[int, list[SizedItem]](list)
        for each in self.objects:
            born[each.item.born].append(each)
        return born

    def _size(self, item: Item) -> SizedItem:
        own = [self.messages[place.message]["content"][place.block] for place in item.places]
        thinking = sum(self._known[id(block)].tokens for block in own if block.get("type") in THINKING)
        full = self._at(item, Fidelity.FULL)
        detailed, compact = (
            self._at(item, fidelity) if fidelity in item.texts else None
            for fidelity in (Fidelity.DETAILED, Fidelity.COMPACT)
        )
        tokens = (full - thinking, detailed, compact, self._at(item, Fidelity.STUB), self._at(item, Fidelity.EVICTED))
        return SizedItem(item=item, thinking=thinking, tokens=tokens)

    def _at(self, item: Item, fidelity: Fidelity) -> int:
        """Its tokens on the wire among messages that are there anyway."""
        tokens = sum(block.tokens for block in self.blocks(self._alone(item, fidelity)))
        return tokens - sum(block.tokens for block in self.blocks([AROUND, AROUND]))

    def show(self, key: str, fidelity: Fidelity) -> ShownObject:
        """The visible rest of an object below full fidelity: its text and the rest of its calls."""
        known = self._shown.get((key, fidelity))
        if known is None:
            item = self.by_id[key].item
            text = "\n".join(texts_of(self._alone(item, fidelity)))
            known = ShownObject(full=False, text=text, lost=item.lost.get(fidelity, ""), parts=item.parts)
            self._shown[key, fidelity] = known
        return known

    def _alone(self, item: Item, fidelity: Fidelity) -> list[Message]:
        """The messages of an object with nothing else in them, at a fidelity."""
        own = alone(item.places, self.messages.__getitem__)
        return between(own, None if fidelity is Fidelity.FULL else rendering_of(item, fidelity))


def rendering_of(item: Item, fidelity: Fidelity) -> ObjectRendering:
    """The rendering of an object below full fidelity."""
    lost, ask = item.lost.get(fidelity, ""), item.asks.get(fidelity, "")
    return ObjectRendering(
        id=item.id,
        fidelity=fidelity,
        text=item.texts[fidelity],
        facts="; ".join(filter(None, (lost and f"lost: {lost}", ask and f"ask for: {ask}"))),
        line=with_amount(item.texts[Fidelity.EVICTED], len(item.text)),
        path=find_path(item.kind, item.source_key),
        keeps_prompt=keeps_prompt(item.tags),
        is_own_detail=is_its_own_detail(item.tags),
    )
