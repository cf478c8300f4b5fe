"""What the stand-in knows about models: windows, smallest cacheable prompts, and which features each one refuses.

Source: Messages API documentation (models, prompt caching, extended thinking). An unknown name is treated as a current
model, because a client that names a new model expects the newest behaviour.
"""

import re

import attrs


@attrs.frozen
class Model:
    """One row of the table."""

    prefix: str
    """A model name belongs to the row with the longest prefix of it."""
    version: tuple[int, int]
    """Generation, e.g. (4, 6)."""
    cache_minimum: int
    """Tokens; a shorter prompt is never cached, silently."""
    window: int = 1_000_000
    """Tokens of input the model accepts."""
    binds_thinking: bool = False
    """A thinking signature is bound to the conversation before it."""
    refuses_forced_tools: bool = False
    """`tool_choice` of type `any` or `tool` is an error."""
    refuses_system_messages: bool = False
    """A message with role `system` is an error."""


_CURRENT = {"binds_thinking": True, "refuses_forced_tools": True}

MODELS: tuple[Model, ...] = (
    Model("claude-fable-5", (5, 2), 512, **_CURRENT),
    Model("claude-mythos-5", (5, 2), 512, **_CURRENT),
    Model("claude-opus-5-5", (5, 5), 512, **_CURRENT),
    Model("claude-sonnet-5-5", (5, 5), 512, **_CURRENT),
    Model("claude-haiku-5-5", (5, 5), 512, binds_thinking=True),
    Model("claude-opus-5", (5, 0), 512),
    Model("claude-sonnet-5", (5, 0), 1024, refuses_system_messages=True),
    Model("claude-opus-4-8", (4, 8), 1024),
    Model("claude-opus-4-7", (4, 7), 2048),
    Model("claude-opus-4-6", (4, 6), 4096),
    Model("claude-opus-4-5", (4, 5), 4096),
    Model("claude-opus-4-1", (4, 1), 1024),
    Model("claude-sonnet-4-6", (4, 6), 1024),
    Model("claude-sonnet-4-5", (4, 5), 1024),
    Model("claude-haiku-4-5", (4, 5), 4096, window=200_000),
)
_UNKNOWN = Model("", (5, 5), 512, **_CURRENT)


def find(name: str) -> Model:
    """The row for a model name; a row of current behaviour when the name is unknown."""
    fitting = [row for row in MODELS if re.match(re.escape(row.prefix) + r"(-|$)", name)]
    return max(fitting, key=lambda row: len(row.prefix), default=_UNKNOWN)
