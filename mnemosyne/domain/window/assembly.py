"""How objects below full fidelity look on the wire: stubs and summaries in place, evicted ones as lines of an index.

What is shown of an object depends on that object alone (``Sight``), and where it stands on its neighbours alone; so the
part of a history in which nothing changed is rendered to the same bytes again, and stays in the provider's cache.

The wire's rules hold whatever is degraded: a call keeps its result or both go, results come first in their message,
roles alternate, no text and no message is empty. An evicted object leaves one line where its result was, or in the
user's next message where it was the assistant's.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.objects.events import Place
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks

Block = dict[str, Any]
Message = dict[str, Any]


KEPT_INPUT = 160
"""Characters that a string of a degraded call's input may have; what is longer is cut to its beginning."""

REPLACED = ("old_string", "oldString", "old_str")
"""The inputs of an edit that hold the text which it took out. No file holds that any more, so at L1 it goes first; the
rest of a call, which the agent wrote and may quote, stays whole there.
"""


BEFORE = "(The conversation up to here left the window.)"
"""What the user says where a history would begin with the assistant."""

HERE = "(What was said here is shown above.)"
"""What the user says where a history would end with the assistant, which would ask the provider to go on with that."""


@attrs.frozen(kw_only=True)
class Sight:
    """What a window shows of one object. ``text`` is its rendition or stub, ``lost`` a few words on what that lacks
    (may be empty), ``line`` what the index says of it. ``keeps_prompt``: what the user said in it stays as it was said.
    """

    id: str
    fidelity: Fidelity
    text: str
    lost: str = ""
    line: str
    keeps_prompt: bool = False

    @property
    def shown(self) -> str:
        """The text that stands for the object below L0."""
        if self.fidelity is Fidelity.EVICTED:
            return f"[{self._name}] {self.line}"
        head = f"[{self._name}; lost: {self.lost}]" if self.lost else f"[{self._name}]"
        return f"{head} {self.text}" if self.fidelity is Fidelity.STUB else f"{head}\n{self.text}"

    @property
    def again(self) -> str:
        """What stands in its other places."""
        return f"[{self._name}]"

    @property
    def _name(self) -> str:
        return f"{MARK}{self.id} {self.fidelity.label}"


Sights = Mapping[Place, Sight]
"""What is shown of the object that owns a place; places of objects in full need none."""


@attrs.frozen
class _Line:
    """What is left of an evicted object."""

    text: str


_Rendered = Block | _Line


@attrs.frozen
class Joined:
    """A message of a rendered history. ``number`` is that of the first message it was made of; ``same`` says that it
    is that one alone, with nothing changed but that thinking may be left out.
    """

    message: Message
    number: int
    same: bool


def assembled(messages: Sequence[Message], sights: Sights, *, thinking_from: int = 0, first: int = 0) -> list[Message]:
    """The messages of ``joined``."""
    return [each.message for each in joined(messages, sights, thinking_from=thinking_from, first=first)]


def joined(messages: Sequence[Message], sights: Sights, *, thinking_from: int = 0, first: int = 0) -> list[Joined]:
    """A history as it goes upstream; ``messages`` count from number ``first``.

    Thinking in the messages before number ``thinking_from`` is left out: what came before a message was changed since
    it was said, and then its signatures hold no longer. That is the number of the first message after all that the
    sights change.
    """
    rendering = _Rendering(sights, _gone(messages, sights, first))
    made: list[Joined] = []
    carried: list[_Rendered] = []
    for number, message in enumerate(messages, first):
        role = message.get("role")
        rendered = list(rendering.message(message, number, thinking=number >= thinking_from))
        if role == "assistant":  # the assistant did not say that something left; whoever answers it does
            carried += [each for each in rendered if isinstance(each, _Line)]
            rendered = [each for each in rendered if not isinstance(each, _Line)]
        elif role == "user":
            rendered, carried = [*carried, *rendered], []
        content = _content(rendered)
        if not made and role == "assistant" and content:
            made.append(Joined(_said_by_user(BEFORE), number, same=False))
        before = _before(made, role) if content else None
        if before is not None:
            made[before].message["content"] += content
            made[before] = attrs.evolve(made[before], same=False)
        elif content or (role == "system" and not message.get("content")):  # one without content may set the effort
            made.append(Joined({**message, "content": content}, number, same=_is_same(content, message)))
    if messages and messages[-1].get("role") == "user" and made and made[-1].message["role"] == "assistant":
        made.append(Joined(_said_by_user(HERE), first + len(messages) - 1, same=False))
    return made


