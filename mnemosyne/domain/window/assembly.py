"""Wire form of objects below full fidelity: stubs and summaries in place, evicted objects as lines of a note.

The text of an object depends only on that object (``ObjectRendering``), and its position only on its neighbors. So
everything before a change, up to the last user text there, is rendered to the same bytes again.

The result satisfies the API's rules at any fidelity: a call keeps its result or both are removed, results come first in
their message, roles alternate, and no text or message is empty. Evicted assistant content is listed in a *note* behind
the previous user text (ADR 18): a run of evicted rounds is one note, and no message is added in which a user would
answer with the proxy's lines. Assistant messages contain no text of the proxy and no text of the user.
"""

import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import dropwhile, groupby, takewhile
from typing import Any

import attrs

from mnemosyne.domain.objects.aggregate import WORTH_EXTRACTING
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK, NOTE
from mnemosyne.domain.summaries.extractive.units import MARK as CUT
from mnemosyne.domain.text.parts import ROLE_LABELS, PartRole
from mnemosyne.domain.text.stubs import ELLIPSIS
from mnemosyne.domain.wire.blocks import call_id_of, is_blank, is_call, is_result, without_marker
from mnemosyne.domain.wire.dialect import Joining
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.normal_form import THINKING, content_blocks

Block = dict[str, Any]
Message = dict[str, Any]


KEPT_INPUT = 160
"""Maximum characters of a string in the input of a degraded call; a longer string is cut to its beginning. At L1 it is
cut from the length on from which a text has an extract, which then shows it.
"""

KEPT_WORDS = 80
"""Characters kept of an evicted answer when part of it has to stay."""

REPLACED = ("old_string", "oldString", "old_str")
"""Edit inputs that hold the replaced text. No file contains that text any more, so the L1 of an edit drops only this
text; the rest of the call, which the agent wrote and may quote, stays complete.
"""


BEFORE = "(The conversation up to here left the window.)"
"""User text inserted where a history would begin with the assistant."""

LONG_GONE = "{} of long ago; search memory for what you need of it"
"""Line of a note for objects evicted so long ago that the names of all would fill the window."""

CITE = f"[Memory] Name the id of each record that you rely on, as in [{MARK}abc1234]."
"""Text behind the first message that a rewrite changes, if the model is asked for sources. No object has this id."""

ASIDE = "[Not the user's words: "
"""Prefix of a line behind user text or a tool result that tells the model what was observed of its own work."""

HERE = "(What was said here is shown above.)"
"""User text inserted where a history would end with the assistant, because the provider would then continue that
message.
"""


@attrs.frozen(kw_only=True)
class ObjectRendering:
    """The rendering of one object in a window. ``text`` is its rendition or stub, ``facts`` what is said of the
    rendition (``losses.describe_form``), ``line`` its index line, and ``path`` the whole path of the file that it
    shows, if any. ``keeps_prompt``: user text in the object stays verbatim. ``is_own_detail``: its L1 is its call
    without replaced text. ``long_gone``: a note only counts the object and does not name it.
    """

    id: str
    fidelity: Fidelity
    text: str
    facts: str = ""
    line: str
    path: str = ""
    keeps_prompt: bool = False
    is_own_detail: bool = False
    long_gone: bool = False

    @property
    def shown(self) -> str:
        """The text that replaces the object below L0."""
        if self.is_part:
            return f"[{MARK}{self.id} in part{self._facts}]\n{self.text}"
        return f"[{MARK}{self.id} left] {self._description}"

    @property
    def note_line(self) -> str:
        """The object's line in a note, if its remaining text is elsewhere."""
        said = f"in part: what you said{self._facts}"
        return f"{MARK}{self.id} {said if self.is_part else self._description}"

    @property
    def named(self) -> tuple[str, str, str]:
        """The index line in three parts: what was done with the source, such as ``Read``, the source, and the size. The
        source is the file's path, otherwise the whole line.
        """
        action, _, rest = self.line.partition(" ")
        shown, _, size = rest.partition(" (")
        if shown and self.path.endswith(shown.removeprefix(ELLIPSIS)):
            return action, self.path, size and f" ({size}"
        return "", self.line, ""

    @property
    def reference(self) -> str:
        """The text at the object's other places."""
        return f"[{MARK}{self.id}]"

    @property
    def is_part(self) -> bool:
        """Whether part of the object is shown."""
        return Fidelity.FULL < self.fidelity < Fidelity.STUB

    @property
    def _description(self) -> str:
        return self.line if self.fidelity is Fidelity.EVICTED else self.text

    @property
    def _facts(self) -> str:
        return self.facts and f"; {self.facts}"


