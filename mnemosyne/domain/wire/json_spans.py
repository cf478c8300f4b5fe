"""Locate members, array elements, long strings and credentials in JSON text, as byte ranges.

Nothing is decoded and no object is built: regular expressions walk the raw bytes. Every pattern is anchored and
possessive, so a scan is linear and never backtracks or recurses. No function raises, whatever the input; invalid JSON
is reported by a return value. The walk checks structure only as far as it needs boundaries: ``{"a" "b"}`` inside a
value passes, because the parser of that value will notice.

A *literal* is the range between the quotes of a string, excluding the quotes: ``"content":"text"`` and
``"content":[{"type":"text","text":"text"}]`` contain the same literal.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto

import attrs

from mnemosyne import credentials

Range = tuple[int, int]
"""Byte offsets ``(start, end)``, excluding ``end``."""

LONG = 256
"""A literal of at least this many bytes is stored as its own content (its hash costs 32 bytes in the event)."""

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_SPACE = rb"[ \t\r\n]*+"
_string = re.compile(_STRING, re.DOTALL)
_space = re.compile(_SPACE)
_scalar = re.compile(rb'[^\s,:"{}\[\]]++')
_bracket = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+[{}\[\]]", re.DOTALL)
# Strings that are certainly short are skipped within the pattern; the caller measures the others.
_candidate = re.compile(rb'(?:[^"]++|"[^"\\]{0,255}+")*+"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_NUMBER = rb"-?[0-9][0-9.eE+-]*+"
_keyed = re.compile(
    rb'[^"]*+("(?:[^"\\]++|\\.)*+")(?:'
    + (_SPACE + rb":" + _SPACE)
    + (rb'(?:"((?:[^"\\]++|\\.)*+)"|(' + _NUMBER + rb"))?)?+"),
    re.DOTALL,
)
_key_or_value = re.compile(rb'"((?:[^"\\]++|\\.)*+)"?+(' + _SPACE + rb":)?+|(" + _NUMBER + rb")", re.DOTALL)
_number = re.compile(rb"(?<=[:,\[\s])" + _NUMBER)
_thousand = re.compile(rb'(?:(?:[^",\[{]++|' + _STRING + rb")*+[,\[{]){1000}", re.DOTALL)
_any_string = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_plain_literal = re.compile(rb'"[ !#-\[\]-~]*+"')
_colon = re.compile(_SPACE + b":" + _SPACE)

_URLS = ("url", "uri", "dsn")
_SECRET_IN_URL = re.compile(rb"[^@?#]*+[@?#]")
"""A URL that may contain a credential: before the host, or after ``?`` or ``#``."""


MOST_VALUES = 100_000
"""The maximum number of JSON values for which a text is read. Reading one value of a request takes some 10 µs, and the
values are then kept in memory. Agents send one value for every 40 to 200 bytes, so this many would exceed the context
window of any model.
"""


class NextItem(Enum):
    """What follows where the next item of an array or object may begin."""

    ITEM = auto()
    CLOSE = auto()
    BROKEN = auto()


@attrs.frozen
class Member:
    """A member of an object: ``start`` is its key's opening quote, the value is ``[value_start, value_end)``.
    ``elements`` are the elements of the requested array.
    """

    key: str
    start: int
    value_start: int
    value_end: int
    elements: tuple[Range, ...] | None = None


def skip_space(raw: bytes, at: int) -> int:
    """Return the first offset from ``at`` on that is not JSON white space; at most ``len(raw)``."""
    match = _space.match(raw, at)
    return match.end() if match else at


