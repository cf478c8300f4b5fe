"""How objects below full fidelity look on the wire: stubs and summaries in place, evicted ones as lines of a note.

The text shown for an object depends on that object alone (``ObjectRendering``), its place on its neighbours alone. So
everything before a change, up to the last user text there, is rendered to the same bytes again.

The wire's rules hold whatever is degraded: a call keeps its result or both go, results come first in their message,
roles alternate, no text and no message is empty. What the assistant did and is not there any more is told in a *note*
behind what the user had said before (ADR 18): a run of rounds that left is one note, and no message is made for it in
which a user would answer with our lines. Nothing of ours stands among the assistant's words, and nothing of the user's.
"""

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import attrs

from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK, NOTE
from mnemosyne.domain.summaries.extractive.units import MARK as CUT
from mnemosyne.domain.text.parts import SPEAKERS, Voice
from mnemosyne.domain.wire.blocks import call_id_of, is_blank, is_call, is_result, without_marker
from mnemosyne.domain.wire.dialect import Joining
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks

Block = dict[str, Any]
Message = dict[str, Any]


KEPT_INPUT = 160
"""Characters that a string of a degraded call's input may have; what is longer is cut to its beginning."""

KEPT_WORDS = 80
"""Characters that stay of an answer which left, where something of it must."""

REPLACED = ("old_string", "oldString", "old_str")
"""The inputs of an edit that hold the text which it took out. No file holds that any more, so at L1 it goes first; the
rest of a call, which the agent wrote and may quote, stays whole there.
"""


BEFORE = "(The conversation up to here left the window.)"
"""What the user says where a history would begin with the assistant."""

LONG_GONE = "{} of long ago; search memory for what you need of it"
"""How a note tells of what left so long ago that a line for each would fill the window."""

ASIDE = "[Not the user's words: "
"""How a line begins that tells the model what was seen of its own work, behind what a user or a tool said."""

HERE = "(What was said here is shown above.)"
"""What the user says where a history would end with the assistant, which would ask the provider to go on with that."""


@attrs.frozen(kw_only=True)
class ObjectRendering:
    """What a window shows of one object. ``text`` is its rendition or stub, ``lost`` a few words on what that lacks and
    ``ask`` on what it is not enough for (both may be empty), ``line`` what the index says of it. ``keeps_prompt``: what
    the user said in it stays as it was said. ``long_gone``: a note counts it, and has no line for it any more.
    """

    id: str
    fidelity: Fidelity
    text: str
    lost: str = ""
    ask: str = ""
    line: str
    keeps_prompt: bool = False
    long_gone: bool = False

    @property
    def shown(self) -> str:
        """The text that stands for the object below L0."""
        if self.is_part:
            return f"[{self._in_part}]\n{self.text}"
        return f"[{MARK}{self.id} left] {self._what}"

    @property
    def told(self) -> str:
        """The line of a note that tells of it, where its text, if any is left, stands elsewhere; none where it is only
        counted.
        """
        if self.long_gone:
            return ""
        return f"{self._in_part}: what you said" if self.is_part else f"{MARK}{self.id} {self._what}"

    @property
    def again(self) -> str:
        """What stands in its other places."""
        return f"[{MARK}{self.id}]"

    @property
    def is_part(self) -> bool:
        """Whether some of it is left."""
        return Fidelity.FULL < self.fidelity < Fidelity.STUB

    @property
    def _what(self) -> str:
        return self.line if self.fidelity is Fidelity.EVICTED else self.text

    @property
    def _in_part(self) -> str:
        facts = [f"{MARK}{self.id} in part", self.lost and f"lost: {self.lost}", self.ask and f"ask for: {self.ask}"]
        return "; ".join(filter(None, facts))


Renderings = Mapping[BlockPlace, ObjectRendering]
"""What is shown of the object that owns a place; places of objects in full need none."""


@attrs.frozen
class _Line:
    """What a note says of an object; nothing where it only counts it."""

    text: str


_Rendered = Block | _Line


@attrs.define
class _Making:
    """A message on its way, with the lines that it will hold in a note."""

    message: Message
    number: int
    same: bool
    content: list[_Rendered]
    made_of: list[int]