Renderings = Mapping[BlockPlace, ObjectRendering]
"""The rendering of the object that owns each place; places of objects in full need none."""


@attrs.frozen
class _Line:
    """One object's line in a note. An evicted object has no ``text``: neighbors that were evicted share a line."""

    rendering: ObjectRendering
    text: str = ""


_Rendered = Block | _Line


@attrs.define
class _MessageDraft:
    """A message under construction, including lines for a note."""

    message: Message
    number: int
    same: bool
    content: list[_Rendered]
    made_of: list[int]


@attrs.frozen
class Joined:
    """A message of a rendered history. ``number`` is the client message at whose place it begins; ``made_of`` are all
    client messages that it combines, empty for a message that the proxy added. ``same``: it equals one client message,
    except that thinking may be removed.
    """

    message: Message
    number: int
    same: bool
    made_of: tuple[int, ...] = ()


def assemble(
    messages: Sequence[Message], renderings: Renderings, *, thinking_from: int = 0, first: int = 0
) -> list[Message]:
    """The messages that ``join`` returns."""
    return [each.message for each in join(messages, renderings, thinking_from=thinking_from, first=first)]


def join(
    messages: Sequence[Message],
    renderings: Renderings,
    *,
    thinking_from: int = 0,
    first: int = 0,
    joins: Joining = Joining.ALWAYS,
    omitted: Collection[BlockPlace] = (),
    cite: str = "",
) -> list[Joined]:
    """Render a history for the provider. ``messages`` are numbered from ``first``; ``joins`` says which are merged;
    blocks at the places ``omitted`` are dropped. ``cite`` is added to the first changed message, where it breaks no
    cache.

    Thinking is removed from the messages before number ``thinking_from``. Its signatures cover everything before it, so
    they become invalid once an earlier message changes. The number is therefore one more than the last message that the
    renderings change.
    """
    rendering = _MessageRenderer(renderings, _find_gone(messages, renderings, first), omitted)
    made: list[_MessageDraft] = []
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
        elif content or (role == "system" and not message.get("content")):  # an empty system message may set the effort
            made.append(_MessageDraft(message, number, _is_same(content, message), list(content), [number]))
    if messages and messages[-1].get("role") == "user" and made and made[-1].message["role"] == "assistant":
        made.append(_by_user(HERE, first + len(messages) - 1))
    if cite:
        _append_text(made, cite)
    return [
        Joined({**each.message, "content": _content(each.content)}, each.number, each.same, tuple(each.made_of))
        for each in made
    ]


def _is_begun(made: Sequence[_MessageDraft]) -> bool:
    return any(each.message["role"] == "user" for each in made)


def _count_leading(made: Sequence[_MessageDraft]) -> int:
    """Number of system messages at the start."""
    return len(list(takewhile(lambda each: each.message["role"] == "system", made)))


def _note(made: Sequence[_MessageDraft], lines: Sequence[_Line]) -> None:
    """Add lines for evicted objects behind the last user text."""
    last = next(each for each in reversed(made) if each.message["role"] == "user")
    last.content += lines
    last.same = False


def _append_text(made: Sequence[_MessageDraft], text: str) -> None:
    """Add a text to the first changed message, or to the next one of the user."""
    changed = dropwhile(lambda each: each.same, made)
    place = next((each for each in changed if each.message["role"] == "user"), None)
    if place is not None:
        place.content.append({"type": "text", "text": text})
        place.same = False


