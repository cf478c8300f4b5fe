"""Header rules: which are hop-by-hop, which are the proxy's own, and which may be logged."""

import re
from collections.abc import Iterable

import attrs

from mnemosyne import credentials
from mnemosyne.domain.wire import echoed_keys
from mnemosyne.domain.wire.exchange import Headers, UpstreamRequest
from mnemosyne.domain.wire.tools_behind import find_header

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
"""Hop-by-hop headers (RFC 9110, 7.6.1)."""

OWN_PREFIX = b"x-mnemosyne-"
"""Headers from clients to the proxy; the provider never sees them."""

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
"""The only headers that are ever logged. Any other may be a credential."""


_SECRET_IN_PATH = re.compile(r"sk-[\w-]+|(?<=//)[^/@]*(?=@)")
_SEGMENT = re.compile(r"[^/…]+")
_WORD = re.compile(r"[A-Za-z_.:@-]{1,24}|v\d[a-z0-9]{0,6}")
"""A path segment that is an API word; any other may be an id, a name or a key."""


def for_upstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the client's headers for the provider, without the host, which the HTTP library writes."""
    return tuple((name, value) for name, value in for_process(headers) if not name.lower().startswith(OWN_PREFIX))


def for_process(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the client's headers for another process of this server."""
    return tuple(_end_to_end(headers, also=(b"host", b"expect")))


def for_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the provider's headers for the client, without CORS headers, because no web page may read it. A
    Content-Length next to chunked encoding has no meaning (RFC 9112, 6.3) and would cut the reply, so it is dropped.
    """
    given = tuple(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in given)
    kept = _end_to_end(given, also=(b"content-length",) if is_chunked else ())
    return tuple(pair for pair in kept if not pair[0].lower().startswith(b"access-control-"))


def without_framing(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Remove the headers that describe a body's bytes, because the body changes."""
    framing = (b"content-length", b"content-encoding")
    return tuple((name, value) for name, value in headers if name.lower() not in framing)


def text_headers(headers: Headers) -> TextHeaders:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


IDS = frozenset({"x-claude-code-agent-id", "x-claude-code-session-id", "x-session-id", "x-parent-session-id"})
"""Loggable headers whose id could be a key sent by mistake."""


def loggable(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Format the loggable headers in one line; mask keys in them, including those of headers that are not listed."""
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
    """Return a request target's path for logs: without query and user information, and with only API words."""
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
    """Return the request with another body, asking for an unencoded reply, and with the header that the body needs."""
    headers: Headers = tuple(
        (name, value) for name, value in without_framing(request.headers) if name.lower() != b"accept-encoding"
    )
    own = ((b"accept-encoding", b"identity"), (b"content-length", b"%d" % len(body)))
    headers = _with_name(headers, *needed) if (needed := find_header(body)) is not None else headers
    return attrs.evolve(request, headers=(*headers, *own), body=body)


def _with_name(headers: Headers, header: bytes, name: bytes) -> Headers:
    """Add a name to a header that is a list of names."""
    listed = [value for key, value in headers if key.lower() == header]
    if any(name in map(bytes.strip, value.split(b",")) for value in listed):
        return headers
    others = tuple((key, value) for key, value in headers if key.lower() != header)
    return (*others, (header, b",".join((*listed, name))))