@attrs.frozen
class Joined:
    """A message of a rendered history. ``number`` is that of the message at whose place it begins, ``made_of`` are all
    that it was made of, none where it is ours; ``same`` says that it is one, with nothing changed but that thinking may
    be left out.
    """

    message: Message
    number: int
    same: bool
    made_of: tuple[int, ...] = ()


def assemble(
    messages: Sequence[Message], renderings: Renderings, *, thinking_from: int = 0, first: int = 0
) -> list[Message]:
    """The messages of ``join``."""
    return [each.message for each in join(messages, renderings, thinking_from=thinking_from, first=first)]


def join(
    messages: Sequence[Message],
    renderings: Renderings,
    *,
    thinking_from: int = 0,
    first: int = 0,
    joins: Joining = Joining.ALWAYS,
    omitted: Collection[BlockPlace] = (),
) -> list[Joined]:
    """A history as it goes upstream; ``messages`` count from number ``first``, and ``joins`` says which become one.
    The blocks at the places ``omitted`` are left out.

    Thinking in the messages before number ``thinking_from`` is left out: what came before a message was changed since
    it was said, and then its signatures hold no longer. That is the number of the first message after all that the
    sights change.
    """
    rendering = _MessageRenderer(renderings, _find_gone(messages, renderings, first), omitted)
    made: list[_Making] = []
    for number, message in enumerate(messages, first):
        role = message.get("role")
        rendered = list(rendering.message(message, number, thinking=number >= thinking_from))
        content: list[Block] = [each for each in rendered if not isinstance(each, _Line)]
        lines = [each for each in rendered if isinstance(each, _Line)]
        if (lines or (role == "assistant" and content)) and not _is_begun(made):
            made.insert(_count_leading(made), _by_user(BEFORE, number))
        if lines:
            _note(made, lines)
        before = _find_joined(made, role, content, number, joins) if content else None
        if role == "user" and content and joins is Joining.WHERE_ONE_LEFT:
            made += _keep_last_words(made, content, messages[: number - first], number)
        if before is not None:
            made[before].content += content
            made[before].same = False
            made[before].made_of.append(number)
        elif content or (role == "system" and not message.get("content")):  # one without content may set the effort
            made.append(_Making(message, number, _is_same(content, message), list(content), [number]))
    if messages and messages[-1].get("role") == "user" and made and made[-1].message["role"] == "assistant":
        made.append(_by_user(HERE, first + len(messages) - 1))
    return [
        Joined({**each.message, "content": _content(each.content)}, each.number, each.same, tuple(each.made_of))
        for each in made
    ]


def _is_begun(made: Sequence[_Making]) -> bool:
    return any(each.message["role"] == "user" for each in made)


def _count_leading(made: Sequence[_Making]) -> int:
    """How many messages of the operator's a history begins with."""
    return len(list(takewhile(lambda each: each.message["role"] == "system", made)))


def _note(made: Sequence[_Making], lines: Sequence[_Line]) -> None:
    """Tell of what left behind what the user said last before the assistant spoke."""
    last = next(each for each in reversed(made) if each.message["role"] == "user")
    last.content += lines
    last.same = False


def _find_joined(
    made: Sequence[_Making], role: object, content: Sequence[Block], number: int, joins: Joining
) -> int | None:
    """The message that another one goes on, None if it stands for itself."""
    if joins is not Joining.WHERE_ONE_LEFT:
        return _before(made, role) if joins is Joining.ALWAYS else None
    if not made or made[-1].message["role"] != role or made[-1].made_of[-1:] == [number - 1]:
        return None
    return None if _holds_result([*made[-1].content, *content]) else len(made) - 1


