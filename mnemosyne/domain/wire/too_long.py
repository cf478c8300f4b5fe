"""Read a model's context window from the provider's error about a prompt that is too long."""

import re
from collections.abc import Mapping
from typing import Any

import attrs

# "prompt is too long: 234567 tokens > 200000 maximum"
_OF_MESSAGES = re.compile(r"prompt is too long: (\d{1,9}) tokens > (\d{1,9}) maximum")
# "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. …"
_OF_OPENAI = re.compile(r"This model's maximum context length is (\d{1,9}) tokens\.")

_OF_LLAMA = "exceed_context_size_error"
"""The error type of llama.cpp, which has the numbers in separate members, whichever of its APIs is used."""


@attrs.frozen
class TooLong:
    """The provider refused a prompt of ``tokens``, by its own count, as longer than the ``window``.

    ``tokens`` is None if the provider does not state the size of the prompt.
    """

    window: int
    tokens: int | None = None


def read_in_messages(error: Mapping[str, Any]) -> TooLong | None:
    """Read the ``error`` of a reply of the Messages API; None if it is another error."""
    match = _OF_MESSAGES.fullmatch(_message_of(error))
    return TooLong(int(match[2]), int(match[1])) if match and int(match[2]) else _read_numbers(error)


def read_in_openai(error: Mapping[str, Any]) -> TooLong | None:
    """Read the ``error`` of a reply of Chat Completions or the Responses API; None if it is another error.

    The count in it may include the reply, so it is not used as the size of the prompt.
    """
    match = _OF_OPENAI.match(_message_of(error))
    return TooLong(int(match[1])) if match and int(match[1]) else _read_numbers(error)


def _read_numbers(error: Mapping[str, Any]) -> TooLong | None:
    window = _read_count(error.get("n_ctx"))
    if error.get("type") != _OF_LLAMA or window is None:
        return None
    return TooLong(window, _read_count(error.get("n_prompt_tokens")))


def _message_of(error: Mapping[str, Any]) -> str:
    message = error.get("message")
    return message if isinstance(message, str) else ""


def _read_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None
