"""Keys that a request brought, taken out of what is recorded of an error: providers and gateways quote them there.

What the client gets is not touched; this is for the log alone.
"""

import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import attrs

from mnemosyne import credentials
from mnemosyne.domain.wire import body_layout, json_spans
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.json_spans import Range
from mnemosyne.domain.wire.reply import Reply

SHOWN = 16
"""From so many characters on a quoted beginning of a key counts as the key; providers show fewer on purpose."""


def keys_in_body(raw: bytes, dialect: Dialect) -> frozenset[str]:
    """The credentials in a request's body, those that are withheld when it is stored."""
    withheld = body_layout.lay_out(raw, None, 0, 0, dialect).withheld
    # Without the zeros of UTF-16: an error quotes it in letters of its own.
    found = (raw[start:end].replace(b"\0", b"").decode("utf-8", "replace") for start, end in withheld)
    return frozenset(each for each in found if len(each) >= credentials.SHORTEST)


def is_error(status: int | None, reply: Reply) -> bool:
    """Whether a reply says that something went wrong."""
    return (status is not None and status >= 400) or reply.error_type is not None


def without(reply: Reply, keys: Iterable[str], *, status: int | None) -> Reply:
    """An error without the ``keys``, and without whatever else looks like a credential in what it says of the error:
    ``*`` stands for each byte. What the model said before the error stays as it is.
    """
    if not is_error(status, reply):
        return reply
    quoted = [found for key in keys for found in _find_quoted(reply.body, key.encode())]
    shaped = [
        (start + at, start + end)
        for start, stop in _of_error(reply.body, status)
        for at, end in credentials.spans(reply.body[start:stop])
    ]
    body = credentials.blank(reply.body, [*quoted, *shaped])
    return reply if body == reply.body else attrs.evolve(reply, body=body)


def without_in_text(text: str, keys: Iterable[str]) -> str:
    """A line of ours without the ``keys`` and whatever else looks like a credential."""
    return credentials.mask_bytes(
        credentials.blank(text.encode(), [found for key in keys for found in _find_quoted(text.encode(), key.encode())])
    ).decode()


def _find_quoted(text: bytes, key: bytes) -> list[Range]:
    """Where a key stands, or a long beginning of it, however it is written: with escapes of JSON or of URLs, in Base64,
    alone or behind something else.
    """
    plain = _Plain.of(text)
    writings = {each for known in (key, _Plain.of(key).text) for each in _writings(known)}
    return [(plain.place(start), plain.place(end)) for each in writings for start, end in _find(plain.text, each)]


def _find(text: bytes, key: bytes) -> Iterator[Range]:
    start = key[:SHOWN]
    at = text.find(start)
    while at >= 0:
        end = at + len(start)
        while end < len(text) and end - at < len(key) and text[end] == key[end - at]:
            end += 1
        yield at, end
        at = text.find(start, end)


def _writings(key: bytes) -> Iterator[bytes]:
    """The key, and those letters of Base64 that hold bits of it alone, for each place where it may begin."""
    yield key
    for ahead in range(3):
        letters = b64encode(bytes(ahead) + key)[-(-ahead * 8 // 6) : (ahead + len(key)) * 8 // 6]
        yield letters
        if (in_urls := letters.translate(_IN_URLS)) != letters:
            yield in_urls


_IN_URLS = bytes.maketrans(b"+/", b"-_")

_ESCAPE = re.compile(rb"\\u00([0-9A-Fa-f]{2})|%([0-9A-Fa-f]{2})|\\([^u])|\x00", re.DOTALL)


@attrs.frozen
class _Plain:
    """A text without its escapes, and without the zeros of UTF-16. ``marks`` tell behind each escape where that is in
    the text, and where it was.
    """

    text: bytes
    marks: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, escaped: bytes) -> "_Plain":
        parts, marks, at, size = [], [(0, 0)], 0, 0
        for found in _ESCAPE.finditer(escaped) if any(each in escaped for each in (b"\\", b"%", b"\0")) else ():
            before = escaped[at : found.start()]
            digits = found[1] or found[2]
            letter = (bytes.fromhex(digits.decode()) if digits else found[3] or b"").strip(b"\0")
            parts += [before, letter]
            at = found.end()
            size += len(before)
            marks += [(size, found.start()), (size + len(letter), at)]
            size += len(letter)
        return cls(b"".join((*parts, escaped[at:])), marks)

    def place(self, at: int) -> int:
        """Where a place of the plain text was."""
        plain, escaped = self.marks[bisect_right(self.marks, (at, 6 * len(self.text) + 1)) - 1]
        return escaped + at - plain


def _of_error(body: bytes, status: int | None) -> list[Range]:
    """What of the body speaks of the error: all of it, or a member of a reply that had begun."""
    if status is not None and status >= 400:
        return [(0, len(body))]
    found = json_spans.members(body) or ()
    return [(member.value_start, member.value_end) for member in found if member.key == "error"] or [(0, len(body))]