def _keep_last_words(
    made: Sequence[_Making], content: Sequence[Block], messages: Sequence[Message], number: int
) -> list[_Making]:
    """Between a result and what the user says behind it, the beginning of the answer that left there: templates which
    leave out calls and their results where they look for turns would find the user speaking twice.
    """
    if not made or not _holds_result(made[-1].content) or _holds_result(content):
        return []
    left = number - 1 - made[-1].made_of[-1]
    said = next((each for each in reversed(messages[len(messages) - left :]) if each.get("role") == "assistant"), None)
    if said is None or any(map(is_call, content_blocks(said.get("content")))):
        return []
    words = "\n".join(str(block.get("text", "")) for block in _words_of(content_blocks(said.get("content"))))
    line, _, rest = words.strip().partition("\n")
    cut = f" {CUT}" if rest or len(line) > KEPT_WORDS else ""
    text = f"{line[:KEPT_WORDS].rstrip()}{cut}" or NO_CONTENT
    return [
        _Making({"role": "assistant"}, number - 1, same=False, content=[{"type": "text", "text": text}], made_of=[])
    ]


def _holds_result(content: Sequence[_Rendered]) -> bool:
    return any(isinstance(each, dict) and is_result(each) for each in content)


def _before(made: Sequence[_Making], role: object) -> int | None:
    """The message that another one of a role goes on, None if it stands for itself. Roles alternate; and a system
    message in their midst stands behind what the user said, and before what the assistant says (Messages API).
    """
    roles = [each.message["role"] for each in made[-2:]]
    if roles[-1:] == [role]:
        return len(made) - 1
    return len(made) - 2 if roles == ["user", "system"] and role == "user" else None


def _by_user(text: str, number: int) -> _Making:
    return _Making({"role": "user"}, number, same=False, content=[{"type": "text", "text": text}], made_of=[])


def _is_same(content: Sequence[Block], message: Message) -> bool:
    rest, blocks = _words_of(content), _words_of(content_blocks(message.get("content")))
    return len(rest) == len(blocks) and all(map(operator.eq, rest, blocks))


def _words_of(content: Sequence[Block]) -> list[Block]:
    return [block for block in content if block.get("type") not in THINKING and not is_blank(block)]


def shape(message: Message, number: int, renderings: Renderings) -> Message:
    """A message that is sent for the first time. Only results can be shaped then: the assistant's own words come back
    as it said them, and so a call's result stays.
    """
    blocks = content_blocks(message.get("content"))
    if message.get("role") != "user" or not any(
        BlockPlace(number, index) in renderings for index in range(len(blocks))
    ):
        return message
    rendering = _MessageRenderer(
        {place: rendering for place, rendering in renderings.items() if _is_result(blocks, place, number)},
        gone=frozenset(),
    )
    return {**message, "content": _content(list(rendering.message(message, number, thinking=True)))}


def _is_result(blocks: Sequence[Block], place: BlockPlace, message: int) -> bool:
    return place.message == message and is_result(blocks[place.block])


def _find_gone(messages: Sequence[Message], renderings: Renderings, first: int) -> frozenset[BlockPlace]:
    """The places of calls that leave with their results, all of which are evicted. A result answers the last call of
    its id: some servers give every call the same one.
    """
    calls: dict[str, BlockPlace] = {}
    answered: dict[BlockPlace, list[BlockPlace]] = {}
    for number, message in enumerate(messages, first):
        for index, block in enumerate(content_blocks(message.get("content"))):
            place = BlockPlace(number, index)
            if is_call(block):
                calls[str(block.get("id"))] = place
            elif is_result(block) and str(call_id_of(block)) in calls:
                answered.setdefault(calls[str(call_id_of(block))], []).append(place)

    def is_evicted(place: BlockPlace) -> bool:
        return place in renderings and renderings[place].fidelity is Fidelity.EVICTED

    pairs = ((call, *results) for call, results in answered.items())
    return frozenset(place for pair in pairs if all(map(is_evicted, pair)) for place in pair)


