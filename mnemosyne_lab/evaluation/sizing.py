"""Sizes of a trace for one model: its blocks as the cache sees them, and its objects at each fidelity."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
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
from mnemosyne_lab.evaluation.scaling import Scales, scales_of
from mnemosyne_lab.evaluation.trace import Item, Trace


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
        self.messages: list[Message] = [_with_blocks(message) for message in trace.messages]
        self._rendered: dict[tuple[str, str], PromptBlock] = {}
        self._said: dict[int, str] = {}
        self._shown: dict[tuple[str, Fidelity], ShownObject] = {}
        # A block that no policy touches is the same Python object wherever it is sent: it is measured once.
        self._known = {
            id(each): self._measure(each, message["role"]) for message in self.messages for each in message["content"]
        }
        self._scales = self._count() if settings.fixed is None and trace.head is not None else None
        if self._scales is not None:
            self._rescale(self._scales)

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

    def _rescale(self, scales: Scales) -> None:
        """Everything as large as the provider counted it."""
        for message, scale in zip(self.messages, scales.messages, strict=True):
            for each in message["content"]:
                known = self._known[id(each)]
                self._known[id(each)] = attrs.evolve(known, tokens=round(known.tokens * scale))
        self._estimator = attrs.evolve(self._estimator, scale=scales.rest)
        self._rendered.clear()

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
        """The same under another tariff: everything is as large."""
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

    def _measure(self, value: Mapping[str, Any], role: str) -> PromptBlock:
        text = serialize(value)
        known = self._rendered.get((role, text))
        if known is None:
            tokens = self._estimator.tokens(features_of_block(value))
            known = block_of(Tier.MESSAGES, value, text, tokens, role)
            self._rendered[role, text] = known
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
            *(self._measure_tool(each) for each in offered),
            PromptBlock(b"identity", identity, Tier.SYSTEM),
            PromptBlock(b"system", fixed - tools - identity, Tier.SYSTEM),
        ]
        return Prompt(keys, blocks if fixed > identity else ())

    def _measure_tool(self, tool: Mapping[str, Any]) -> PromptBlock:
        return block_of(Tier.TOOLS, tool, serialize(tool), self._estimator.tokens(features_of_block(tool)))

    @cached_property
    def objects(self) -> tuple[SizedItem, ...]:
        """The objects with content of their own, in the order of the history."""
        owned = sorted((item for item in self.trace.items if item.places), key=lambda item: item.places[0])
        return tuple(map(self._size, owned))

    @cached_property
    def by_id(self) -> dict[str, SizedItem]:
        """The same by id."""
        return {each.item.id: each for each in self.objects}

    def list_born(self, turn: int) -> list[SizedItem]:
        """The objects that the request of a turn is the first to hold all of."""
        return self._born.get(turn, [])

    @cached_property
    def _born(self) -> dict[int, list[SizedItem]]:
        born: dict[int, list[SizedItem]] = {}
        for each in self.objects:
            born.setdefault(each.item.born, []).append(each)
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


def _with_blocks(message: Mapping[str, Any]) -> Message:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": blocks}  # a system message may set the effort and say nothing
