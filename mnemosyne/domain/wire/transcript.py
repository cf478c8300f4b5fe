"""Read the client's resent history against the previous one: what is new, what is repeated, and how to store it.

``read`` takes the raw body of a request and the branch's previous ``Transcript``. Two passes at memcmp speed find the
common prefix and suffix; only the bytes between are lexed, parsed and hashed. The transcript does not depend on the
previous one (``read(raw, previous).transcript == read(raw, None).transcript``); only the effort and the storage do.

Storage follows the recipe (``recipe.py``): each long string literal of the changed part is a content of its own,
everything else of it, the *skeleton*, is one content. So when a cache marker moves, or ``[{"type":"text",…}]`` becomes
a string, no text is stored twice. Credentials outside ``messages`` are withheld: they are in no content and in no
change.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import takewhile
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire import body_layout, json_spans, json_values, message_bytes, normal_form, recipe
from mnemosyne.domain.wire.body_layout import Before, BodyLayout, ReadMember
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.dialects import MAIN, dialect_of
from mnemosyne.domain.wire.json_spans import MOST_VALUES, Range
from mnemosyne.domain.wire.normal_form import THINKING, Block, Echo, content_blocks
from mnemosyne.domain.wire.recipe import BodyChange, Piece, Pieces, Recipe, Withheld

_PARSED_HELD = 16

ANY_NUMBER = sys.maxsize
"""The limit for bodies of the proxy's own, and for callers that need the whole body whatever it costs."""

LEVELS = 300
"""How many levels of nesting a message may have: the code that reads and writes it is recursive."""

TOO_MANY_VALUES = f"more than {MOST_VALUES:,} values"

_MANY_BYTES = 1 << 17
"""From this many new bytes on, the values are counted before the body is walked."""

MARKER_KEY = b'"cache_control"'
"""The key of a cache marker."""