class _MessageRenderer:
    """Renders messages in their order: an object is told of in the first of its places."""

    def __init__(
        self, renderings: Renderings, gone: frozenset[BlockPlace], omitted: Collection[BlockPlace] = ()
    ) -> None:
        self._render_objects = renderings
        self._omitted = omitted
        self._gone = gone
        self._told: set[str] = set()
        self._prompts: dict[str, set[str]] = {}  # the lines that the user said, of objects that hold some

    def message(self, message: Message, number: int, *, thinking: bool) -> Iterator[_Rendered]:
        """What stands in the places of a message's blocks."""
        for index, block in enumerate(content_blocks(message.get("content"))):
            place = BlockPlace(number, index)
            rendering = self._render_objects.get(place)
            if block.get("type") in THINKING:
                if thinking:
                    yield block
            elif (is_blank(block) and message.get("role") == "assistant") or place in self._omitted:
                pass
            elif rendering is None or rendering.fidelity is Fidelity.FULL:
                yield block
            elif _is_prompt(message, block, rendering):
                lines = map(str.strip, str(block.get("text")).splitlines())
                self._prompts.setdefault(rendering.id, set()).update(lines)
                yield block
            else:
                yield from self._degrade(
                    block, BlockPlace(number, index), rendering, by_assistant=message.get("role") == "assistant"
                )

    def _degrade(
        self, block: Block, place: BlockPlace, rendering: ObjectRendering, *, by_assistant: bool
    ) -> Iterator[_Rendered]:
        if is_call(block):  # the result, which follows, is where the object is told of
            if place not in self._gone:
                yield {**block, "input": shorten(block.get("input"), rendering)}
            return
        first = rendering.id not in self._told
        self._told.add(rendering.id)
        if is_result(block) and place not in self._gone:
            yield {**without_marker(block), "content": rendering.shown if first else rendering.again}
        elif first and by_assistant and rendering.is_part and block.get("type") == "text":
            yield _Line(rendering.told)
            words = self._of_assistant(rendering)
            if words:
                yield {"type": "text", "text": words}
        elif first and not by_assistant and rendering.fidelity is not Fidelity.EVICTED:
            yield {"type": "text", "text": rendering.shown}
        elif first:
            yield _Line(rendering.shown if rendering.is_part else rendering.told)

    def _of_assistant(self, rendering: ObjectRendering) -> str:
        """A rendition without what the user said in the object, which stands in full where it was said."""
        prompts = self._prompts.get(rendering.id, ())
        lines = [line for line in _not_by_user(rendering.text.splitlines()) if not _is_quoted_in(line, prompts)]
        return "\n".join(lines).strip()


def _not_by_user(lines: Sequence[str]) -> Iterator[str]:
    """The lines without those that a rendition says the user said, and without the names of who speaks."""
    by_user = False
    for line in lines:
        if line in SPEAKERS.values():
            by_user = line == SPEAKERS[Voice.USER]
        elif not by_user:
            yield line


def _is_quoted_in(line: str, said: Collection[str]) -> bool:
    """Whether what an extract kept of a line (it marks what it cut) was said by somebody."""
    kept = [part.strip() for part in line.split(CUT) if part.strip()]
    return bool(kept) and all(any(part in each for each in said) for part in kept)


def _is_prompt(message: Message, block: Block, rendering: ObjectRendering) -> bool:
    return rendering.keeps_prompt and message.get("role") == "user" and not is_result(block)


def shorten(value: Any, rendering: ObjectRendering, name: str = "") -> Any:
    """A call's input, or its member of a ``name``, with its long strings cut, so that it still says what was asked."""
    match value:
        case str() if len(value) > KEPT_INPUT and (rendering.fidelity is not Fidelity.DETAILED or name in REPLACED):
            return f"{value[: KEPT_INPUT // 2]} [{MARK}{rendering.id}: {len(value) - KEPT_INPUT // 2} more characters]"
        case dict():
            return {key: shorten(each, rendering, key) for key, each in value.items()}
        case list():
            return [shorten(each, rendering, name) for each in value]
        case _:
            return value


def _content(rendered: Sequence[_Rendered]) -> list[Block]:
    """The blocks of one message: results first, then the rest in order, lines that stand together as one note."""
    results: list[Block] = []
    rest: list[Block] = []
    lines: list[str] = []
    for each in rendered:
        if isinstance(each, _Line):
            lines.append(each.text)
        elif is_result(each):
            results.append(each)
        else:
            rest += [*_note_of(lines), each]
            lines = []
    return [*results, *rest, *_note_of(lines)]


def _note_of(lines: Sequence[str]) -> list[Block]:
    if not lines:
        return []
    told = [line for line in lines if line]
    counted = [LONG_GONE.format(len(lines) - len(told))] if len(told) < len(lines) else []
    return [{"type": "text", "text": "\n".join((NOTE, *counted, *told))}]
