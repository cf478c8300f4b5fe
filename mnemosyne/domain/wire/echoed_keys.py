"""Keys that a request brought, taken out of what is recorded of an error: providers and gateways quote them there.

What the client gets is not touched; this is for the log alone.
"""

from collections.abc import Iterable

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
    found = (raw[start:end].decode("utf-8", "replace") for start, end in withheld)
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
    """Where a key stands, or a long beginning of it."""
    found: list[Range] = []
    start = key[:SHOWN]
    at = text.find(start)
    while at >= 0:
        end = at + len(start)
        while end < len(text) and end - at < len(key) and text[end] == key[end - at]:
            end += 1
        found.append((at, end))
        at = text.find(start, end)
    return found


def _of_error(body: bytes, status: int | None) -> list[Range]:
    """What of the body speaks of the error: all of it, or a member of a reply that had begun."""
    if status is not None and status >= 400:
        return [(0, len(body))]
    found = json_spans.members(body) or ()
    return [(member.value_start, member.value_end) for member in found if member.key == "error"] or [(0, len(body))]
