"""Which headers belong to one connection and stay there, which are ours, and which may be logged."""

import re
from collections.abc import Iterable

import attrs

from mnemosyne import credentials
from mnemosyne.domain.wire import echoed_keys
from mnemosyne.domain.wire.exchange import Headers, UpstreamRequest

TextHeaders = tuple[tuple[str, str], ...]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110, 7.6.1: meant for the next hop only."""

OWN_PREFIX = b"x-mnemosyne-"
"""Headers by which a client talks to us; the provider never sees them."""

LOGGABLE = frozenset(
    {
        b"anthropic-beta",
        b"anthropic-version",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"request-id",
        b"retry-after",
        b"user-agent",
        b"x-app",
        b"x-claude-code-agent-id",
        b"x-claude-code-session-id",
        b"x-session-id",
        b"x-parent-session-id",
        b"x-stainless-retry-count",
    }
)
"""The only headers that ever reach a log. What is not listed may be a credential."""


_SECRET_IN_PATH = re.compile(r"sk-[\w-]+|(?<=//)[^/@]*(?=@)")
_SEGMENT = re.compile(r"[^/…]+")
_WORD = re.compile(r"[A-Za-z_.:@-]{1,24}|v\d[a-z0-9]{0,6}")
"""A part of a path that is a word of an API; any other may be an id, a name, or somebody's key."""


def for_upstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The client's headers as the provider gets them: the host is the client library's to write."""
    kept = _end_to_end(headers, also=(b"host", b"expect"))
    return tuple((name, value) for name, value in kept if not name.lower().startswith(OWN_PREFIX))


def for_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The provider's headers as the client gets them: which web pages may read them is ours to say. A length beside
    chunks counts for nothing (RFC 9112, 6.3), and would end the reply before its end.
    """
    given = tuple(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in given)
    kept = _end_to_end(given, also=(b"content-length",) if is_chunked else ())
    return tuple(pair for pair in kept if not pair[0].lower().startswith(b"access-control-"))


def without_framing(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers without those that describe the bytes of a body which is now another one."""
    framing = (b"content-length", b"content-encoding")
    return tuple((name, value) for name, value in headers if name.lower() not in framing)


def text_headers(headers: Headers) -> TextHeaders:
    """Headers as text, for whoever looks for names in them."""
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


IDS = frozenset({"x-claude-code-agent-id", "x-claude-code-session-id", "x-session-id", "x-parent-session-id"})
"""Of these headers, those in which somebody may send a key as an id."""


def loggable(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The headers that may be logged, in one line; a key in one of them is masked, be it that of a header that is not
    listed.
    """
    given = text_headers(tuple(headers))
    listed = [(name.lower(), value) for name, value in given if name.lower().encode("latin-1") in LOGGABLE]
    others = [value for name, value in given if name.lower().encode("latin-1") not in LOGGABLE]
    bare = {
        value
        for value in (*others, *(value for name, value in listed if name in IDS))
        if credentials.may_be_bare_key(value)
    }
    shown = ", ".join(f"{name}={value}" for name, value in listed)
    return echoed_keys.without_in_text(shown, credentials.in_headers(given) | bare)


def loggable_path(target: bytes) -> str:
    """The path of a request target as it may be logged: without query and user information, and of its parts the words
    of an API alone.
    """
    path = _SECRET_IN_PATH.sub("…", target.partition(b"?")[0].decode("ascii", "replace"))
    return _SEGMENT.sub(lambda part: part[0] if _WORD.fullmatch(part[0]) else "…", path)


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], also: tuple[bytes, ...] = ()) -> list[tuple[bytes, bytes]]:
    held = [(bytes(name), bytes(value)) for name, value in headers]
    named = {
        token.strip().lower() for name, value in held if name.lower() == b"connection" for token in value.split(b",")
    }
    dropped = HOP_BY_HOP | named | set(also)
    return [(name, value) for name, value in held if name.lower() not in dropped]


def request_with(request: UpstreamRequest, body: bytes) -> UpstreamRequest:
    """The request with another body, and the wish for a reply that we can read."""
    headers: Headers = tuple(
        (name, value) for name, value in without_framing(request.headers) if name.lower() != b"accept-encoding"
    )
    own = ((b"accept-encoding", b"identity"), (b"content-length", b"%d" % len(body)))
    return attrs.evolve(request, headers=(*headers, *own), body=body)
