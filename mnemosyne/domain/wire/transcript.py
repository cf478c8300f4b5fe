"""The client's resent history, read against the one before it: what is new, what is repeated, and how to store it.

``read`` takes the raw body of a request and the branch's previous ``Transcript``. Two passes at memcmp speed
find what both begin and end with; only what lies between is lexed, parsed and hashed. What comes out does not depend
on the previous one (``read(raw, previous).transcript == read(raw, None).transcript``), only the effort and the way of
storing do.

Storing follows the recipe (``recipe.py``): each long string literal of the changed part is a content of its own,
everything else of it, the *skeleton*, is one content. So when a cache marker moves, or ``[{"type":"text",…}]``
becomes a string, no text is stored twice. Credentials outside ``messages`` are withheld: they are in no content and
in no change.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
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
"""For bodies of ours, and where all has to be looked at whatever it takes."""

LEVELS = 300
"""Levels of nesting up to which a message is read: the code that reads and writes it recurses."""

TOO_MANY_VALUES = f"more than {MOST_VALUES:,} values"

_MANY_BYTES = 1 << 17
"""New bytes from which on values are counted before they are looked at."""

MARKER_KEY = b'"cache_control"'
"""What marks a request for the provider's prompt cache."""


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> "_Hash": ...


@attrs.frozen
class Message:
    """One element of the history.

    ``start`` and ``end`` count bytes from the ``[`` of the array, so a change before it moves nothing. ``digest`` is
    the hash of the normal form; ``chain`` hashes the chain up to the message before together with ``digest``, from
    the lane's seed on: equal chains mean equal histories. ``role`` is ``""`` where the element is no message.
    """

    start: int
    end: int
    role: str
    digest: bytes
    chain: bytes


@attrs.frozen(kw_only=True)
class Fields:
    """The small top-level members, as the client sent them; None where absent or not of the expected type."""

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
        """Whether the client offers any tool; side calls (titles, summaries) do not."""
        return self.tools_digest is not None


@attrs.frozen(kw_only=True)
class _Checkpoint:
    """A SHA-256 over the first ``length`` bytes of a body, to go on from."""

    length: int
    state: _Hash


