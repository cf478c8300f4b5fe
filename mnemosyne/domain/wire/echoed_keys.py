"""Remove a request's keys from recorded errors, in which providers and gateways quote them.

Only the log is changed; the client receives the error verbatim.
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
"""A quoted prefix of a key counts as the key from this many characters on; providers show shorter ones on purpose."""


def keys_in_body(raw: bytes, dialect: Dialect) -> frozenset[str]:
    """Return the credentials in a request's body: those that are withheld when it is stored."""
    withheld = body_layout.lay_out(raw, None, 0, 0, dialect).withheld
    # Remove the zero bytes of UTF-16: an error quotes the key in its own encoding.
    keys = (raw[start:end].replace(b"\0", b"").decode("utf-8", "replace") for start, end in withheld)
    return frozenset(key for key in keys if len(key) >= credentials.SHORTEST)


def is_error(status: int | None, reply: Reply) -> bool:
    return (status is not None and status >= 400) or reply.error_type is not None


def without(reply: Reply, keys: Iterable[str], *, status: int | None) -> Reply:
    """Return an error in which the ``keys``, and anything else in its error text that looks like a credential, are
    replaced by ``*``. What the model wrote before the error is kept.
    """
    if not is_error(status, reply):
        return reply
    quoted = [span for key in keys for span in _find_quoted(reply.body, key.encode())]
    shaped = [
        (start + at, start + end)
        for start, stop in _of_error(reply.body, status)
        for at, end in credentials.spans(reply.body[start:stop])
    ]
    body = credentials.blank(reply.body, [*quoted, *shaped])
    return reply if body == reply.body else attrs.evolve(reply, body=body)


def without_in_text(text: str, keys: Iterable[str]) -> str:
    """Return a message of the proxy without the ``keys`` and without anything else that looks like a credential."""
    return credentials.mask_bytes(
        credentials.blank(text.encode(), [span for key in keys for span in _find_quoted(text.encode(), key.encode())])
    ).decode()


def _find_quoted(text: bytes, key: bytes) -> list[Range]:
    """Find a key, or a long prefix of it, however it is encoded: with JSON or URL escapes, or in Base64, alone or after
    other text.
    """
    plain = _Plain.of(text)
    writings = {written for known in (key, _Plain.of(key).text) for written in _writings(known)}
    return [(plain.place(start), plain.place(end)) for written in writings for start, end in _find(plain.text, written)]


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
    """Yield the key, and the Base64 characters that depend on it alone, for each possible alignment."""
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
    """A text without escapes and without the zero bytes of UTF-16. ``marks`` are pairs of a position in the plain text
    and the position in the escaped text, one before and one after each escape.
    """

    text: bytes
    marks: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, escaped: bytes) -> "_Plain":
        parts, marks, at, size = [], [(0, 0)], 0, 0
        for match in _ESCAPE.finditer(escaped) if any(marker in escaped for marker in (b"\\", b"%", b"\0")) else ():
            before = escaped[at : match.start()]
            digits = match[1] or match[2]
            letter = (bytes.fromhex(digits.decode()) if digits else match[3] or b"").strip(b"\0")
            parts += [before, letter]
            at = match.end()
            size += len(before)
            marks += [(size, match.start()), (size + len(letter), at)]
            size += len(letter)
        return cls(b"".join((*parts, escaped[at:])), marks)

    def place(self, at: int) -> int:
        """Convert a position in the plain text to one in the escaped text."""
        plain, escaped = self.marks[bisect_right(self.marks, (at, 6 * len(self.text) + 1)) - 1]
        return escaped + at - plain


def _of_error(body: bytes, status: int | None) -> list[Range]:
    """Return the ranges of the body that describe the error: all of it, or the ``error`` member of a reply that had
    begun.
    """
    if status is not None and status >= 400:
        return [(0, len(body))]
    members = json_spans.members(body) or ()
    return [(member.value_start, member.value_end) for member in members if member.key == "error"] or [(0, len(body))]