class HashState(Protocol):
    """A SHA-256 that can be continued."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> "HashState": ...


@attrs.frozen
class Message:
    """One element of the history.

    ``start`` and ``end`` count bytes from the ``[`` of the array, so a change before it moves nothing. ``digest`` is
    the hash of the normal form; ``chain`` hashes the chain of the previous message together with ``digest``, beginning
    with the conversation's seed: equal chains mean equal histories. ``role`` is ``""`` if the element is not a message.
    """

    start: int
    end: int
    role: str
    digest: bytes
    chain: bytes


@attrs.frozen(kw_only=True)
class Fields:
    """The small top-level members, as the client sent them; None if absent or not of the expected type."""

    model: str | None = None
    stream: bool = False
    max_tokens: int | None = None
    tool_names: tuple[str, ...] = ()
    user_id: str | None = None
    has_thread: bool = False
    has_container: bool = False
    has_output_format: bool = False
    system_digest: bytes | None = None
    tools_digest: bytes | None = None

    @property
    def has_tools(self) -> bool:
        """Whether the client offers any tool; side requests (titles, summaries) do not."""
        return self.tools_digest is not None


@attrs.frozen(kw_only=True)
class _Checkpoint:
    """A SHA-256 state over the first ``length`` bytes of a body, from which hashing can continue."""

    length: int
    state: HashState


@attrs.frozen(kw_only=True)
class Transcript:
    """A request body that has been read. ``raw`` contains credentials in clear text and must stay in memory; ``repr``
    omits it.

    ``opaque`` is None, or the reason why the body is not read as a conversation; it then has no messages, but its bytes
    are still stored and rebuilt. ``sha256`` is the hash of the exact bytes, ``stored_sha256`` of the bytes with each
    withheld byte as ``*``; rebuilding is checked against it.
    """

    raw: bytes = attrs.field(repr=False)
    conversation: str
    messages: tuple[Message, ...] = attrs.field(repr=False)
    fields: Fields
    opaque: str | None
    sha256: bytes
    stored_sha256: bytes
    members: tuple[ReadMember, ...] = attrs.field(repr=False)
    withheld: tuple[Range, ...]
    recipe: Recipe = attrs.field(repr=False, eq=False)
    marked: tuple[int, ...] = attrs.field(repr=False)
    """The offsets in ``raw`` of each MARKER_KEY."""
    values: int = attrs.field(repr=False)
    """How many JSON values the body has; if there are too many, one more than the limit."""
    offering: int | None
    """The index of the message that offers the client's tools; None if a top-level member does, or nothing does."""
    _array_start: int = attrs.field(repr=False)
    _checkpoint: _Checkpoint = attrs.field(repr=False, eq=False)
    # The last messages, each read several times in its first turn. Entries are never removed: threads may share it.
    _parsed: dict[int, dict[str, Any]] = attrs.field(factory=dict, repr=False, eq=False)

    @property
    def dialect(self) -> Dialect:
        """The dialect in which the body was read."""
        return dialect_of(self.conversation)

    @property
    def tools(self) -> bytes:
        """The JSON array of the tools that the client offers; empty if it offers none."""
        if self.offering is not None:
            element = self.message_bytes(self.offering)
            start, end = self.dialect.find_tools(element) or (0, 0)
            return element[start:end]
        return self.raw[slice(*self.member_range("tools"))]

    @property
    def system(self) -> Any:
        """The system prompt outside the history, parsed; None if there is none."""
        return self.member(self.dialect.system) if self.dialect.system is not None else None

    @property
    def cache_route(self) -> Mapping[str, str]:
        """The members of the body that select one of the provider's caches, by name."""
        values = {name: self.member(name) for name in ("prompt_cache_key",)}
        return {name: value for name, value in values.items() if isinstance(value, str)}

    @property
    def chain(self) -> bytes:
        """The chain hash of the whole history; for an empty history, the conversation's seed."""
        return self.messages[-1].chain if self.messages else seed(self.conversation)

    def chains_in(self, conversation: str) -> tuple[bytes, ...]:
        """Return the chain hashes that the messages would have in another conversation."""
        return tuple(message.chain for message in _chain(seed(conversation), self.messages, 0))

    @cached_property
    def markers(self) -> tuple[tuple[int, bytes], ...]:
        """The client's cache markers on messages: pairs of the message's index and the marker's JSON, one per message.

        Computed once, because a turn uses them for planning, sending and billing.
        """
        by_message: dict[int, bytes] = {}
        ends = [message.end for message in self.messages] if self.marked and self.dialect.marks_cache else []
        for at in self.marked:
            number = bisect_right(ends, at - self._array_start)
            if at >= self._array_start and number < len(ends) and number not in by_message:
                marker = message_bytes.marker_in(self.message_bytes(number))
                if marker is not None:
                    by_message[number] = marker
        return tuple(sorted(by_message.items()))

    def message_bytes(self, index: int) -> bytes:
        """Return the raw JSON of a message."""
        return self.raw[slice(*self.message_range(index))]

    def list_elements(self, start: int = 0) -> list[bytes]:
        """Return the raw JSON of the messages, from this number on."""
        return [self.message_bytes(number) for number in range(start, len(self.messages))]

    def message_range(self, index: int) -> Range:
        """Return the range in ``raw`` of a message."""
        message = self.messages[index]
        return self._array_start + message.start, self._array_start + message.end

    def message(self, index: int) -> dict[str, Any]:
        """Return the message in the dialects' common form; ``{}`` if it is not a message. Must not be modified."""
        message = self._parsed.get(index)
        if message is None:
            message = json_values.try_read(self.message_bytes(index), self._read_message) or {}
            if len(self.messages) - index <= _PARSED_HELD:
                self._parsed[index] = message
        return message

    def _read_message(self, value: Any) -> dict[str, Any]:
        return self.dialect.read_message(value) if isinstance(value, dict) else {}

    def blocks(self, index: int) -> list[Block]:
        """Return the blocks of a message; a string content is one block."""
        return content_blocks(self.message(index).get("content"))

    def block_ranges(self, index: int) -> tuple[Range, ...]:
        """Return the ranges in ``raw`` of the blocks of a message; a string content is one block."""
        return self.dialect.block_ranges(self.raw, self._array_start + self.messages[index].start)

    def member_range(self, key: str) -> Range:
        """Return the range in ``raw`` of a top-level member's value; empty without such a member."""
        ranges = ((member.value_start, member.value_end) for member in self.members if member.key == key)
        return next(ranges, (0, 0))

    def member(self, key: str) -> Any:
        """Return the parsed value of a top-level member, or None."""
        start, end = self.member_range(key)
        return json_values.try_read(self.raw[start:end]) if end else None

    def count_shared(self, earlier: "Transcript") -> int:
        """Return the length of the histories' common prefix in messages, by bisection over the chains; 0 across
        conversations.
        """
        if self.conversation != earlier.conversation:
            return 0
        limit = min(len(self.messages), len(earlier.messages))
        return bisect_left(range(limit), True, key=lambda i: self.messages[i].chain != earlier.messages[i].chain)


@attrs.frozen
class StoredBytes:
    """Bytes and their recipe in the store."""

    raw: bytes = attrs.field(repr=False)
    recipe: Recipe = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class TranscriptReading:
    """The result of reading one body. The log records ``change`` and ``contents`` (each new content once, by
    digest).
    """

    transcript: Transcript
    change: BodyChange
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(repr=False)

    def without(self, known: Container[bytes]) -> "TranscriptReading":
        """Return the reading without the contents that are already stored."""
        return attrs.evolve(self, contents=tuple(content for content in self.contents if content[0] not in known))


def seed(conversation: str) -> bytes:
    """Return the chain hash before the first message of a conversation."""
    return sha256(b"lane\0" + conversation.encode("utf-8", "surrogatepass")).digest()


def read(
    raw: bytes,
    previous: Transcript | None = None,
    *,
    conversation: str = MAIN,
    known: Container[bytes] = frozenset(),
    replies: Sequence[StoredBytes] = (),
    most: int = MOST_VALUES,
) -> TranscriptReading:
    """Read a request body in the dialect of its ``conversation``, against the previous one of its branch.

    Any other previous body gives the same transcript, only more slowly. A body with more than ``most`` values is
    opaque. ``known`` are the digests of the contents already stored, which must include those of the previous body and
    of the ``replies``. Texts of the replies that recur in the body are not hashed again. Never raises, whatever the
    bytes are.
    """
    head = recipe.common_prefix(previous.raw, raw) if previous else 0
    tail = recipe.common_suffix(previous.raw, raw, min(len(previous.raw), len(raw)) - head) if previous else 0
    # An opaque body, or one in another dialect, has no layout to start from.
    dialect = dialect_of(conversation)
    earlier = previous if previous and previous.opaque is None and previous.dialect is dialect else None
    layout, values = _lay_out(raw, earlier, (head, tail), dialect, most)
    messages = _messages(raw, layout, earlier, conversation) if layout.opaque is None else ()
    opaque = layout.opaque or _why_unread(raw, dialect, messages, layout)
    messages = messages if opaque is None else ()
    fields = _fields(layout.members)
    offering = _find_offering(raw, layout, messages, earlier, dialect) if not fields.has_tools else None
    if offering is not None:
        fields = attrs.evolve(fields, **offering[1])
    numbers = [span for span in layout.withheld if json_spans.is_number(raw, span)]
    storable = _mask(raw, numbers, NUMBER_MASK) if numbers else raw
    texts = [span for span in layout.withheld if span not in numbers]
    store = _Store(storable, previous, known, replies)
    change = store.change(layout, head, tail)
    checkpoint, exact = _hash(raw, previous, head)
    transcript = Transcript(
        raw=raw,
        conversation=conversation,
        messages=messages,
        fields=fields,
        opaque=opaque,
        sha256=exact,
        stored_sha256=sha256(_mask(storable, texts, recipe.MASK)).digest() if layout.withheld else exact,
        members=layout.members,
        withheld=layout.withheld,
        recipe=recipe.apply(previous.recipe if previous else Recipe(), change),
        marked=_find_markers(raw, previous, head),
        values=values,
        offering=offering[0] if offering is not None else None,
        array_start=layout.array_start,
        checkpoint=checkpoint,
    )
    return TranscriptReading(transcript=transcript, change=change, contents=tuple(store.contents.items()))


def compare_reply(transcript: Transcript, index: int, reply: Sequence[Block]) -> Echo:
    """Compare the history with the reply that was recorded for the request with ``index`` messages before it.

    ABSENT if the message there is not the assistant's: the client dropped the reply (an interrupted one without any
    block, or a failed one that is retried). Text that the client adds to the user's next message, such as Claude Code
    2.1.329's ``[Request interrupted by user]``, does not count.
    """
    if index >= len(transcript.messages) or transcript.messages[index].role != "assistant":
        return Echo.ABSENT
    dialect = transcript.dialect
    shown = [transcript.message(number).get("content") for number in _numbers_of_reply(transcript, index)]
    content: list[Any] = []
    for part in shown:
        if not isinstance(part, str | list):
            return Echo.REWRITTEN
        content += content_blocks(part) if isinstance(part, str) else part
    if dialect.may_drop_thinking:
        content, reply = _without_thinking(content), _without_thinking(reply)
    return normal_form.compare_blocks(content, reply)


def _numbers_of_reply(transcript: Transcript, index: int) -> Iterator[int]:
    """Yield the indexes of the messages in which a history shows the reply that begins there."""
    yield index
    if transcript.dialect.splits_replies:
        later = range(index + 1, len(transcript.messages))
        yield from takewhile(lambda number: transcript.messages[number].role == "assistant", later)


def _without_thinking(blocks: Iterable[Any]) -> list[Any]:
    return [block for block in blocks if not (isinstance(block, dict) and block.get("type") in THINKING)]


def content_of(transcript: Transcript, index: int) -> list[Block]:
    """Return the blocks of the assistant's message at ``index``; empty if there is no such message."""
    if index >= len(transcript.messages) or transcript.messages[index].role != "assistant":
        return []
    contents = (transcript.message(number).get("content") for number in _numbers_of_reply(transcript, index))
    return [block for content in contents for block in content_blocks(content)]


def _lay_out(
    raw: bytes, earlier: Transcript | None, shared: tuple[int, int], dialect: Dialect, most: int
) -> tuple[BodyLayout, int]:
    """Return the layout of a body and how many values it has. A body with too many values is not walked."""
    is_long = earlier is None or len(raw) - sum(shared) >= _MANY_BYTES
    values = json_spans.count_values(raw, most=most) if is_long else 0
    if values <= most:
        layout = body_layout.lay_out(raw, _before(earlier), *shared, dialect)
        if earlier is not None and not is_long:
            values = earlier.values + _count_more(raw, layout, earlier, most)
        if values <= most:
            return layout, values
    return body_layout.unread(raw, TOO_MANY_VALUES), most + 1


def _count_more(raw: bytes, layout: BodyLayout, earlier: Transcript, most: int) -> int:
    """Return how many more values a body has than the previous one."""
    start, end = layout.lexed
    was = json_spans.count_values(earlier.raw, start, end + len(earlier.raw) - len(raw), most=most)
    return json_spans.count_values(raw, start, end, most=most) - was


def _before(previous: Transcript | None) -> Before | None:
    if previous is None:
        return None
    return Before(
        raw=previous.raw,
        members=previous.members,
        array_start=previous._array_start,
        elements=previous.messages,
    )


def _messages(raw: bytes, layout: BodyLayout, previous: Transcript | None, conversation: str) -> tuple[Message, ...]:
    old = previous.messages if previous else ()
    kept = old[: layout.kept]
    resumed = old[layout.resumed :] if layout.resumed is not None else ()
    if previous and previous.conversation != conversation:
        kept = tuple(_chain(seed(conversation), kept, 0))
    chain = kept[-1].chain if kept else seed(conversation)
    new: list[Message] = []
    for start, end in layout.new:
        role, digest = _reuse_digest(
            raw, layout, previous, dialect_of(conversation), (start, end), layout.kept + len(new)
        )
        chain = _link(chain, digest)
        new.append(Message(start, end, role, digest, chain))
    return (*kept, *new, *_chain(chain, resumed, layout.moved))


def _reuse_digest(
    raw: bytes, layout: BodyLayout, previous: Transcript | None, dialect: Dialect, span: Range, index: int
) -> tuple[str, bytes]:
    message = raw[layout.array_start + span[0] : layout.array_start + span[1]]
    if previous and index < len(previous.messages) and previous.message_bytes(index) == message:
        return previous.messages[index].role, previous.messages[index].digest
    return normal_form.message_digest(message, dialect.read_message)


def _chain(chain: bytes, messages: Sequence[Message], moved: int) -> Sequence[Message]:
    """Return the messages linked to another chain, shifted by ``moved`` bytes."""
    linked = []
    for message in messages:
        chain = _link(chain, message.digest)
        linked.append(Message(message.start + moved, message.end + moved, message.role, message.digest, chain))
    return linked


def _link(chain: bytes, digest: bytes) -> bytes:
    return sha256(chain + digest).digest()


def _why_unread(raw: bytes, dialect: Dialect, messages: Sequence[Message], layout: BodyLayout) -> str | None:
    """Return why the new messages are not a conversation in this dialect, or None."""
    new = messages[layout.kept : layout.kept + len(layout.new)]
    for message in new:
        why = (
            ""
            if message.role
            else _why_unreadable(raw[layout.array_start + message.start : layout.array_start + message.end])
        )
        if why:
            return why
    return dialect.why_foreign(messages[0].role if messages else "", (message.role for message in new))


def _why_unreadable(element: bytes) -> str:
    """Return why an element cannot be read, or ``""``."""
    if json_spans.is_deeper(element, LEVELS):
        return f"a message nested more than {LEVELS} levels deep"
    try:
        message = json_values.read(element)
    except ValueError:
        return "a message that is not JSON"
    is_read = not isinstance(message, dict) or normal_form.holds_blocks(message)
    return "" if is_read else "a message with a content block that is not an object"


def _fields(members: Sequence[ReadMember]) -> Fields:
    facts = {name: value for member in members for name, value in member.facts}
    facts.pop("thread_continues", None)
    return Fields(**facts)


_Offering = tuple[int, dict[str, Any]]
"""The index of a message that offers tools, and the fields that it determines."""


def _find_offering(
    raw: bytes, layout: BodyLayout, messages: Sequence[Message], earlier: Transcript | None, dialect: Dialect
) -> _Offering | None:
    """Find the message that offers the client's tools, among the system messages at the beginning."""
    if earlier is not None and earlier.offering is not None and earlier.offering < layout.kept:
        known = earlier.fields
        return earlier.offering, {"tool_names": known.tool_names, "tools_digest": known.tools_digest}
    for number, message in enumerate(takewhile(lambda message: message.role == "system", messages)):
        element = raw[layout.array_start + message.start : layout.array_start + message.end]
        span = dialect.find_tools(element)
        if span is not None:
            return number, dict(dialect.read_facts("tools", json_values.try_read(element[slice(*span)])))
    return None


def _hash(raw: bytes, previous: Transcript | None, head: int) -> tuple[_Checkpoint, bytes]:
    """Return the SHA-256 of the body, continuing from the previous body's state if that lies within the common
    prefix.
    """
    known = previous._checkpoint if previous and previous._checkpoint.length <= head else None
    state = known.state.copy() if known else sha256()
    view = memoryview(raw)
    state.update(view[known.length if known else 0 : head])
    whole = state.copy()
    whole.update(view[head:])
    return _Checkpoint(length=head, state=state), whole.digest()


def _find_markers(raw: bytes, previous: Transcript | None, head: int) -> tuple[int, ...]:
    """Return the offsets of the marker keys; the common prefix is not searched again."""
    start = max(0, head - len(MARKER_KEY) + 1)
    offsets = list(previous.marked[: bisect_left(previous.marked, start)]) if previous else []
    at = raw.find(MARKER_KEY, start if previous else 0)
    while at >= 0:
        offsets.append(at)
        at = raw.find(MARKER_KEY, at + 1)
    return tuple(offsets)


NUMBER_MASK = b"1"
"""Replaces each byte of a withheld number: with stars, the body would not be valid JSON when it is read again."""


def _mask(raw: bytes, ranges: Iterable[Range], mask: bytes) -> bytes:
    masked = bytearray(raw)
    for start, end in ranges:
        masked[start:end] = mask * (end - start)
    return bytes(masked)


def _cuts(raw: bytes, layout: BodyLayout) -> list[Range]:
    """Return the ranges that are cut out of the skeleton, in order: the unchanged ranges, and between them the withheld
    ranges and the long literals that do not overlap a withheld range.
    """
    unchanged = [(kept.start, kept.end) for kept in layout.unchanged]
    start, end = layout.lexed
    gaps = zip([start, *(to for _, to in unchanged)], [*(at for at, _ in unchanged), end], strict=True)
    withheld = [span for span in layout.withheld if not _overlaps(span, unchanged)]
    literals = [literal for gap in gaps for literal in json_spans.long_literals(raw, *gap)]
    return sorted([*unchanged, *withheld, *(literal for literal in literals if not _overlaps(literal, withheld))])


def _overlaps(span: Range, others: Iterable[Range]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)


_Texts = dict[int, list[tuple[bytes, int, Piece]]]
"""By length: the bytes that contain a stored text, its offset in them, and its piece."""


def _add_texts(texts: _Texts, raw: bytes, spans: Iterable[tuple[int, Piece | Withheld]]) -> None:
    for start, piece in spans:
        if isinstance(piece, Piece) and piece.length >= json_spans.LONG:
            texts.setdefault(piece.length, []).append((raw, start, piece))


class _Store:
    """Cuts the changed part of one body into contents and collects the new ones in ``contents``, by digest. In ``raw``,
    the withheld numbers are masked already.
    """

    def __init__(
        self, raw: bytes, previous: Transcript | None, known: Container[bytes], replies: Sequence[StoredBytes]
    ) -> None:
        self.raw = raw
        self.previous = previous
        self.known = known
        self.replies = replies
        self.contents: dict[bytes, bytes] = {}

    def change(self, layout: BodyLayout, head: int, tail: int) -> BodyChange:
        """Return the change against the previous body, keeping at most ``head`` and ``tail`` bytes of it."""
        raw = self.raw
        head, tail = self._agreeing(layout.withheld, head, tail)
        cuts = [cut for cut in _cuts(raw, layout) if cut[1] > head and cut[0] < len(raw) - tail]
        # A literal that is partly old counts as new: half a text would not be recognized as a whole later.
        if cuts and cuts[0][0] < head:
            head = cuts[0][0]
        end = max(len(raw) - tail, cuts[-1][1]) if cuts else len(raw) - tail
        taken = self._find_stored(layout) | {
            (start, end): (Withheld(end - start),)
            for start, end in layout.withheld
            if not json_spans.is_number(raw, (start, end))
        }
        pieces = self.cut(head, end, cuts, taken, self._old_texts(head, len(raw) - end))
        return recipe.change_of(head, pieces, len(raw) - end)

    def _find_stored(self, layout: BodyLayout) -> dict[Range, Pieces]:
        """Return how the unchanged ranges are stored already."""
        if self.previous is None:
            return {}
        stored = self.previous.recipe.between
        return {(kept.start, kept.end): stored(kept.was, kept.was + kept.end - kept.start) for kept in layout.unchanged}

    def _agreeing(self, withheld: Sequence[Range], head: int, tail: int) -> Range:
        """Shorten head and tail so that the same bytes are withheld there in both bodies."""
        if self.previous is None:
            return 0, 0
        length, old_length = len(self.raw), len(self.previous.raw)
        for start, _ in set(withheld) ^ set(self.previous.withheld):
            head = min(head, start)
        ours = {(length - end, length - start) for start, end in withheld}
        theirs = {(old_length - end, old_length - start) for start, end in self.previous.withheld}
        for from_end, _ in ours ^ theirs:
            tail = min(tail, from_end)
        return head, tail

    def cut(
        self, start: int, end: int, cuts: Sequence[Range], taken: Mapping[Range, Pieces], old: _Texts
    ) -> list[Piece | Withheld]:
        """Return the pieces of ``[start, end)``; each cut is stored as ``taken`` says, or else as a text."""
        gaps = list(zip([start, *(cut[1] for cut in cuts)], [*(cut[0] for cut in cuts), end], strict=True))
        skeleton = b"".join(self.raw[left:right] for left, right in gaps)
        digest = self._keep(skeleton) if skeleton else b""
        pieces: list[Piece | Withheld] = []
        offset = 0
        for (left, right), cut in zip(gaps, [*cuts, None], strict=True):
            pieces.append(Piece(digest, offset, right - left))
            offset += right - left
            if cut is not None:
                pieces += taken.get(cut) or (self._text(*cut, old),)
        return [piece for piece in pieces if piece.length]

    def _old_texts(self, head: int, tail: int) -> _Texts:
        """Return the texts of the previous body that the change removes, and those of the replies, by length. Most of
        them recur elsewhere and need not be hashed.
        """
        old: _Texts = {}
        if self.previous is not None:
            raw = self.previous.raw
            _add_texts(old, raw, self.previous.recipe.spans_between(head, len(raw) - tail))
        for reply in self.replies:
            _add_texts(old, reply.raw, reply.recipe.spans_between(0, len(reply.raw)))
        return old

    def _text(self, start: int, end: int, old: _Texts) -> Piece:
        text = self.raw[start:end]
        for container, at, piece in old.get(end - start, ()):
            if container.startswith(text, at):
                return piece
        return Piece(self._keep(text), 0, len(text))

    def _keep(self, content: bytes) -> bytes:
        digest = sha256(content).digest()
        if digest not in self.known:
            self.contents[digest] = content
        return digest


def store_reply(body: bytes, known: Container[bytes]) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """Return the encoded change from an empty body to a reply, and the contents (digest, data) that are not ``known``.

    The client sends the reply back with its next request, in a body cut the same way, so each long text is stored once.
    """
    store = _Store(body, None, known, ())
    pieces = store.cut(0, len(body), json_spans.long_literals(body), {}, {})
    return recipe.encode(recipe.change_of(0, pieces, 0)), tuple(store.contents.items())
