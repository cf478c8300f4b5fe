"""Sizes of an object on the wire at each fidelity: each object is rendered alone, between two fixed messages."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from mnemosyne.domain.cost.tokens import Estimator, Features, features_of_block, features_of_message
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import KINDS, ObjectKind, is_its_own_detail, keeps_prompt
from mnemosyne.domain.text.stubs import plain, with_amount
from mnemosyne.domain.window.assembly import Message, ObjectRendering, assemble
from mnemosyne.domain.wire.normal_form import THINKING

AROUND: Message = {"role": "user", "content": [{"type": "text", "text": "."}]}
"""The message before and after an object that is measured alone."""


def alone(places: Iterable[BlockPlace], message: Callable[[int], Message]) -> list[Message]:
    """The messages of an object, reduced to its own blocks."""
    blocks: dict[int, list[Any]] = {}
    for place in places:
        blocks.setdefault(place.message, []).append(message(place.message)["content"][place.block])
    return [{"role": message(number)["role"], "content": own} for number, own in sorted(blocks.items())]


def between(own: Sequence[Message], rendering: ObjectRendering | None) -> list[Message]:
    """An object's messages at a fidelity (None for full) with the messages around them."""
    whole = [AROUND, *own, AROUND]
    if rendering is None:
        return whole
    renderings = {
        BlockPlace(number, block): rendering
        for number, message in enumerate(own, 1)
        for block in range(len(message["content"]))
    }
    return assemble(whole, renderings, thinking_from=len(whole))


@attrs.frozen
class Size:
    """Features of an object on the wire at L0 to L4 (None without such a rendition), excluding thinking, and the
    features of its thinking.
    """

    at: tuple[Features, Features | None, Features | None, Features, Features]
    thinking: Features

    def count_full(self, estimator: Estimator) -> tuple[int, int]:
        """The estimated tokens of the full text and of its thinking."""
        return estimator.tokens(self.at[0]), estimator.tokens(self.thinking)

    def tokens(self, estimator: Estimator, full: int) -> tuple[int, int | None, int | None, int, int]:
        """The estimated tokens at each fidelity; ``full`` is the count for the full text."""
        _, detailed, compact, stub, line = self.at
        return (
            full,
            None if detailed is None else estimator.tokens(detailed),
            None if compact is None else estimator.tokens(compact),
            estimator.tokens(stub),
            estimator.tokens(line),
        )


def line_of(obj: MemoryObject) -> str:
    """The index line of an object: its description and its size."""
    return with_amount(obj.line, obj.size) if obj.line else obj.stub


def find_path(kind: ObjectKind, key: str | None) -> str:
    """The path of the file that an object with this source key shows; empty if it shows none."""
    return plain(key, len(key)) if key and KINDS[kind].is_file else ""


def size_of(
    obj: MemoryObject,
    own: Sequence[Message],
    text_size: Callable[[Fidelity], Features | None],
    before: Size | None = None,
) -> Size:
    """The size of an object whose messages hold only its own blocks. ``text_size`` returns the size of a rendition's
    text. ``before`` is the size with fewer renditions, whose values are reused.
    """

    def rendering(fidelity: Fidelity, text: str = "") -> ObjectRendering:
        return ObjectRendering(
            id=obj.id,
            fidelity=fidelity,
            text=text,
            line=line_of(obj),
            path=find_path(obj.kind, obj.source_key),
            keeps_prompt=keeps_prompt(obj.tags),
            is_own_detail=is_its_own_detail(obj.tags),
        )

    def measure_rendered(fidelity: Fidelity) -> Features | None:
        if before is not None and before.at[fidelity] is not None:
            return before.at[fidelity]
        if fidelity is Fidelity.DETAILED and is_its_own_detail(obj.tags):
            return _measure(between(own, rendering(fidelity, obj.stub)))
        text = text_size(fidelity)
        return None if text is None else _measure(between(own, rendering(fidelity))) + text

    detailed, compact = measure_rendered(Fidelity.DETAILED), measure_rendered(Fidelity.COMPACT)
    if before is not None:
        full, _, _, stub, line = before.at
        return Size((full, detailed, compact, stub, line), before.thinking)
    thinking = sum(
        (features_of_block(block) for message in own for block in message["content"] if block.get("type") in THINKING),
        Features(),
    )
    return Size(
        (
            _measure(between(own, None)) - thinking,
            detailed,
            compact,
            _measure(between(own, rendering(Fidelity.STUB, obj.stub))),
            _measure(between(own, rendering(Fidelity.EVICTED))),
        ),
        thinking,
    )


def _measure(messages: Sequence[Message]) -> Features:
    features = (_AROUND if each == AROUND else features_of_message(each) for each in messages)
    return sum(features, Features()) - _AROUND - _AROUND


_AROUND = features_of_message(AROUND)
