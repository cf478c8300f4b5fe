"""A received HTTP request, and the answer to it."""

import gzip
import zlib
from collections.abc import Callable

import attrs

from mnemosyne_lab.provider.reading import Headers, header
from mnemosyne_lab.provider.rules_markers import Violation
from mnemosyne_lab.provider.wire_steps import Step


@attrs.frozen
class Received:
    """One HTTP request, complete."""

    number: int
    """Order of arrival, from 1."""
    method: str
    target: str
    """As in the request line."""
    headers: Headers
    body: bytes
    at: float
    """When its head arrived, in seconds of the server's clock."""


@attrs.frozen
class Answer:
    """The server's answer to a request."""

    steps: list[Step]
    rule: str = ""
    """The name or number of the script's rule; empty for defaults and refusals."""
    begin: Callable[[], None] | None = None
    """Call it when the response starts: the request's cache writes become readable."""


@attrs.frozen
class RecordedViolation:
    """A breach and the request that showed it."""

    request: int
    session: str | None
    violation: Violation


def decode(request: Received) -> bytes:
    """The body without its content encoding. Raises ValueError for one that is unknown or broken."""
    encoding = (header(request.headers, "content-encoding") or "identity").lower()
    if encoding == "identity":
        return request.body
    if encoding != "gzip":
        raise ValueError(f"content-encoding {encoding} is not supported")
    try:
        return gzip.decompress(request.body)
    except (OSError, EOFError, zlib.error) as problem:
        raise ValueError(f"the gzip encoding is broken: {problem}") from problem
