"""The full text (L0) of an object, from the JSON of its blocks in the log.

The text equals the one that segmentation gave the object (``segmentation.Draft.text``), except for empty lines in place
of thinking. So losses of a summary are measured against the text that was measured when the object was created.
"""

from collections.abc import Collection, Iterator, Sequence

import attrs

from mnemosyne.domain.text.parts import PartRole, TextPart, join
from mnemosyne.domain.text.stubs import LONGEST, plain
from mnemosyne.domain.wire import blocks, json_values
from mnemosyne.domain.wire.blocks import Block, without_marker
from mnemosyne.domain.wire.fragments import read_block
from mnemosyne.domain.wire.normal_form import THINKING

_BETWEEN = " \t\r\n,"


def full_text(content: bytes) -> str:
    """The text of consecutive JSON blocks. Raises ValueError for invalid JSON.

    Unpaired surrogates are replaced, so the text can be stored.
    """
    return join(full_parts(content))


def full_parts(content: bytes, by_user: Collection[int] = (), announced: Collection[int] = ()) -> tuple[TextPart, ...]:
    """The same text as parts. ``by_user`` are the indexes of the blocks that the user wrote, ``announced`` those of
    texts before tool calls.
    """
    found = list(_blocks_in(content.decode("utf-8", "replace")))
    return tuple(
        attrs.evolve(part, text=part.text.encode("utf-8", "replace").decode())
        for part in _parts(found, by_user, announced)
    )


@attrs.frozen
class Attachment:
    """An image or document that the object's text only names. Its block has no cache marker, because a request has room
    for only four. ``asked`` is the text of the call that returned it; empty without a call.
    """

    block: Block
    asked: str

    @property
    def name(self) -> str:
        """Its name: the text of the call and the text of the block, one line each."""
        return "\n".join(filter(None, (plain(self.asked, LONGEST), blocks.text_of(self.block))))


def list_attached(content: bytes) -> tuple[Attachment, ...]:
    """The images and documents of an object, in order."""
    found = list(_blocks_in(content.decode("utf-8", "replace")))
    asked = {str(block.get("id")): blocks.text_of(block) for block in found if blocks.is_any_call(block)}
    return tuple(
        Attachment(without_marker(each), asked.get(str(blocks.call_id_of(block)), ""))
        for block in found
        for each in blocks.list_attached(block)
        if blocks.is_named_only(each)
    )


def _blocks_in(text: str) -> Iterator[Block]:
    at = 0
    while True:
        while at < len(text) and text[at] in _BETWEEN:
            at += 1
        if at == len(text):
            return
        try:
            value, at = json_values.read_first(text, at)
        except RecursionError:
            raise ValueError("a block is nested too deep") from None
        yield read_block(value)


def _parts(found: Sequence[Block], by_user: Collection[int], announced: Collection[int]) -> Iterator[TextPart]:
    waiting: dict[str, list[int]] = {}  # by id, which some servers reuse: the first call is answered first
    results: dict[int, list[Block]] = {}  # by the index of the call, or of the first result if there is no call
    first: dict[int, int] = {}
    for number, block in enumerate(found):
        if blocks.is_any_call(block):
            identity = str(block.get("id"))
            waiting[identity] = [*(each for each in waiting.get(identity, ()) if each not in results), number]
        elif blocks.is_any_result(block):
            calls = waiting.setdefault(str(blocks.call_id_of(block)), [number])
            call = calls.pop(0) if len(calls) > 1 else calls[0]  # the last call takes all further results
            results.setdefault(call, []).append(block)
            first.setdefault(call, number)
    answers = {number: call for call, number in first.items()}
    for number, block in enumerate(found):
        if blocks.is_any_result(block):
            if number in answers:  # the first result of a call yields the whole exchange
                call = answers[number]
                yield from exchange_parts(found[call] if call != number else None, results[call])
        elif blocks.is_any_call(block):
            if number not in results:
                yield from exchange_parts(block, ())
        elif block.get("type") not in THINKING:
            role = PartRole.ANNOUNCEMENT if number in announced else PartRole.ASSISTANT
            yield TextPart(PartRole.USER if number in by_user else role, blocks.text_of(block))


def exchange_parts(call: Block | None, results: Sequence[Block]) -> tuple[TextPart, ...]:
    """The text of a call, if it has any, and its answer."""
    tool = str(call.get("name") or "tool") if call is not None else None
    asked = blocks.text_of(call) if call is not None else ""
    answer = TextPart(PartRole.RESULT, "\n".join(blocks.text_of(each) for each in results), tool)
    return (TextPart(PartRole.CALL, asked, tool), answer) if asked else (answer,)