def _find_joined(
    made: Sequence[_MessageDraft], role: object, content: Sequence[Block], number: int, joins: Joining
) -> int | None:
    """The index of the message that the next one is merged into; None to start a new message."""
    if joins is not Joining.WHERE_ONE_LEFT:
        return _before(made, role) if joins is Joining.ALWAYS else None
    if not made or made[-1].message["role"] != role or made[-1].made_of[-1:] == [number - 1]:
        return None
    return None if _holds_result([*made[-1].content, *content]) else len(made) - 1


def _keep_last_words(
    made: Sequence[_MessageDraft], content: Sequence[Block], messages: Sequence[Message], number: int
) -> list[_MessageDraft]:
    """The beginning of an evicted answer, kept between a result and the following user text. Chat templates that skip
    calls and results when they look for turns would otherwise see two user messages in a row.
    """
    if not made or not _holds_result(made[-1].content) or _holds_result(content):
        return []
    skipped = number - 1 - made[-1].made_of[-1]
    answer = next(
        (each for each in reversed(messages[len(messages) - skipped :]) if each.get("role") == "assistant"), None
    )
    if answer is None or any(map(is_call, content_blocks(answer.get("content")))):
        return []
    words = "\n".join(str(block.get("text", "")) for block in _words_of(content_blocks(answer.get("content"))))
    line, _, rest = words.strip().partition("\n")
    cut = f" {CUT}" if rest or len(line) > KEPT_WORDS else ""
    text = f"{line[:KEPT_WORDS].rstrip()}{cut}" or NO_CONTENT
    return [
        _MessageDraft(
            {"role": "assistant"}, number - 1, same=False, content=[{"type": "text", "text": text}], made_of=[]
        )
    ]


def _holds_result(content: Sequence[_Rendered]) -> bool:
    return any(isinstance(each, dict) and is_result(each) for each in content)


def _before(made: Sequence[_MessageDraft], role: object) -> int | None:
    """The index of the message that the next one of this role is merged into; None to start a new message. Roles
    alternate; a system message between them comes after user text and before assistant text (Messages API).
    """
    roles = [each.message["role"] for each in made[-2:]]
    if roles[-1:] == [role]:
        return len(made) - 1
    return len(made) - 2 if roles == ["user", "system"] and role == "user" else None


def _by_user(text: str, number: int) -> _MessageDraft:
    return _MessageDraft({"role": "user"}, number, same=False, content=[{"type": "text", "text": text}], made_of=[])


def _is_same(content: Sequence[Block], message: Message) -> bool:
    rest, blocks = _words_of(content), _words_of(content_blocks(message.get("content")))
    return len(rest) == len(blocks) and all(map(operator.eq, rest, blocks))


def _words_of(content: Sequence[Block]) -> list[Block]:
    return [block for block in content if block.get("type") not in THINKING and not is_blank(block)]


def _find_gone(messages: Sequence[Message], renderings: Renderings, first: int) -> frozenset[BlockPlace]:
    """The places of calls and results that are removed together, because all of them are evicted. A result answers the
    last call with its id, because some servers give every call the same id.
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
    """Renders messages in order: the first place of an object shows it, its other places only refer to it."""

    def __init__(
        self, renderings: Renderings, gone: frozenset[BlockPlace], omitted: Collection[BlockPlace] = ()
    ) -> None:
        self._render_objects = renderings
        self._omitted = omitted
        self._gone = gone
        self._shown: set[str] = set()
        self._prompts: dict[str, set[str]] = {}  # lines of user text, by object id

    def message(self, message: Message, number: int, *, thinking: bool) -> Iterator[_Rendered]:
        """The rendered blocks of a message."""
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
        if is_call(block):  # the result, which follows, shows the object
            if place not in self._gone:
                yield {**block, "input": shorten(block.get("input"), rendering)}
            return
        first = rendering.id not in self._shown
        self._shown.add(rendering.id)
        if is_result(block) and place not in self._gone:
            yield {**without_marker(block), "content": rendering.shown if first else rendering.reference}
        elif first and by_assistant and rendering.is_part and block.get("type") == "text":
            yield _Line(rendering, rendering.note_line)
            words = self._of_assistant(rendering)
            if words:
                yield {"type": "text", "text": words}
        elif first and not by_assistant and rendering.fidelity is not Fidelity.EVICTED:
            yield {"type": "text", "text": rendering.shown}
        elif first and rendering.fidelity is Fidelity.EVICTED:
            yield _Line(rendering)
        elif first:
            yield _Line(rendering, rendering.shown if rendering.is_part else rendering.note_line)

    def _of_assistant(self, rendering: ObjectRendering) -> str:
        """The rendition of assistant text without the user's lines, which are shown in full at their own place."""
        prompts = self._prompts.get(rendering.id, ())
        lines = [line for line in _not_by_user(rendering.text.splitlines()) if not _is_quoted_in(line, prompts)]
        return "\n".join(lines).strip()