def _before(made: Sequence[Joined], role: object) -> int | None:
    """The message that another one of a role goes on, None if it stands for itself. Roles alternate; and a system
    message in their midst stands behind what the user said, and before what the assistant says (Messages API).
    """
    roles = [each.message["role"] for each in made[-2:]]
    if roles[-1:] == [role]:
        return len(made) - 1
    return len(made) - 2 if roles == ["user", "system"] and role == "user" else None


def _said_by_user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _is_same(content: Sequence[Block], message: Message) -> bool:
    blocks = [block for block in content_blocks(message.get("content")) if block.get("type") not in THINKING]
    rest = [block for block in content if block.get("type") not in THINKING]
    return len(rest) == len(blocks) and all(map(operator.eq, rest, blocks))


def shaped(message: Message, number: int, sights: Sights) -> Message:
    """A message that is sent for the first time. Only results can be shaped then: the assistant's own words come back
    as it said them, and so a call's result stays.
    """
    blocks = content_blocks(message.get("content"))
    if message.get("role") != "user" or not any(Place(number, index) in sights for index in range(len(blocks))):
        return message
    rendering = _Rendering(
        {place: sight for place, sight in sights.items() if _is_result(blocks, place, number)}, gone=frozenset()
    )
    return {**message, "content": _content(list(rendering.message(message, number, thinking=True)))}


def _is_result(blocks: Sequence[Block], place: Place, message: int) -> bool:
    return place.message == message and is_result(blocks[place.block])


def _gone(messages: Sequence[Message], sights: Sights, first: int) -> frozenset[str]:
    """The calls that leave with their results: those of which both are evicted."""
    calls: set[str] = set()
    results: set[str] = set()
    for number, message in enumerate(messages, first):
        for index, block in enumerate(content_blocks(message.get("content"))):
            sight = sights.get(Place(number, index))
            if sight is not None and sight.fidelity is Fidelity.EVICTED:
                if is_call(block):
                    calls.add(str(block.get("id")))
                elif is_result(block):
                    results.add(str(block.get("tool_use_id")))
    return frozenset(calls & results)


class _Rendering:
    """Renders messages in their order: an object is told of in the first of its places."""

    def __init__(self, sights: Sights, gone: frozenset[str]) -> None:
        self._sights = sights
        self._gone = gone
        self._told: set[str] = set()

    def message(self, message: Message, number: int, *, thinking: bool) -> Iterator[_Rendered]:
        """What stands in the places of a message's blocks."""
        for index, block in enumerate(content_blocks(message.get("content"))):
            sight = self._sights.get(Place(number, index))
            if block.get("type") in THINKING:
                if thinking:
                    yield block
            elif sight is None or sight.fidelity is Fidelity.FULL or _is_prompt(message, block, sight):
                yield block
            else:
                yield from self._degraded(block, sight)

    def _degraded(self, block: Block, sight: Sight) -> Iterator[_Rendered]:
        if is_call(block):  # the result, which follows, is where the object is told of
            if block.get("id") not in self._gone:
                yield {**block, "input": shortened(block.get("input"), sight)}
            return
        first = sight.id not in self._told
        self._told.add(sight.id)
        if is_result(block) and block.get("tool_use_id") not in self._gone:
            bare = {key: value for key, value in block.items() if key != "cache_control"}
            yield {**bare, "content": sight.shown if first else sight.again}
        elif first and sight.fidelity is Fidelity.EVICTED:
            yield _Line(sight.shown)
        elif first:
            yield {"type": "text", "text": sight.shown}


def _is_prompt(message: Message, block: Block, sight: Sight) -> bool:
    return sight.keeps_prompt and message.get("role") == "user" and not is_result(block)


def shortened(value: Any, sight: Sight, name: str = "") -> Any:
    """A call's input, or its member of a ``name``, with its long strings cut, so that it still says what was asked."""
    match value:
        case str() if len(value) > KEPT_INPUT and (sight.fidelity is not Fidelity.DETAILED or name in REPLACED):
            return f"{value[: KEPT_INPUT // 2]} [{MARK}{sight.id}: {len(value) - KEPT_INPUT // 2} more characters]"
        case dict():
            return {key: shortened(each, sight, key) for key, each in value.items()}
        case list():
            return [shortened(each, sight, name) for each in value]
        case _:
            return value


def _content(rendered: Sequence[_Rendered]) -> list[Block]:
    """The blocks of one message: results first, then the rest in order, lines that stand together as one text."""
    results: list[Block] = []
    rest: list[Block] = []
    lines: list[str] = []
    for each in rendered:
        if isinstance(each, _Line):
            lines.append(each.text)
        elif is_result(each):
            results.append(each)
        else:
            rest += [*_index(lines), each]
            lines = []
    return [*results, *rest, *_index(lines)]


def _index(lines: Sequence[str]) -> list[Block]:
    return [{"type": "text", "text": "\n".join(lines)}] if lines else []