def next_item(raw: bytes, at: int, *, first: bool) -> tuple[NextItem, int]:
    """Read what follows at ``at`` within an array or object: after its opening bracket (``first``) or after an item.

    ITEM comes with the offset of the item, CLOSE with the offset after the closing bracket, BROKEN with ``at``. The
    kind of the closing bracket is not checked.
    """
    at = skip_space(raw, at)
    following = raw[at : at + 1]
    if following in (b"]", b"}"):
        return NextItem.CLOSE, at + 1
    if not first:
        if following != b",":
            return NextItem.BROKEN, at
        at = skip_space(raw, at + 1)
        following = raw[at : at + 1]
    if following in (b"", b",", b":", b"]", b"}"):
        return NextItem.BROKEN, at
    return NextItem.ITEM, at


def value_end(raw: bytes, at: int) -> int | None:
    """Return the offset after the value that starts at ``at``, or None if no value starts there or it never ends."""
    opening = raw[at : at + 1]
    if opening in (b"{", b"["):
        return _container_end(raw, at)
    match = (_string if opening == b'"' else _scalar).match(raw, at)
    return match.end() if match else None


def _container_end(raw: bytes, at: int) -> int | None:
    depth = 0
    while match := _bracket.match(raw, at):
        at = match.end()
        # 0x5B [ and 0x7B { open, 0x5D ] and 0x7D } close.
        depth += 1 if raw[at - 1] in b"[{" else -1
        if depth == 0:
            return at
    return None


def is_deeper(raw: bytes, levels: int) -> bool:
    """Return whether values are nested more than ``levels`` deep."""
    depth = at = 0
    while depth <= levels and (match := _bracket.match(raw, at)):
        at = match.end()
        depth += 1 if raw[at - 1] in b"[{" else -1
    return depth > levels


def member_head(raw: bytes, at: int) -> tuple[str, int] | None:
    """Return the decoded key of the member that starts at ``at``, and where its value starts; None if there is no
    member.
    """
    match = _string.match(raw, at)
    colon = _colon.match(raw, match.end()) if match else None
    key = _decode(match.group()) if match else None
    return (key, colon.end()) if colon and key is not None else None


def _decode(literal: bytes) -> str | None:
    if _plain_literal.fullmatch(literal):  # true of nearly every key
        return literal[1:-1].decode("ascii")
    try:
        text = json.loads(literal)
    except (ValueError, RecursionError):
        return None
    return text if isinstance(text, str) else None


def text_at(raw: bytes, member: Member) -> str | None:
    """Return the value of a member if it is a string."""
    return _decode(raw[member.value_start : member.value_end])


def elements_of(raw: bytes, at: int, key: str) -> tuple[Range, ...]:
    """Return the elements of an array member of the object at ``at``; empty if it is not an array."""
    return next((elements(raw, member.value_start) or () for member in members(raw, at) or () if member.key == key), ())


def members(raw: bytes, at: int = 0, *, array: str | None = None) -> tuple[Member, ...] | None:
    """Return the members of the object at ``at`` in order, including duplicates; None if there is no complete object.

    The elements of the member called ``array`` are located as well.
    """
    at = skip_space(raw, at)
    if raw[at : at + 1] != b"{":
        return None
    result: list[Member] = []
    at += 1
    while True:
        kind, at = next_item(raw, at, first=not result)
        if kind is not NextItem.ITEM:
            return tuple(result) if kind is NextItem.CLOSE else None
        member = member_at(raw, at, array=array)
        if member is None:
            return None
        result.append(member)
        at = member.value_end


def member_at(raw: bytes, at: int, *, array: str | None = None) -> Member | None:
    """Return the member that starts at ``at``, or None if there is none or it never ends; ``array`` as in
    ``members``.
    """
    head = member_head(raw, at)
    if head is None:
        return None
    inner = elements(raw, head[1]) if head[0] == array else None
    if inner is not None:
        bracket = skip_space(raw, inner[-1][1] if inner else head[1] + 1)
        return Member(head[0], at, head[1], bracket + 1, inner)
    end = value_end(raw, head[1])
    return Member(head[0], at, head[1], end) if end is not None else None


