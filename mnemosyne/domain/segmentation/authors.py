"""Who wrote each block of a message: the user's role covers much that no person typed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.client_texts import InsertedText, find_inserted, is_reminder, unwrap_prompt
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


_SUBMITTED = (None, InsertedText.COMMAND, InsertedText.SKILL)
"""The kinds of texts that stand for something that the user submitted."""


def find_authors(role: str | None, content: Sequence[Mapping[str, Any]]) -> tuple[Author, ...]:
    """Return the author of each block of a message, in order.

    Two kinds of inserted text look like the user's and are recognized by the block before: the text of a command, which
    is the next one after its name that is no reminder, and attachments, after a note about them (``Called the Read tool
    with …``). No block after such a note is the user's.
    """
    authors: list[Author] = []
    names_command = attached = False
    for block in content:
        author, inserted = _find_author(role, block)
        if names_command and author is not Author.OTHER and not is_reminder("user", block["text"]):
            author, names_command = Author.CLIENT, False
        if author is Author.USER:
            note = _ATTACHES.search(str(block["text"]))
            author = Author.OTHER if attached or (note is not None and note.start() == 0) else author
            attached = attached or note is not None
        names_command = names_command or inserted is InsertedText.COMMAND
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


def list_prompt_blocks(read: Transcript) -> Iterator[tuple[int, int, str]]:
    """The text blocks since the model's last message that the user may have written, the last one first: the numbers of
    message and block, and the text.
    """
    for number in reversed(range(len(read.messages))):
        role = read.messages[number].role
        if role == "assistant":
            return
        content = read.blocks(number)
        for block, author in reversed([*enumerate(find_authors(role, content))]):
            if author is Author.USER:
                yield number, block, unwrap_prompt(str(content[block]["text"]))


def ends_with_prompt(read: Transcript) -> bool:
    """Whether a request sends what the user has submitted: a text, an image or a command. A request with results of
    tools does not, and neither does one that ends with a report, a summary or a note of the client's.
    """
    last: Mapping[str, Any] | None = None
    for number in reversed(range(len(read.messages))):
        role = read.messages[number].role
        if role == "assistant":
            break
        content = read.blocks(number)
        if any(map(blocks.is_any_result, content)):
            return False
        own = [each for each in content if role == "user" and not is_reminder("user", str(each.get("text", "")))]
        last = last or next(reversed(own), None)
    if last is None or blocks.type_of(last) != "text":
        return last is not None
    return find_inserted(str(last.get("text", "")).lstrip(_INVISIBLE)) in _SUBMITTED


def find_answered(read: Transcript, message: int) -> str:
    """The text of the model's last message before a message; empty without one."""
    for number in reversed(range(message)):
        if read.messages[number].role == "assistant":
            return "\n\n".join(blocks.text_of(each) for each in read.blocks(number) if blocks.type_of(each) == "text")
    return ""


def _find_author(role: str | None, block: Mapping[str, Any]) -> tuple[Author, InsertedText | None]:
    if role not in ("user", "assistant"):
        return Author.CLIENT, None
    if blocks.type_of(block) != "text" or not isinstance(block.get("text"), str):
        return Author.OTHER, None
    if role == "assistant":
        return Author.ASSISTANT, None
    inserted = find_inserted(block["text"].lstrip(_INVISIBLE))
    return Author.USER if inserted is None else Author.CLIENT, inserted
