"""Content blocks of messages, as Anthropic's clients write them."""

from typing import Any


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def result(name: str, content: Any, **more: Any) -> dict[str, Any]:
    """The result of the call with this id."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}
