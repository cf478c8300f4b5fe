"""Parts of an object's text: their authors, and the calls and results of tools."""

from collections.abc import Mapping, Sequence
from enum import Enum

import attrs


class Voice(Enum):
    """The author of a part."""

    USER = "user"
    ASSISTANT = "assistant"
    CALL = "call"
    """A call's inputs, one per line."""
    RESULT = "result"
    """The tool's result."""


SPEAKERS: Mapping[Voice, str] = {Voice.USER: "[user]", Voice.ASSISTANT: "[assistant]"}
"""How a short form labels the author of a text that has both."""


@attrs.frozen
class TextPart:
    """A part of an object's text. ``tool`` is the tool that was called, or None if unknown."""

    voice: Voice
    text: str
    tool: str | None = None


def join(parts: Sequence[TextPart]) -> str:
    """Return the text that consists of these parts."""
    return "\n".join(part.text for part in parts)