@attrs.frozen(kw_only=True)
class Transcript:
    """A request body, understood. ``raw`` holds credentials in clear and must stay in memory; it is not shown by
    ``repr``.

    ``opaque`` is None, or the reason why the body is not read as a conversation; then there are no messages,
    and the bytes are still stored and rebuilt. ``sha256`` is that of the exact bytes,
    ``stored_sha256`` of the bytes with each withheld byte as ``*``: what rebuilding is checked against.
    """

    raw: bytes = attrs.field(repr=False)
    lane: str
    messages: tuple[Message, ...] = attrs.field(repr=False)
    fields: Fields
    opaque: str | None
    sha256: bytes
    stored_sha256: bytes
    members: tuple[ReadMember, ...] = attrs.field(repr=False)
    withheld: tuple[Range, ...]
    recipe: Recipe = attrs.field(repr=False, eq=False)
    marked: tuple[int, ...] = attrs.field(repr=False)
    """Where in ``raw`` a MARKER_KEY stands."""
    values: int = attrs.field(repr=False)
    """How many values of JSON there are in it; of too many, one more than are read."""
    offering: int | None
    """The number of the message that offers the client's tools; None where a top-level member does, or nothing."""
    _array_start: int = attrs.field(repr=False)
    _checkpoint: _Checkpoint = attrs.field(repr=False, eq=False)
    # The last messages, each asked for several times in its first turn. Nothing leaves: threads may share it.
    _parsed: dict[int, dict[str, Any]] = attrs.field(factory=dict, repr=False, eq=False)

    @property
    def dialect(self) -> Dialect:
        """The dialect in which it was read."""
        return dialect_of(self.lane)

    @property
    def tools(self) -> bytes:
        """The JSON array of the tools that the client offers; empty where it offers none."""
        if self.offering is not None:
            element = self.message_bytes(self.offering)
            start, end = self.dialect.find_tools(element) or (0, 0)
            return element[start:end]
        spans = ((member.value_start, member.value_end) for member in self.members if member.key == "tools")
        return next((self.raw[start:end] for start, end in spans), b"")

    @property
    def system(self) -> Any:
        """The system prompt that stands beside the history, as parsed; None where there is none."""
        return self.member(self.dialect.system) if self.dialect.system is not None else None

    @property
    def chain(self) -> bytes:
        """The chain hash of the whole history; of an empty one, the lane's seed."""
        return self.messages[-1].chain if self.messages else seed(self.lane)

    def chains_in(self, lane: str) -> tuple[bytes, ...]:
        """The chain hashes of the messages as they would be in another lane."""
        return tuple(message.chain for message in _chain(seed(lane), self.messages, 0))

    @cached_property
    def markers(self) -> tuple[tuple[int, bytes], ...]:
        """The client's cache markers on messages: the number of the message and the marker's JSON, one for each. They
        are looked for once, since a turn asks for them where it plans, sends and bills.
        """
        found: dict[int, bytes] = {}
        ends = [message.end for message in self.messages] if self.marked and self.dialect.marks_cache else []
        for at in self.marked:
            number = bisect_right(ends, at - self._array_start)
            if at >= self._array_start and number < len(ends) and number not in found:
                marker = message_bytes.marker_in(self.message_bytes(number))
                if marker is not None:
                    found[number] = marker
        return tuple(sorted(found.items()))

    def message_bytes(self, index: int) -> bytes:
        """The raw JSON of a message."""
        message = self.messages[index]
        return self.raw[self._array_start + message.start : self._array_start + message.end]

    def message(self, index: int) -> dict[str, Any]:
        """The message as it is read in any dialect, not to be changed; ``{}`` if it is none."""
        found = self._parsed.get(index)
        if found is None:
            found = _parse(self.message_bytes(index), self._read_message) or {}
            if len(self.messages) - index <= _PARSED_HELD:
                self._parsed[index] = found
        return found

    def _read_message(self, value: Any) -> dict[str, Any]:
        return self.dialect.read_message(value) if isinstance(value, dict) else {}

    def blocks(self, index: int) -> list[Block]:
        """The blocks of a message; a string is one."""
        return content_blocks(self.message(index).get("content"))

    def block_ranges(self, index: int) -> tuple[Range, ...]:
        """Where in ``raw`` the blocks of a message are; content that is a string is one block."""
        return self.dialect.block_ranges(self.raw, self._array_start + self.messages[index].start)

    def member(self, key: str) -> Any:
        """The parsed value of a top-level member, or None."""
        for member in self.members:
            if member.key == key:
                return _parse(self.raw[member.value_start : member.value_end])
        return None

    def count_shared(self, earlier: "Transcript") -> int:
        """How many messages both histories begin with, by bisection over the chains; 0 across lanes."""
        if self.lane != earlier.lane:
            return 0
        limit = min(len(self.messages), len(earlier.messages))
        return bisect_left(range(limit), True, key=lambda i: self.messages[i].chain != earlier.messages[i].chain)


@attrs.frozen
class StoredBytes:
    """Bytes with the recipe by which they are stored."""

    raw: bytes = attrs.field(repr=False)
    recipe: Recipe = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class TranscriptReading:
    """What reading one body gave: ``change`` and ``contents`` (each new content once, by digest) are for the log."""

    transcript: Transcript
    change: BodyChange
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(repr=False)

    def without(self, known: Container[bytes]) -> "TranscriptReading":
        """The same where these contents are stored."""
        return attrs.evolve(self, contents=tuple(each for each in self.contents if each[0] not in known))


