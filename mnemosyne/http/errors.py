"""Write the proxy's errors in the client's dialect, which the client's own retry logic understands. This is the only
module that maps errors to status codes.
"""

import attrs

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.reply import as_json, json_object
from mnemosyne.errors import (
    BodyStalled,
    BodyTooLarge,
    MnemosyneError,
    NoModelNamed,
    OverBudget,
    ReplyCut,
    TooMuchAtOnce,
    UpstreamFailed,
)

_STATUS: tuple[tuple[type[MnemosyneError], int, str], ...] = (
    (BodyTooLarge, 413, "request_too_large"),
    (BodyStalled, 408, "invalid_request_error"),
    (NoModelNamed, 400, "invalid_request_error"),
    (TooMuchAtOnce, 503, "api_error"),  # clients retry
    (UpstreamFailed, 502, "api_error"),
    (ReplyCut, 502, "api_error"),
)


@attrs.frozen
class ErrorBody:
    """A status and a JSON body."""

    status: int
    body: bytes


def error_body_for(error: MnemosyneError, dialect: Dialect) -> ErrorBody:
    """Return the response for an error in the proxy."""
    if isinstance(error, OverBudget):
        return error_body(*dialect.over_budget, f"Mnemosyne: {error}", dialect)
    for kind, status, name in _STATUS:
        if isinstance(error, kind):
            return error_body(status, name, f"Mnemosyne: {error}", dialect)
    return error_body(500, "api_error", f"Mnemosyne: {error}", dialect)


def error_body(status: int, name: str, message: str, dialect: Dialect) -> ErrorBody:
    """Return an error in the provider's format."""
    return ErrorBody(status, as_json(dialect.write_error(name, message)))


def complete_error(body: bytes, dialect: Dialect) -> bytes:
    """Return an error reply's body unchanged, or in the provider's format if it has another."""
    if "error" in json_object(body):
        return body
    text = body.decode(errors="replace").strip() or "The provider answered with nothing."
    return as_json(dialect.write_error("api_error", text))


def cut_error(dialect: Dialect) -> bytes:
    """Return the error for a reply that was cut off."""
    return as_json(dialect.write_error("api_error", "The provider's connection broke before its reply was complete."))
