"""Refuse malformed requests before reading them: they are meant for another kind of server, or two parsers could
understand them differently.
"""

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.http.errors import ErrorBody, error_body
from mnemosyne.http.messages_route import error_dialect

_NO_FORWARD_PROXY = (
    "Mnemosyne: this is not a forward proxy. Unset HTTP_PROXY and HTTPS_PROXY, and set the client's base URL "
    "(ANTHROPIC_BASE_URL) to this address."
)
_TWO_LENGTHS = "Mnemosyne: a request must not have both Content-Length and Transfer-Encoding (RFC 9112, 6.1)."
_NO_WEBSOCKETS = "Mnemosyne: WebSockets are not supported; use HTTP, where replies are streamed as server-sent events."


def refusal_of(method: str, target: bytes, headers: Headers) -> ErrorBody | None:
    """Return the error for a malformed request; None if it is well-formed."""
    dialect = error_dialect(target)
    if method == "CONNECT" or not target.startswith(b"/"):
        return error_body(400, "invalid_request_error", _NO_FORWARD_PROXY, dialect)
    names = {name.lower() for name, _ in headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        return error_body(400, "invalid_request_error", _TWO_LENGTHS, dialect)
    if any(name.lower() == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
        # On this status Codex 0.169.0 falls back to HTTP at once; on others it retries five times first.
        return error_body(426, "invalid_request_error", _NO_WEBSOCKETS, dialect)
    return None
