"""The title of a session: the first paragraph of its first prompt."""

import re
from collections.abc import Mapping
from typing import Any

from mnemosyne.domain.segmentation.authors import Author, find_authors
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.normal_form import content_blocks

LONGEST = 80
"""The maximum length of a title, in characters."""

_FIRST_MESSAGES = 8
"""How many messages are searched for the user's first words; the client's own texts may come before."""


_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


def title_of(request: Mapping[str, Any], dialect: Dialect) -> str | None:
    """Return the title of the session that a request opens, on one line; None if no user typed anything."""
    messages = request.get(dialect.array)
    for element in messages[:_FIRST_MESSAGES] if isinstance(messages, list) else ():
        message = dialect.read_message(element) if isinstance(element, dict) else {}
        role = message.get("role")
        if role != "user":
            continue
        blocks = content_blocks(message.get("content"))
        for block, author in zip(blocks, find_authors(role, blocks), strict=True):
            if author is Author.USER and (title := _first_words(str(block["text"]))):
                return title
    return None


def _first_words(text: str) -> str:
    line = " ".join(_BLANK_LINE.split(text.strip(), maxsplit=1)[0][: 4 * LONGEST].split())
    if len(line) > 1 and line[0] == line[-1] == '"':
        line = line[1:-1]  # opencode quotes text from its command line
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"
