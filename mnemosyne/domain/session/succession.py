"""Check whether a history begins with the summary of a given window, which proves that the caller knows that window.

Clients wrap the summary in a text of their own and drop its tags; they keep its lines.
"""

from collections.abc import Iterator

from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.state import Branch
from mnemosyne.domain.wire.blocks import texts_in
from mnemosyne.domain.wire.transcript import Transcript

LEAST = 100
"""Shared characters below which a summary proves nothing: it may have been guessed."""

SHORTEST = 20
"""Lines with fewer characters are ignored: any text may contain them."""

OPENING = 3
"""Number of messages at the beginning of a history that may contain its summary."""


AMENDED = 2
"""Messages at the end of a window that the request for its summary may lack: clients amend the last ones for it."""

OPENING_TAG = "<summary>"
"""Claude Code keeps the part of the reply after this tag; the part before it is the model's reasoning."""


def sums_up(branch: Branch, window: Branch) -> bool:
    """Whether a compaction's request contains the whole current history of a window. A client could otherwise have any
    other text, or only the beginning of the window, summarized under the session's name.
    """
    return branch.kind is BranchKind.COMPACTION and window.count_shared(branch.chains) >= max(
        1, len(window.chains) - AMENDED
    )


def carries(read: Transcript, reply: str) -> bool:
    """Whether the first messages of a history contain at least half of the lines, by length, of a reply's summary."""
    summary = reply.rpartition(OPENING_TAG)[2]
    lines = {line for line in _lines(summary) if len(line) >= SHORTEST}
    first = (read.message(index).get("content") for index in range(min(OPENING, len(read.messages))))
    contained = lines.intersection(line for content in first for text in texts_in(content) for line in _lines(text))
    shared = sum(map(len, contained))
    return shared >= LEAST and 2 * shared >= sum(map(len, lines))


def _lines(text: str) -> Iterator[str]:
    return (" ".join(line.split()) for line in text.splitlines())
