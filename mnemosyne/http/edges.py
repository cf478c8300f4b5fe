"""Requests that are refused for their form, before anything of them is read: they mean another kind of server, or two
readers could understand them in two ways.
"""

from mnemosyne.domain.wire.exchange import Headers
from mnemosyne.http.errors import ErrorBody, error_body
from mnemosyne.http.messages_route import error_dialect

_NO_FORWARD_PROXY = (
    "Mnemosyne: this is no forward proxy. Leave HTTP_PROXY and HTTPS_PROXY alone, and set the client's base URL "
    "(ANTHROPIC_BASE_URL) to this address."
)
_TWO_LENGTHS = "Mnemosyne: a request has a Content-Length or a Transfer-Encoding, not both (RFC 9112, 6.1)."
_NO_WEBSOCKETS = "Mnemosyne: WebSockets are not passed on; ask over HTTP, replies stream by server-sent events."


def refusal_of(method: str, target: bytes, headers: Headers) -> ErrorBody | None:
    """Why a request of this form is not answered; None if it is."""
    dialect = error_dialect(target)
    if method == "CONNECT" or not target.startswith(b"/"):
        return error_body(400, "invalid_request_error", _NO_FORWARD_PROXY, dialect)
    names = {name.lower() for name, _ in headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        return error_body(400, "invalid_request_error", _TWO_LENGTHS, dialect)
    if any(name.lower() == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
        # The status at which Codex 0.169.0 speaks HTTP at once; at others it tries five times first.
        return error_body(426, "invalid_request_error", _NO_WEBSOCKETS, dialect)
    return None
