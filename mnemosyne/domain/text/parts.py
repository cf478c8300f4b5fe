"""Parts of an object's text: who speaks in it, what a call asked and what it was answered."""

from collections.abc import Mapping, Sequence
from enum import Enum

import attrs


class Voice(Enum):
    """Whose words a part is."""

    USER = "user"
    ASSISTANT = "assistant"
    CALL = "call"
    """What a tool was asked: its inputs, one below the other."""
    RESULT = "result"
    """What it answered."""


SPEAKERS: Mapping[Voice, str] = {Voice.USER: "[user]", Voice.ASSISTANT: "[assistant]"}
"""How a short form names who said what follows, where both speak."""


@attrs.frozen
class TextPart:
    """A stretch of an object's text. ``tool`` is the one that was called, None where nothing is known of it."""

    voice: Voice
    text: str
    tool: str | None = None


def join(parts: Sequence[TextPart]) -> str:
    """The text that the parts are of."""
    return "\n".join(part.text for part in parts)
