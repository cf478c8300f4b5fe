"""Locate the members and messages of a request body, rereading only what differs from the previous body.

The walk goes from left to right. Everything that ends before the first differing byte keeps its place. Once the walk
reaches, in the same state, a boundary of the previous body within the common suffix, the rest keeps its place too. In
between, a long member with the same bytes as in the previous body is adopted unread: tools and a system prompt usually
stay the same, whatever changes around them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire import json_spans, json_values
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.json_spans import NextItem, Range

_SCHEMAS = frozenset({"functions", "output_config", "output_format", "response_format", "tools"})
"""Top-level members that contain schemas. A name in them that looks like a credential's is a parameter."""

_PROMPTS = frozenset({"input", "instructions", "messages", "prompt", "system"})
"""Top-level members that contain the conversation, in any dialect. They are stored verbatim, including any keys."""


class Spanned(Protocol):
    """Something with a byte range, counted from the ``[`` of the history."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@attrs.frozen
class ReadMember:
    """A top-level member and the facts read from its value; ``withheld`` counts from ``start``.

    ``facts`` are the names and values of the fields of ``transcript.Fields`` that the member determines.
    """

    key: str
    start: int
    value_start: int
    value_end: int
    facts: tuple[tuple[str, Any], ...] = ()
    withheld: tuple[Range, ...] = ()

    def move(self, by: int) -> "ReadMember":
        """Return the same member, shifted by this many bytes."""
        return attrs.evolve(
            self, start=self.start + by, value_start=self.value_start + by, value_end=self.value_end + by
        )


@attrs.frozen
class KeptRange:
    """The bytes ``[start, end)``, which were at ``was`` in the previous body."""

    start: int
    end: int
    was: int


@attrs.frozen(kw_only=True)
class Before:
    """The layout of the previous body: its bytes, its members, the offset of its history array, and the elements of
    that array.
    """

    raw: bytes = attrs.field(repr=False)
    members: tuple[ReadMember, ...]
    array_start: int
    elements: Sequence[Spanned]


@attrs.frozen(kw_only=True)
class BodyLayout:
    """The layout of a body: where its members and messages are.

    The messages are the first ``kept`` of the previous body, the ``new`` ones, and the previous body's from ``resumed``
    on, shifted by ``moved`` bytes. ``new`` and ``moved`` count from the ``[`` of the array at ``array_start``.
    ``lexed`` is the range that was read, except for the ``unchanged`` ranges in it, which are in order and begin and
    end outside strings. ``opaque`` says why the body is not read as a conversation, or is None.
    """

    members: tuple[ReadMember, ...] = ()
    array_start: int = 0
    kept: int = 0
    new: tuple[Range, ...] = ()
    resumed: int | None = None
    moved: int = 0
    lexed: Range
    unchanged: tuple[KeptRange, ...] = ()
    opaque: str | None = None
    withheld: tuple[Range, ...] = ()


def lay_out(raw: bytes, before: Before | None, head: int, tail: int, dialect: Dialect) -> BodyLayout:
    """Lay out ``raw``, which shares its first ``head`` and last ``tail`` bytes with the previous body of the same
    dialect.

    Never raises, whatever the bytes are.
    """
    walk = _Walk(raw, before, head, tail, dialect)
    if not walk.run():
        return unread(raw, "not a JSON object", forms=True)
    withheld = tuple(
        (member.start + start, member.start + end) for member in walk.members for start, end in member.withheld
    )
    return BodyLayout(
        members=tuple(walk.members),
        array_start=walk.array_start,
        kept=walk.kept,
        new=tuple(walk.new),
        resumed=walk.resumed,
        moved=walk.moved,
        lexed=(walk.lexed_from, walk.lexed_to),
        unchanged=tuple(walk.unchanged),
        opaque=_opaque_members(dialect, walk.members, walk.array_start),
        withheld=withheld,
    )


def unread(raw: bytes, why: str, *, forms: bool = False) -> BodyLayout:
    """Return the layout of a body that is searched only for credentials; with ``forms``, also in form fields."""
    withheld = tuple(json_spans.credential_literals_anywhere(raw, forms=forms))
    return BodyLayout(lexed=(0, len(raw)), opaque=why, withheld=withheld)


def _opaque_members(dialect: Dialect, members: Sequence[ReadMember], array_start: int) -> str | None:
    keys = [member.key for member in members]
    if len(set(keys)) < len(keys):
        # Parsers disagree on which one counts, so what the provider will read is unknown.
        return "a member given twice"
    if dialect.foreign.intersection(keys):
        return "another dialect"
    if not array_start:
        return f"no {dialect.array} array"
    if any(("thread_continues", True) in member.facts for member in members):
        return "history held by the provider"
    return None


class _Walk:
    """A walk over one body. It has the attributes of ``BodyLayout``."""

    def __init__(self, raw: bytes, before: Before | None, head: int, tail: int, dialect: Dialect) -> None:
        self.raw = raw
        self.dialect = dialect
        self.before = before
        self.head = head
        self.common_from = len(raw) - tail if before else len(raw) + 1
        self.shift = len(raw) - len(before.raw) if before else 0
        self.members: list[ReadMember] = []
        self.array_start = 0
        self.kept = 0
        self.new: list[Range] = []
        self.resumed: int | None = None
        self.moved = 0
        self.lexed_from = 0
        self.lexed_to = len(raw)
        self.unchanged: list[KeptRange] = []

    def run(self) -> bool:
        """Walk the whole body. Return False if the part that was read shows that it is not one JSON object."""
        at = self._begin()
        if at is None:
            return False
        while True:
            kind, at = json_spans.next_item(self.raw, at, first=not self.members)
            if kind is NextItem.CLOSE:
                return self.raw[at - 1 : at] == b"}" and json_spans.skip_space(self.raw, at) == len(self.raw)
            if kind is NextItem.BROKEN:
                return False
            if self._resume_members(at):
                return True
            member = self._member(at)
            if member is None:
                return False
            self.members.append(member)
            at = member.value_end

    def _begin(self) -> int | None:
        for member in self.before.members if self.before else ():
            if member.value_end < self.head:
                self._adopt(member, 0)
        if self.members:
            self.lexed_from = self.members[-1].value_end
            return self.lexed_from
        at = json_spans.skip_space(self.raw, 0)
        return at + 1 if self.raw[at : at + 1] == b"{" else None

    def _adopt(self, member: ReadMember, shift: int) -> None:
        assert self.before is not None
        self.members.append(member.move(shift) if shift else member)
        if member.value_start == self.before.array_start:
            self.array_start = member.value_start + shift
            self.kept = len(self.before.elements)

    def _resume_members(self, at: int) -> bool:
        if self.before is None or at < self.common_from:
            return False
        members = self.before.members
        index = bisect_left(members, at - self.shift, key=lambda member: member.start)
        if index == len(members) or members[index].start != at - self.shift:
            return False
        for member in members[index:]:
            self._adopt(member, self.shift)
        self.lexed_to = min(self.lexed_to, at)
        return True

    def _member(self, at: int) -> ReadMember | None:
        head = json_spans.member_head(self.raw, at)
        if head is None:
            return None
        key, value_start = head
        unchanged = self._find_unchanged(at, key)
        if unchanged is not None:
            return unchanged
        if key == self.dialect.array and not self.array_start and self.raw[value_start : value_start + 1] == b"[":
            self.array_start = value_start
            array_end = self._elements()
            return ReadMember(key, at, value_start, array_end) if array_end is not None else None
        value_end = json_spans.value_end(self.raw, value_start)
        facts = _facts(self.dialect, key, self.raw[value_start:value_end]) if value_end is not None else None
        if value_end is None or facts is None:
            return None
        withheld = json_spans.credential_literals(
            self.raw, at, value_end, lists=key not in _SCHEMAS, shapes=key not in (*_SCHEMAS, *_PROMPTS)
        )
        return ReadMember(
            key, at, value_start, value_end, facts, tuple((start - at, end - at) for start, end in withheld)
        )

    def _find_unchanged(self, at: int, key: str) -> ReadMember | None:
        """Return the member of the previous body if it is long and has the same bytes here."""
        before = self.before
        if before is None or key == self.dialect.array:
            return None
        view = memoryview(before.raw)
        for member in before.members:
            # A closing quote or bracket ends the value regardless of what follows.
            if (
                member.key == key
                and member.value_end - member.start >= json_spans.LONG
                and before.raw[member.value_end - 1] in b'"}]'
                and self.raw.startswith(view[member.start : member.value_end], at)
            ):
                moved = member.move(at - member.start)
                self.unchanged.append(KeptRange(at, moved.value_end, member.start))
                return moved
        return None

    def _elements(self) -> int | None:
        """Record the elements of the history array and return where it ends; None if it does not end."""
        at = self._keep_elements()
        while True:
            kind, at = json_spans.next_item(self.raw, at, first=not self.kept and not self.new)
            if kind is NextItem.CLOSE:
                return at if self.raw[at - 1 : at] == b"]" else None
            if kind is NextItem.BROKEN:
                return None
            resumed_to = self._resume_elements(at)
            if resumed_to is not None:
                return resumed_to
            end = json_spans.value_end(self.raw, at)
            if end is None:
                return None
            self.new.append((at - self.array_start, end - self.array_start))
            at = end

    def _keep_elements(self) -> int:
        before = self.before
        if before is None or before.array_start != self.array_start or self.array_start >= self.head:
            return self.array_start + 1
        reach = self.head - self.array_start
        self.kept = bisect_left(before.elements, reach, key=lambda element: element.end)
        # A closing bracket ends its element, but a number may continue: then the next byte must be the same, too.
        if self.kept < len(before.elements) and before.elements[self.kept].end == reach:
            self.kept += self.raw[self.head - 1 : self.head] in (b"}", b"]")
        if not self.kept:
            return self.array_start + 1
        self.lexed_from = self.array_start + before.elements[self.kept - 1].end
        return self.lexed_from

    def _resume_elements(self, at: int) -> int | None:
        before = self.before
        if before is None or not before.array_start or at < self.common_from:
            return None
        start = at - self.shift - before.array_start
        index = bisect_left(before.elements, start, key=lambda element: element.start)
        if index == len(before.elements) or before.elements[index].start != start:
            return None
        self.resumed = index
        self.moved = at - self.array_start - start
        self.lexed_to = at
        array = next(member for member in before.members if member.value_start == before.array_start)
        return array.value_end + self.shift


def _facts(dialect: Dialect, key: str, value: bytes) -> tuple[tuple[str, Any], ...] | None:
    """Return the ``transcript.Fields`` that this member determines; None if the value is not JSON."""
    try:
        return tuple(dialect.read_facts(key, json_values.read(value))) if json_values.is_valid(value) else None
    except (ValueError, RecursionError):
        return None
