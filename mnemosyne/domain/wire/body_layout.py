"""Where the members and messages of a request body are, found again only where the body differs from the previous
one.

The walk goes from left to right, so everything that ends before the first different byte is where it was; and once it
stands, in the same state, on a boundary of the previous body that lies in the common ending, the rest is as it was,
too. In between, a long member that has the bytes of the previous body's is taken as it was: tools and a system prompt
stay, whatever changes before and behind them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from mnemosyne.domain.wire import json_spans, json_values
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.json_spans import NextItem, Range

_SCHEMAS = frozenset({"functions", "output_config", "output_format", "response_format", "tools"})
"""Top-level members that describe values: what is named like a credential there is a parameter."""

_PROMPTS = frozenset({"input", "instructions", "messages", "prompt", "system"})
"""Top-level members that hold what was said, in any dialect; it is kept to the letter, keys in it included."""


class Spanned(Protocol):
    """Something with a byte range, counted from the ``[`` of the history."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@attrs.frozen
class ReadMember:
    """A top-level member with what was read from its value; ``withheld`` counts from ``start``.

    ``facts`` are the names and values of the fields of ``transcript.Fields`` that it decides.
    """

    key: str
    start: int
    value_start: int
    value_end: int
    facts: tuple[tuple[str, Any], ...] = ()
    withheld: tuple[Range, ...] = ()

    def move(self, by: int) -> "ReadMember":
        """The same member, ``by`` bytes further on."""
        return attrs.evolve(
            self, start=self.start + by, value_start=self.value_start + by, value_end=self.value_end + by
        )


@attrs.frozen
class KeptRange:
    """What stands at ``[start, end)`` stood in the previous body from ``was`` on."""

    start: int
    end: int
    was: int


@attrs.frozen(kw_only=True)
class Before:
    """The layout of the previous body: its bytes, members, the offset of its history array and the elements in
    it.
    """

    raw: bytes = attrs.field(repr=False)
    members: tuple[ReadMember, ...]
    array_start: int
    elements: Sequence[Spanned]


@attrs.frozen(kw_only=True)
class BodyLayout:
    """The messages are the first ``kept`` of before, then ``new`` ones, then those of before from ``resumed`` on,
    ``moved`` bytes on.

    ``new`` and ``moved`` count from the ``[`` of the array at ``array_start``. ``lexed`` is the range that was looked
    at, but for the ``unchanged`` in it, which are in order; each begins and ends outside strings. ``opaque`` says why
    this is no Messages body, or is None.
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
    """The layout of ``raw``, whose first ``head`` and last ``tail`` bytes are those of the body before, of the same
    dialect; total on any bytes.
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
    """The layout of a body of which nothing is looked at but what may be a credential, also as ``forms`` have them."""
    withheld = tuple(json_spans.credential_literals_anywhere(raw, forms=forms))
    return BodyLayout(lexed=(0, len(raw)), opaque=why, withheld=withheld)


def _opaque_members(dialect: Dialect, members: Sequence[ReadMember], array_start: int) -> str | None:
    keys = [member.key for member in members]
    if len(set(keys)) < len(keys):
        # Parsers disagree on which one counts, so nobody can say what the provider will read.
        return "a member given twice"
    if dialect.foreign.intersection(keys):
        return "another dialect"
    if not array_start:
        return f"no {dialect.array} array"
    if any(("thread_continues", True) in member.facts for member in members):
        return "history held by the provider"
    return None


class _Walk:
    """The walk over one body; its attributes are those of ``BodyLayout``."""

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
        """Walk the whole body; False if it is not one JSON object, as far as that was looked at."""
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
        """The member as the previous body has it, if it is long and these are its bytes."""
        before = self.before
        if before is None or key == self.dialect.array:
            return None
        view = memoryview(before.raw)
        for member in before.members:
            # A quote or a bracket ends the value whatever follows.
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
        """The end of the history array, after noting its elements; None if it never ends."""
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
        # A bracket ends its element whatever follows; a number may go on, so the byte after it must be the same, too.
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
    """What ``transcript.Fields`` wants to know of this member; None if the value is not JSON."""
    try:
        return tuple(dialect.read_facts(key, json_values.read(value))) if json_values.is_valid(value) else None
    except (ValueError, RecursionError):
        return None
