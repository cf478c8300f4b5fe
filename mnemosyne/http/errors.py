"""Our errors in the form of the client's dialect, which its own recovery reads: the one place where an error becomes a
status code.
"""

import attrs

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.reply import as_json, json_object
from mnemosyne.errors import (
    BodyStalled,
    BodyTooLarge,
    MnemosyneError,
    NoModelNamed,
    ReplyCut,
    TooMuchAtOnce,
    UpstreamFailed,
)

_STATUS: tuple[tuple[type[MnemosyneError], int, str], ...] = (
    (BodyTooLarge, 413, "request_too_large"),
    (BodyStalled, 408, "invalid_request_error"),
    (NoModelNamed, 400, "invalid_request_error"),
    (TooMuchAtOnce, 503, "api_error"),  # clients try again
    (UpstreamFailed, 502, "api_error"),
    (ReplyCut, 502, "api_error"),
)


@attrs.frozen
class ErrorBody:
    """A status and a JSON body."""

    status: int
    body: bytes


def error_body_for(error: MnemosyneError, dialect: Dialect) -> ErrorBody:
    """What tells a client that something went wrong on our side."""
    for kind, status, name in _STATUS:
        if isinstance(error, kind):
            return error_body(status, name, f"Mnemosyne: {error}", dialect)
    return error_body(500, "api_error", f"Mnemosyne: {error}", dialect)


def error_body(status: int, name: str, message: str, dialect: Dialect) -> ErrorBody:
    """An error as the provider would write it."""
    return ErrorBody(status, as_json(dialect.write_error(name, message)))


def complete_error(body: bytes, dialect: Dialect) -> bytes:
    """The body of a reply that is an error, as it came; in the provider's form if it has none."""
    if "error" in json_object(body):
        return body
    text = body.decode(errors="replace").strip() or "The provider answered with nothing."
    return as_json(dialect.write_error("api_error", text))


def cut_error(dialect: Dialect) -> bytes:
    """What a client is told of a reply that broke off, where it can be told."""
    return as_json(dialect.write_error("api_error", "The provider's connection broke before its reply was complete."))
