"""The window of a model that a provider states in its error when it refuses a prompt as longer."""

import re
from collections.abc import Mapping
from typing import Any

import attrs

# "prompt is too long: 234567 tokens > 200000 maximum"
_OF_MESSAGES = re.compile(r"prompt is too long: (\d{1,9}) tokens > (\d{1,9}) maximum")
# "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. …"
_OF_OPENAI = re.compile(r"This model's maximum context length is (\d{1,9}) tokens\.")

_OF_LLAMA = "exceed_context_size_error"
"""The type of the error of llama.cpp, which has the numbers in members of their own, whichever API it is asked by."""


@attrs.frozen
class TooLong:
    """A prompt of so many ``tokens``, as the provider counted them, is longer than the ``window``. ``tokens`` is None
    where the provider does not state that.
    """

    window: int
    tokens: int | None = None


def read_in_messages(error: Mapping[str, Any]) -> TooLong | None:
    """What the ``error`` of a reply of the Messages API states; None if it is another error."""
    found = _OF_MESSAGES.fullmatch(_message_of(error))
    return TooLong(int(found[2]), int(found[1])) if found and int(found[2]) else _read_numbers(error)


def read_in_openai(error: Mapping[str, Any]) -> TooLong | None:
    """The same of Chat Completions and of the Responses API. What they count may include the reply, so it is not
    taken for the size of the prompt.
    """
    found = _OF_OPENAI.match(_message_of(error))
    return TooLong(int(found[1])) if found and int(found[1]) else _read_numbers(error)


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