def _not_by_user(lines: Sequence[str]) -> Iterator[str]:
    """The lines without the user's, as the rendition labels them, and without the labels of speakers."""
    by_user = False
    for line in lines:
        if line in ROLE_LABELS.values():
            by_user = line == ROLE_LABELS[PartRole.USER]
        elif not by_user:
            yield line


def _is_quoted_in(line: str, user_lines: Collection[str]) -> bool:
    """Whether the user's lines contain every part of an extracted line (the extract marks its cuts)."""
    kept = [part.strip() for part in line.split(CUT) if part.strip()]
    return bool(kept) and all(any(part in each for each in user_lines) for part in kept)


def _is_prompt(message: Message, block: Block, rendering: ObjectRendering) -> bool:
    return rendering.keeps_prompt and message.get("role") == "user" and not is_result(block)


def shorten(value: Any, rendering: ObjectRendering, name: str = "") -> Any:
    """Cut long strings in a call's input, or in its member ``name``, so that the input still shows what was
    requested.
    """
    match value:
        case str() if len(value) > _longest_input(rendering, name):
            return f"{value[: KEPT_INPUT // 2]} [{MARK}{rendering.id}: {len(value) - KEPT_INPUT // 2} more characters]"
        case dict():
            return {key: shorten(value_of, rendering, key) for key, value_of in value.items()}
        case list():
            return [shorten(value_of, rendering, name) for value_of in value]
        case _:
            return value


def _longest_input(rendering: ObjectRendering, name: str) -> float:
    """The longest string of a member that stays whole."""
    if rendering.fidelity is not Fidelity.DETAILED or name in REPLACED:
        return KEPT_INPUT
    return math.inf if rendering.is_own_detail else WORTH_EXTRACTING


def _content(rendered: Sequence[_Rendered]) -> list[Block]:
    """The blocks of one message: results first, then the rest in order; consecutive note lines become one note."""
    results: list[Block] = []
    rest: list[Block] = []
    lines: list[_Line] = []
    for each in rendered:
        if isinstance(each, _Line):
            lines.append(each)
        elif is_result(each):
            results.append(each)
        else:
            rest += [*_note_of(lines), each]
            lines = []
    return [*results, *rest, *_note_of(lines)]


def _note_of(lines: Sequence[_Line]) -> list[Block]:
    if not lines:
        return []
    counted = [each for each in lines if each.rendering.long_gone]
    texts = [LONG_GONE.format(len(counted))] if counted else []
    named = (each for each in lines if not each.rendering.long_gone)
    for text, run in groupby(named, key=lambda each: each.text):
        texts.append(text or describe_segment([each.rendering for each in run]))
    return [{"type": "text", "text": "\n".join((NOTE, *texts))}]


def describe_segment(evicted: Sequence[ObjectRendering]) -> str:
    """The line for evicted neighbors: how many there are, and each file, command or search once, in the order of its
    first object, behind the ids of all its objects: ``3 objects: #a #b (9.0 KB) Read, #c Edit /src/a.py``.
    """
    if len(evicted) == 1:
        return evicted[0].note_line
    sources: dict[str, dict[str, list[str]]] = {}
    for each in evicted:
        action, source, size = each.named
        sources.setdefault(source, {}).setdefault(action, []).append(f"{MARK}{each.id}{size}")
    entries = []
    for source, actions in sources.items():
        objects = ", ".join(f"{' '.join(ids)} {action}".rstrip() for action, ids in actions.items())
        entries.append(f"{objects} {source}")
    return f"{len(evicted)} objects: {'; '.join(entries)}"
