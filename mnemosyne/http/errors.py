"""Our errors in the provider's shape: the one place where an error becomes a status code.

Shape: ``{"type": "error", "error": {"type", "message"}}`` (Messages API, errors). The client's own recovery reads it.
"""

import json

from quart_trio.wrappers import TrioResponse

from mnemosyne.errors import BodyTooLarge, MnemosyneError, NotFound, UpstreamFailed

_STATUS: tuple[tuple[type[MnemosyneError], int, str], ...] = (
    (BodyTooLarge, 413, "request_too_large"),
    (UpstreamFailed, 502, "api_error"),
    (NotFound, 404, "not_found_error"),
)


def response_for(error: MnemosyneError) -> TrioResponse:
    """The reply that tells a client of the provider's API what went wrong on our side."""
    for kind, status, name in _STATUS:
        if isinstance(error, kind):
            return shaped(status, name, f"Mnemosyne: {error}")
    return shaped(500, "api_error", f"Mnemosyne: {error}")


def shaped(status: int, name: str, message: str) -> TrioResponse:
    """An error body as the provider would write it."""
    body = json.dumps({"type": "error", "error": {"type": name, "message": message}})
    return TrioResponse(body, status, content_type="application/json")