def elements(raw: bytes, at: int) -> tuple[Range, ...] | None:
    """Return the ranges of the elements of the array at ``at``; None if there is no complete array.

    Together with ``members`` this reaches any array: ``messages``, then ``messages[i].content``, ``system``, ``tools``.
    """
    if raw[at : at + 1] != b"[":
        return None
    ranges: list[Range] = []
    at += 1
    while True:
        kind, at = next_item(raw, at, first=not ranges)
        if kind is not NextItem.ITEM:
            return tuple(ranges) if kind is NextItem.CLOSE else None
        end = value_end(raw, at)
        if end is None:
            return None
        ranges.append((at, end))
        at = end


def long_literals(raw: bytes, start: int = 0, end: int | None = None, at_least: int = LONG) -> list[Range]:
    """Return the literals of at least ``at_least`` bytes in ``[start, end)``, in order.

    ``start`` must be outside any string. A string that does not end before ``end`` is not included, nor is anything
    after it. ``at_least`` below 256 misses plain strings shorter than that.
    """
    end = len(raw) if end is None else end
    literals: list[Range] = []
    while candidate := _candidate.match(raw, start, end):
        start = candidate.end()
        literal = candidate.span(1)
        if literal[1] - literal[0] >= at_least:
            literals.append(literal)
    return literals


_SHORT = 1 << 16
"""How many bytes are stripped of their strings at once; more would block the interpreter for too long."""


def count_values(raw: bytes, start: int = 0, end: int | None = None, *, most: int) -> int:
    """Count the values in ``[start, end)``: brackets that open an array or object, and commas, outside strings.

    Counting stops once there are more than ``most``. ``start`` must be outside any string. Nothing is counted after a
    string that never ends.
    """
    end = len(raw) if end is None else end
    count = 0
    while end - start > _SHORT and count <= most and (match := _thousand.match(raw, start, end)):
        start = match.end()
        count += 1000
    if count > most:
        return count
    unquoted = _any_string.sub(b"", raw[start:end])
    return count + unquoted.count(b",") + unquoted.count(b"[") + unquoted.count(b"{")


def has_too_many_values(raw: bytes) -> bool:
    """Return whether there are more values than ``MOST_VALUES``."""
    # Each value takes at least two bytes.
    return len(raw) > 2 * MOST_VALUES and count_values(raw, most=MOST_VALUES) > MOST_VALUES


def credential_literals(
    raw: bytes, start: int = 0, end: int | None = None, *, lists: bool = False, shapes: bool = False
) -> list[Range]:
    """Return the literals and numbers in ``[start, end)`` that may be credentials.

    These are the values, at any depth, of members with a credential's name, and URLs that may contain a credential.
    With ``lists``, all values count in an array or object of such a name (in a schema it describes a parameter, except
    for the headers of a tool's server). With ``shapes``, so does anything that looks like a credential.

    ``start`` must be outside any string. Text that merely mentions a key is inside a string and does not count.
    """
    end = len(raw) if end is None else end
    literals: list[Range] = []
    while keyed := _keyed.match(raw, start, end):
        literal = max(keyed.span(2), keyed.span(3))
        # Without a string or a number the scan continues after the colon; a plain string element is skipped entirely.
        start = keyed.end()
        name = _text_of(keyed.group(1))
        is_secret = credentials.is_member(name)
        if literal[1] > literal[0]:
            is_secret = is_secret or (name.lower().endswith(_URLS) and _SECRET_IN_URL.match(raw, *literal) is not None)
            is_secret = is_secret or (
                shapes
                and name == _USER
                and credentials.may_be_bare_key(raw[slice(*literal)].decode("utf-8", "replace"))
            )
            if is_secret or (shapes and credentials.spans(raw[slice(*literal)])):
                literals.append(literal)
        elif is_secret and raw[start : start + 1] in (b"[", b"{") and (lists or _are_headers(raw, name, start)):
            inner, start = start, min(value_end(raw, start) or end, end)
            literals += _values(raw, inner, start)
        elif shapes and start == keyed.end(1) and credentials.spans(keyed.group(1)):
            literals.append((keyed.start(1) + 1, keyed.end(1) - 1))
    return literals


