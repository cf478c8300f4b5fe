"""The context of a reply in either dialect of OpenAI, and the counts that both share."""

from collections.abc import Callable
from typing import Any

import attrs
import orjson

from mnemosyne_lab.provider.delivery import Rendering
from mnemosyne_lab.provider.prefix_cache import PrefixUse
from mnemosyne_lab.provider.reading import Body, Json, as_dict, tokens
from mnemosyne_lab.provider.script import Failure
from mnemosyne_lab.provider.view import RequestView

CREATED = 1_767_225_600
"""Seconds since 1970 in every reply: the stand-in has no wall clock."""


@attrs.frozen
class OpenAiContext:
    """The context of a reply besides the script."""

    body: Body
    view: RequestView
    number: int
    """Of this request for a message, from 1."""
    next_id: Callable[[], str]
    """Makes the unique part of an id."""
    prefix: PrefixUse
    secret: bytes
    diagnostics: dict[str, Any] | None = None
    """The result of the cache comparison, if the request asks for one."""

    def is_custom(self, tool: str) -> bool:
        """Whether the tool of that name takes a text instead of JSON."""
        return as_dict(self.view.tools.get(tool)).get("type") == "custom"


@attrs.frozen
class Composed:
    """A finished reply. `text` is its form in a chat template."""

    rendering: Rendering
    text: str


def write_failure(failure: Failure) -> bytes:
    """The JSON body of a scripted failure."""
    return openai_error_body(failure.status, failure.message, failure.type)


def write_input(block: dict[str, Json], *, custom: bool) -> str:
    """The arguments of a scripted call: JSON, or the text of a custom tool."""
    given = block.get("input", {})
    return str(as_dict(given).get("input", "")) if custom else orjson.dumps(given).decode()


def count_output(text: str, blocks: list[dict[str, Any]]) -> tuple[int, int]:
    """Tokens of a reply, and how many of them are reasoning."""
    thought = sum(len(str(block.get("thinking", ""))) for block in blocks if block.get("type") == "thinking")
    return max(1, tokens(len(text))), min(tokens(thought), max(1, tokens(len(text))))


def add_timings(made: dict[str, Any], prefix: PrefixUse, output: int) -> dict[str, Any]:
    """The same with the `timings` that a local server adds."""
    timings = prefix.report(output)
    return {**made, "timings": timings} if timings else made


_TYPES: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "This key may not use the resource."),
    404: ("invalid_request_error", None, "Not Found"),
    405: ("invalid_request_error", None, "Method Not Allowed"),
    413: ("invalid_request_error", None, "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    500: ("server_error", None, "The server had an error while processing your request."),
    503: ("server_error", "server_is_overloaded", "Our servers are currently overloaded. Please try again later."),
}


def openai_error_body(
    status: int,
    message: str | None = None,
    kind: str | None = None,
    *,
    param: str | None = None,
    code: str | None = None,
) -> bytes:
    """The JSON body of an error, with defaults by status."""
    usual = _TYPES.get(status, _TYPES[500])
    usual_code = usual[1] if message is None else None
    error = {"message": message or usual[2], "type": kind or usual[0], "param": param, "code": code or usual_code}
    return orjson.dumps({"error": error})