def seed(lane: str) -> bytes:
    """The chain hash before the first message of a lane."""
    return sha256(b"lane\0" + lane.encode("utf-8", "surrogatepass")).digest()


def read(
    raw: bytes,
    previous: Transcript | None = None,
    *,
    lane: str = MAIN,
    known: Container[bytes] = frozenset(),
    replies: Sequence[StoredBytes] = (),
    most: int = MOST_VALUES,
) -> TranscriptReading:
    """Read a request body in the dialect of its ``lane``, against the previous one of its branch (any other is correct
    too, only slower). One with more than ``most`` values is opaque.

    ``known`` holds the digests of the contents already stored; the previous body's must be among them, and those of
    the ``replies``, whose texts are not hashed again where the body shows them. Never raises for what the bytes are.
    """
    head = recipe.common_prefix(previous.raw, raw) if previous else 0
    tail = recipe.common_suffix(previous.raw, raw, min(len(previous.raw), len(raw)) - head) if previous else 0
    # What was opaque, or in another dialect, has no layout to start from.
    dialect = dialect_of(lane)
    earlier = previous if previous and previous.opaque is None and previous.dialect is dialect else None
    layout, values = _lay_out(raw, earlier, (head, tail), dialect, most)
    messages = _messages(raw, layout, earlier, lane) if layout.opaque is None else ()
    opaque = layout.opaque or _why_unread(raw, dialect, messages, layout)
    messages = messages if opaque is None else ()
    fields = _fields(layout.members)
    offering = _find_offering(raw, layout, messages, earlier, dialect) if not fields.has_tools else None
    if offering is not None:
        fields = attrs.evolve(fields, **offering[1])
    numbers = [each for each in layout.withheld if json_spans.is_number(raw, each)]
    storable = _mask(raw, numbers, NUMBER_MASK) if numbers else raw
    texts = [each for each in layout.withheld if each not in numbers]
    store = _Store(storable, previous, known, replies)
    change = store.change(layout, head, tail)
    checkpoint, exact = _hash(raw, previous, head)
    transcript = Transcript(
        raw=raw,
        lane=lane,
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
    """What the history says about the reply that was recorded for the request with ``index`` messages before it.

    ABSENT if the message there is not the assistant's: the client dropped the reply (an interrupted one without any
    block, a failed one that is tried again). What the client adds to the user's next message, as Claude Code
    2.1.329's ``[Request interrupted by user]``, does not count.
    """
    if index >= len(transcript.messages) or transcript.messages[index].role != "assistant":
        return Echo.ABSENT
    dialect = transcript.dialect
    said = [transcript.message(number).get("content") for number in _numbers_of_reply(transcript, index)]
    content: list[Any] = []
    for each in said:
        if not isinstance(each, str | list):
            return Echo.REWRITTEN
        content += content_blocks(each) if isinstance(each, str) else each
    if dialect.may_drop_thinking:
        content, reply = _without_thinking(content), _without_thinking(reply)
    return normal_form.compare_blocks(content, reply)


def _numbers_of_reply(transcript: Transcript, index: int) -> Iterator[int]:
    """The messages in which a history shows the reply that begins there."""
    yield index
    if transcript.dialect.splits_replies:
        later = range(index + 1, len(transcript.messages))
        yield from takewhile(lambda number: transcript.messages[number].role == "assistant", later)


def _without_thinking(blocks: Iterable[Any]) -> list[Any]:
    return [block for block in blocks if not (isinstance(block, dict) and block.get("type") in THINKING)]


def content_of(transcript: Transcript, index: int) -> list[Block]:
    """The blocks of the assistant's message at ``index``; none where there is no such message."""
    if index >= len(transcript.messages) or transcript.messages[index].role != "assistant":
        return []
    said = (transcript.message(number).get("content") for number in _numbers_of_reply(transcript, index))
    return [block for content in said for block in content_blocks(content)]


def _lay_out(
    raw: bytes, earlier: Transcript | None, shared: tuple[int, int], dialect: Dialect, most: int
) -> tuple[BodyLayout, int]:
    """The layout of a body, and how many values it has. What has too many is not walked through."""
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
    """How many more values a body has than the one before."""
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


def _messages(raw: bytes, layout: BodyLayout, previous: Transcript | None, lane: str) -> tuple[Message, ...]:
    old = previous.messages if previous else ()
    kept = old[: layout.kept]
    resumed = old[layout.resumed :] if layout.resumed is not None else ()
    if previous and previous.lane != lane:
        kept = tuple(_chain(seed(lane), kept, 0))
    chain = kept[-1].chain if kept else seed(lane)
    new: list[Message] = []
    for start, end in layout.new:
        role, digest = _reuse_digest(raw, layout, previous, dialect_of(lane), (start, end), layout.kept + len(new))
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
    """The messages behind another chain, ``moved`` bytes on."""
    found = []
    for message in messages:
        chain = _link(chain, message.digest)
        found.append(Message(message.start + moved, message.end + moved, message.role, message.digest, chain))
    return found


def _link(chain: bytes, digest: bytes) -> bytes:
    return sha256(chain + digest).digest()


def _why_unread(raw: bytes, dialect: Dialect, messages: Sequence[Message], layout: BodyLayout) -> str | None:
    """Why the new messages are no conversation in a dialect, or None."""
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
    """Why nothing may be made of a value, ``""`` if something may."""
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
"""The number of a message that offers tools, and the fields that it decides."""


def _find_offering(
    raw: bytes, layout: BodyLayout, messages: Sequence[Message], earlier: Transcript | None, dialect: Dialect
) -> _Offering | None:
    """The message that offers the client's tools, among those with which the client sets a conversation up."""
    if earlier is not None and earlier.offering is not None and earlier.offering < layout.kept:
        known = earlier.fields
        return earlier.offering, {"tool_names": known.tool_names, "tools_digest": known.tools_digest}
    for number, message in enumerate(takewhile(lambda message: message.role == "system", messages)):
        element = raw[layout.array_start + message.start : layout.array_start + message.end]
        span = dialect.find_tools(element)
        if span is not None:
            return number, dict(dialect.read_facts("tools", _parse(element[slice(*span)])))
    return None


def _hash(raw: bytes, previous: Transcript | None, head: int) -> tuple[_Checkpoint, bytes]:
    """The SHA-256 of the body, going on from the previous body's state if that lies within the common beginning."""
    known = previous._checkpoint if previous and previous._checkpoint.length <= head else None
    state = known.state.copy() if known else sha256()
    view = memoryview(raw)
    state.update(view[known.length if known else 0 : head])
    whole = state.copy()
    whole.update(view[head:])
    return _Checkpoint(length=head, state=state), whole.digest()


def _find_markers(raw: bytes, previous: Transcript | None, head: int) -> tuple[int, ...]:
    """Where the keys of markers stand; what both bodies begin with is not looked through again."""
    start = max(0, head - len(MARKER_KEY) + 1)
    found = list(previous.marked[: bisect_left(previous.marked, start)]) if previous else []
    at = raw.find(MARKER_KEY, start if previous else 0)
    while at >= 0:
        found.append(at)
        at = raw.find(MARKER_KEY, at + 1)
    return tuple(found)


NUMBER_MASK = b"1"
"""What stands for each byte of a number that is withheld: with stars, the body would be no JSON when it is read again.
"""


def _mask(raw: bytes, ranges: Iterable[Range], mask: bytes) -> bytes:
    masked = bytearray(raw)
    for start, end in ranges:
        masked[start:end] = mask * (end - start)
    return bytes(masked)


def _parse(raw: bytes, shape: Callable[[Any], Any] = lambda value: value) -> Any:
    try:
        return json_values.read_storable(raw, shape)
    except (ValueError, RecursionError):
        return None


def _cuts(raw: bytes, layout: BodyLayout) -> list[Range]:
    """What is cut out of the skeleton, in order: what is unchanged; elsewhere withheld ranges, and the long literals
    that meet none of them.
    """
    unchanged = [(each.start, each.end) for each in layout.unchanged]
    start, end = layout.lexed
    gaps = zip([start, *(to for _, to in unchanged)], [*(at for at, _ in unchanged), end], strict=True)
    withheld = [each for each in layout.withheld if not _meets(each, unchanged)]
    literals = [literal for gap in gaps for literal in json_spans.long_literals(raw, *gap)]
    return sorted([*unchanged, *withheld, *(each for each in literals if not _meets(each, withheld))])


def _meets(span: Range, others: Iterable[Range]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)


_Texts = dict[int, list[tuple[bytes, int, Piece]]]
"""By length: the bytes that a stored text stands in, where it begins in them, and its piece."""


def _note(texts: _Texts, raw: bytes, spans: Iterable[tuple[int, Piece | Withheld]]) -> None:
    for start, piece in spans:
        if isinstance(piece, Piece) and piece.length >= json_spans.LONG:
            texts.setdefault(piece.length, []).append((raw, start, piece))


class _Store:
    """Cuts the changed part of one body into contents; ``contents`` collects the new ones by digest. In ``raw``, the
    numbers that are withheld are masked already.
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
        """The change against the previous body, keeping at most ``head`` and ``tail`` bytes of it."""
        raw = self.raw
        head, tail = self._agreeing(layout.withheld, head, tail)
        cuts = [cut for cut in _cuts(raw, layout) if cut[1] > head and cut[0] < len(raw) - tail]
        # A literal that is partly old counts as new: half a text would never be found again as a whole.
        if cuts and cuts[0][0] < head:
            head = cuts[0][0]
        end = max(len(raw) - tail, cuts[-1][1]) if cuts else len(raw) - tail
        taken = self._find_stored(layout) | {
            (start, end): (Withheld(end - start),)
            for start, end in layout.withheld
            if not json_spans.is_number(raw, (start, end))
        }
        pieces = self._pieces(head, end, cuts, taken, self._old_texts(head, len(raw) - end))
        return recipe.change_of(head, pieces, len(raw) - end)

    def _find_stored(self, layout: BodyLayout) -> dict[Range, Pieces]:
        """How what is unchanged is stored already."""
        if self.previous is None:
            return {}
        stored = self.previous.recipe.between
        return {(each.start, each.end): stored(each.was, each.was + each.end - each.start) for each in layout.unchanged}

    def _agreeing(self, withheld: Sequence[Range], head: int, tail: int) -> Range:
        """Head and tail shortened so that the same bytes are withheld there in both bodies."""
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

    def _pieces(
        self, start: int, end: int, cuts: Sequence[Range], taken: Mapping[Range, Pieces], old: _Texts
    ) -> list[Piece | Withheld]:
        """The pieces of ``[start, end)``: of each cut those that are ``taken``, or else a text."""
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
        """The texts of the previous body that the change takes out, and those of the replies, by length: most come
        back elsewhere, unhashed.
        """
        old: _Texts = {}
        if self.previous is not None:
            raw = self.previous.raw
            _note(old, raw, self.previous.recipe.spans_between(head, len(raw) - tail))
        for reply in self.replies:
            _note(old, reply.raw, reply.recipe.spans_between(0, len(reply.raw)))
        return old

    def _text(self, start: int, end: int, old: _Texts) -> Piece:
        text = self.raw[start:end]
        for there, at, piece in old.get(end - start, ()):
            if there.startswith(text, at):
                return piece
        return Piece(self._keep(text), 0, len(text))

    def _keep(self, content: bytes) -> bytes:
        digest = sha256(content).digest()
        if digest not in self.known:
            self.contents[digest] = content
        return digest