_USER = "user_id"
_OF_SCHEMAS = frozenset({"type", "$ref", "properties", "description", "anyOf", "oneOf", "allOf", "enum", "const"})


def _are_headers(raw: bytes, name: str, at: int) -> bool:
    """Return whether the value at ``at``, within tools, is the headers for a tool's server. A schema may use the same
    name.
    """
    inner = members(raw, at) if name == credentials.HEADERS else None
    return bool(inner) and _OF_SCHEMAS.isdisjoint(member.key for member in inner or ())


def _values(raw: bytes, start: int, end: int) -> Iterator[Range]:
    """Yield the numbers in a range, and the literals that are neither a key nor empty."""
    for match in _key_or_value.finditer(raw, start, end):
        first, last = max(match.span(1), match.span(3))
        if last > first and match.group(2) is None:
            yield first, last


def is_number(raw: bytes, span: Range) -> bool:
    """Return whether a withheld range is a number without quotes."""
    return _number.fullmatch(raw, *span) is not None


def _text_of(key: bytes) -> str:
    """Return the text of a key; ``""`` if it is not valid JSON."""
    return (_decode(key) or "") if b"\\" in key else key[1:-1].decode("utf-8", "replace")


_NAME = rb"([A-Za-z0-9_.-]{2,64})"
_named_value = re.compile(rb'"' + _NAME + rb'"\s*+:\s*+"?+((?<=")(?:[^"\\]++|\\.)*+|' + _NUMBER + rb")", re.DOTALL)
_form_field = re.compile(rb"(?:^|[&\s?;])" + _NAME + rb"=([^&\s;]++)")
_element = re.compile(rb"<" + _NAME + rb"(?:\s[^<>]{0,256})?>([^<]++)")
_form_part = re.compile(
    rb'name="' + _NAME + rb'"[^\r\n]{0,256}\r?\n(?:[A-Za-z-]{1,64}:[^\r\n]{0,256}\r?\n){0,4}\r?\n([^\r\n]++)'
)
_OF_FORMS = (_form_field, _element, _form_part)


def credential_literals_anywhere(raw: bytes, *, forms: bool = True) -> list[Range]:
    """Return the ranges that look like credentials in bytes that are not JSON, in order and without overlap.

    Quotes cannot be trusted there, so it includes too much rather than too little: also values that never end, and
    values in UTF-16 or UTF-32. Without ``forms``, form fields and XML elements are excluded.
    """
    width, at = _letters_of(raw)
    narrow = raw[at::width]
    ranges = credentials.spans(narrow)
    for pattern in (_named_value, *(_OF_FORMS if forms else ())):
        ranges += [
            match.span(2)
            for match in credentials.find_each(pattern, narrow)
            if match.end(2) > match.start(2) and credentials.is_member(match.group(1).decode())
        ]
    return [(start * width, min(end * width, len(raw))) for start, end in _merge(ranges)]


def _letters_of(raw: bytes) -> tuple[int, int]:
    """Return how many bytes a character takes, and which of them holds the ASCII code (RFC 4627, 3)."""
    mark = next((size for mark, size in _MARKS if raw.startswith(mark)), 0)
    zeros = tuple(index for index, byte in enumerate(raw[mark : mark + 4]) if not byte)
    return _WIDE.get(zeros, (1, 0))


_MARKS = ((codecs.BOM_UTF32_LE, 4), (codecs.BOM_UTF32_BE, 4), (codecs.BOM_UTF16_LE, 2), (codecs.BOM_UTF16_BE, 2))
_WIDE = {(1, 3): (2, 0), (0, 2): (2, 1), (1, 2, 3): (4, 0), (0, 1, 2): (4, 3)}
"""By which of the first four bytes are zero: the first two characters of any JSON are ASCII, or a single one."""


def _merge(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
