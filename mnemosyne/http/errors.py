"""Our errors in the provider's shape: the one place where an error becomes a status code.

Shape: ``{"type": "error", "error": {"type", "message"}}`` (Messages API, errors). The client's own recovery reads it.
"""

import json

import attrs

from mnemosyne.errors import BodyStalled, BodyTooLarge, MnemosyneError, ReplyCut, TooMuchAtOnce, UpstreamFailed

_STATUS: tuple[tuple[type[MnemosyneError], int, str], ...] = (
    (BodyTooLarge, 413, "request_too_large"),
    (BodyStalled, 408, "invalid_request_error"),
    (TooMuchAtOnce, 503, "api_error"),  # clients try again
    (UpstreamFailed, 502, "api_error"),
    (ReplyCut, 502, "api_error"),
)


@attrs.frozen
class ErrorBody:
    """A status and a JSON body."""

    status: int
    body: bytes


def error_body_for(error: MnemosyneError) -> ErrorBody:
    """What tells a client of the provider's API that something went wrong on our side."""
    for kind, status, name in _STATUS:
        if isinstance(error, kind):
            return error_body(status, name, f"Mnemosyne: {error}")
    return error_body(500, "api_error", f"Mnemosyne: {error}")


def error_body(status: int, name: str, message: str) -> ErrorBody:
    """An error as the provider would write it."""
    shape = {"type": "error", "error": {"type": name, "message": message}}
    return ErrorBody(status, json.dumps(shape).encode())
