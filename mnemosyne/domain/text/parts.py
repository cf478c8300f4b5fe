"""Parts of an object's text: messages, and the calls and results of tools."""

from collections.abc import Mapping, Sequence
from enum import Enum

import attrs


class PartRole(Enum):
    """What a part is: text of the user or the model, a tool call, or its result."""

    USER = "user"
    ASSISTANT = "assistant"
    ANNOUNCEMENT = "announcement"
    """Text of the model before a tool call; only where the difference matters."""
    CALL = "call"
    """A call's inputs, one per line."""
    RESULT = "result"
    """The tool's result."""


ROLE_LABELS: Mapping[PartRole, str] = {PartRole.USER: "[user]", PartRole.ASSISTANT: "[assistant]"}
"""How a short form labels the author of a text that has both."""


@attrs.frozen
class TextPart:
    """A part of an object's text. ``tool`` is the tool that was called, or None if unknown."""

    role: PartRole
    text: str
    tool: str | None = None


def join(parts: Sequence[TextPart]) -> str:
    return "\n".join(part.text for part in parts)
