"""Who wrote each block of a message: the user's role covers much that no person typed."""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from mnemosyne.domain.segmentation.prose import is_clients
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.transcript import Transcript


class Author(Enum):
    """The author of a text, from most to least trusted."""

    USER = "user"
    """The person at the agent, in their own words."""
    ASSISTANT = "assistant"
    """The model."""
    CLIENT = "client"
    """The agent program and its settings: reminders, notes, summaries, reports."""
    OTHER = "other"
    """Anyone else: tool output, and text that was pasted, quoted or shown."""


_INVISIBLE = "".join(
    map(chr, [*range(0x21), 0x85, 0xA0, *range(0x200B, 0x2010), *range(0x2028, 0x202F), 0x2060, 0xFEFF])
)


_ATTACHES = re.compile(
    r"^[^\S\n]*\W{0,4}(?:called the \w{1,40} tool\b|result of calling\b|reading mcp resource\b|\w{1,40} tool failed "
    r"to\b|contents? of \S+:?[^\S\n]*$|file: \S+\]?[^\S\n]*$)",
    re.MULTILINE | re.IGNORECASE,
)
"""How clients introduce attachments."""


def find_authors(role: str | None, content: Sequence[Mapping[str, Any]]) -> tuple[Author, ...]:
    """Return the author of each block of a message, in order.

    A client puts attachments after a note about them (``Called the Read tool with …``), in blocks that look like the
    user's: no block after such a note is the user's.
    """
    authors: list[Author] = []
    attached = False
    for block in content:
        author = _find_author(role, block)
        if author is Author.USER:
            note = _ATTACHES.search(str(block["text"]))
            author = Author.OTHER if attached or (note is not None and note.start() == 0) else author
            attached = attached or note is not None
        authors.append(author)
    return tuple(authors)


def read_typed(role: str | None, content: Sequence[Mapping[str, Any]]) -> str:
    """Return the text that the user typed in a message; empty if it has another role or contains tool results."""
    if not blocks.is_prompt(role, content):
        return ""
    typed = zip(content, find_authors(role, content), strict=True)
    return "\n\n".join(str(block["text"]) for block, author in typed if author is Author.USER).strip()


def find_prompt(read: Transcript) -> tuple[int, str] | None:
    """Return the last message with text that the user typed: its index and that text; None if no message has any."""
    for number in reversed(range(len(read.messages))):
        typed = read_typed(read.messages[number].role, read.blocks(number))
        if typed:
            return number, typed
    return None


def _find_author(role: str | None, block: Mapping[str, Any]) -> Author:
    if role not in ("user", "assistant"):
        return Author.CLIENT
    if blocks.type_of(block) != "text" or not isinstance(block.get("text"), str):
        return Author.OTHER
    if role == "assistant":
        return Author.ASSISTANT
    return Author.CLIENT if is_clients(block["text"].lstrip(_INVISIBLE)) else Author.USER
