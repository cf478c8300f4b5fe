"""A request's body as the provider's cache sees it: its prompt block by block, and its markers.

Laying out a body that continues another one reads only the new part. Sizes are estimates at the scale of the model's
family (``tokens.Estimator.of``); a caller that knows the provider's counts can scale them to the session.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prompt import Keys, Prompt, PromptBlock, Tier, Ttl, block_of, serialize, with_automatic
from mnemosyne.domain.cost.tokens import Estimator, features_of_block, features_of_message, features_of_tools
from mnemosyne.domain.wire.billing import BILLING
from mnemosyne.domain.wire.blocks import MARKER, is_blank, is_prompt, marker_of
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks
from mnemosyne.domain.wire.transcript import Transcript

KEY_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "model": ("model",),
    "thinking": ("thinking", "output_config"),
    "speed": ("speed",),
    "messages": ("tool_choice",),
}
"""The members of a body that determine a field of ``Keys``; ``messages`` also depends on whether there is an image."""


@attrs.frozen(kw_only=True)
class PromptLayout:
    """A prompt and the positions of its parts.

    Its first ``head`` blocks are tools and system prompt; ``ends[n]`` is the number of blocks up to and including
    message ``n``. ``typed`` is the last message that the user typed, ``image`` the first one with an image.
    """

    prompt: Prompt
    markers: Mapping[int, Ttl]
    head: int
    ends: tuple[int, ...]
    typed: int
    image: int | None
    read: Transcript = attrs.field(repr=False)
    head_markers: Mapping[int, Ttl] = attrs.field(repr=False)

    def up_to(self, messages: int) -> int:
        """Return the number of blocks up to the end of the first ``messages`` messages, including the head."""
        return self.ends[messages - 1] if messages else self.head

    def ends_part(self, number: int) -> bool:
        """Return whether this block is the last of a message or of the head."""
        place = bisect_left(self.ends, number + 1)
        return number + 1 == self.head or self.ends[place : place + 1] == (number + 1,)


def lay_out(read: Transcript, before: PromptLayout | None = None) -> PromptLayout | None:
    """Lay out a body, reusing the layout of a previous one if given; None if it is not a conversation.

    ``before`` changes only the effort, not the result.
    """
    if read.opaque is not None or not read.messages:
        return None
    same_head = before is not None and _head_bytes(before.read) == _head_bytes(read)
    known = before if before is not None and same_head and before.read.fields.model == read.fields.model else None
    laying = _Laying(read, known)
    return laying.result()


def head_blocks(tools: object, system: object, estimator: Estimator, model: str | None) -> list[PromptBlock]:
    """Return the blocks of tools and system prompt. The first tool includes the tokens that the provider adds for
    tools.
    """
    blocks = [
        block_of(tier, value, serialize(value), estimator.tokens(features_of_block(value)))
        for tier, value in head_values(tools, system)
    ]
    if blocks and blocks[0].tier is Tier.TOOLS:
        added = estimator.tokens(features_of_tools([{}], model))
        blocks[0] = attrs.evolve(blocks[0], tokens=blocks[0].tokens + added)
    return blocks


def head_values(tools: object, system: object) -> Iterator[tuple[Tier, dict[str, Any]]]:
    for tool in content_blocks(tools):
        yield Tier.TOOLS, tool
    for number, value in enumerate(content_blocks(system)):
        if number or not str(value.get("text", "")).startswith(BILLING):
            yield Tier.SYSTEM, value


def _head_bytes(read: Transcript) -> tuple[bytes, ...]:
    return tuple(
        read.raw[member.value_start : member.value_end]
        for member in read.members
        if member.key in ("tools", read.dialect.system)
    )


class _Laying:
    """Lays out one body."""

    def __init__(self, read: Transcript, known: PromptLayout | None) -> None:
        self._read = read
        self._known = known
        self._estimator = Estimator.of(read.fields.model)
        self._overhead = self._estimator.tokens(features_of_message({"role": "user", "content": []}))
        self._keeps_thinking = model_of(read.fields.model).keeps_thinking
        shared = read.count_shared(known.read) if known is not None else 0
        messages = [read.message(number) for number in range(shared, len(read.messages))]
        typed = [number for number, message in enumerate(messages, shared) if _is_typed(message)]
        self._typed = typed[-1] if typed else self._find_typed_before(shared)
        if not self._keeps_thinking and known is not None and self._typed != known.typed:
            # Thinking since the previous user message was part of the prompt and no longer is.
            start = min(shared, known.typed, self._typed)
            messages = [*(read.message(number) for number in range(start, shared)), *messages]
            shared = start
        self._shared, self._messages_to_add = shared, messages

    def _find_typed_before(self, shared: int) -> int:
        """Return the last message that the user typed among the first ``shared`` ones."""
        if self._known is None or self._known.typed < shared:
            return self._known.typed if self._known is not None else 0
        typed = (number for number in range(shared - 1, -1, -1) if _is_typed(self._read.message(number)))
        return next(typed, 0)

    def result(self) -> PromptLayout:
        read, known = self._read, self._known
        head, head_markers = self._head()
        blocks: list[PromptBlock] = []
        ends = list(known.ends[: self._shared]) if known is not None else []
        start = ends[-1] if ends else len(head)
        image = known.image if known is not None and known.image is not None and known.image < self._shared else None
        for number, message in enumerate(self._messages_to_add, self._shared):
            kept = list(self._list_kept(number, message))
            blocks += self._message(kept, str(message.get("role", "")))
            if image is None and any(map(_holds_image, kept)):
                image = number
            ends.append(start + len(blocks))
        keys = _keys(read, image is not None)
        if known is not None and known.prompt.keys == keys:
            prompt = known.prompt.truncate(start).extend(blocks)
        else:
            old = (step.block for step in known.prompt[len(head) : start]) if known is not None else ()
            prompt = Prompt(keys, [*head, *old, *blocks])
        return PromptLayout(
            prompt=prompt,
            markers=self._markers(prompt, head_markers, ends, len(head)),
            head=len(head),
            ends=tuple(ends),
            typed=self._typed,
            image=image,
            read=read,
            head_markers=head_markers,
        )

    # Tools and system prompt

    def _head(self) -> tuple[Sequence[PromptBlock], Mapping[int, Ttl]]:
        if self._known is not None:
            return [step.block for step in self._known.prompt[: self._known.head]], self._known.head_markers
        tools, system = self._read.member("tools"), self._read.system
        markers = {number: ttl for number, (_, value) in enumerate(head_values(tools, system)) if (ttl := _ttl(value))}
        return head_blocks(tools, system, self._estimator, self._read.fields.model), markers

    # Messages

    def _list_kept(self, number: int, message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the blocks of a message that are part of the prompt; blank texts do not count (``normal_form``)."""
        keeps_thinking = self._keeps_thinking or number >= self._typed
        for value in content_blocks(message.get("content")):
            thinks = value.get("type") in THINKING
            if not is_blank(value) and (keeps_thinking or not thinks):
                yield value

    def _message(self, kept: Sequence[dict[str, Any]], role: str) -> Iterator[PromptBlock]:
        """Yield the prompt blocks of a message. The first includes the tokens of the message itself."""
        around = self._overhead
        for value in kept:
            tokens = self._estimator.tokens(features_of_block(value)) + around
            yield block_of(Tier.MESSAGES, value, serialize(value), tokens, role)
            around = 0

    def _markers(
        self, prompt: Prompt, head_markers: Mapping[int, Ttl], ends: Sequence[int], head: int
    ) -> dict[int, Ttl]:
        markers = dict(head_markers)
        for number, _ in self._read.markers:
            start = ends[number - 1] if number else head
            for block, value in enumerate(self._list_kept(number, self._read.message(number)), start):
                ttl = _ttl(value)
                if ttl is not None:
                    markers[block] = ttl
        automatic = _ttl({MARKER: self._read.member(MARKER)})
        return with_automatic(prompt, markers, automatic) if automatic else markers


def _keys(read: Transcript, images: bool) -> Keys:
    effort = read.member("output_config")
    return Keys(
        model=read.fields.model or "",
        thinking=_text([read.member("thinking"), effort.get("effort") if isinstance(effort, dict) else None]),
        speed=_text(read.member("speed")),
        messages=_text([read.member("tool_choice"), images]),
    )


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ttl(block: Mapping[str, Any]) -> Ttl | None:
    marker = marker_of(block)
    if marker is None:
        return None
    return "1h" if marker.get("ttl") == "1h" else "5m"


def _is_typed(message: Mapping[str, Any]) -> bool:
    return is_prompt(message.get("role"), content_blocks(message.get("content")))


def _holds_image(block: Mapping[str, Any]) -> bool:
    if block.get("type") == "image":
        return True
    content = block.get("content")
    return isinstance(content, list) and any(isinstance(part, dict) and part.get("type") == "image" for part in content)
