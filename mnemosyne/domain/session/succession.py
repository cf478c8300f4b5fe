"""Whether a history that begins with a summary holds the one that was made of a window: then its caller knows that.

Clients put a frame around the summary, and leave out its tags; its lines they keep.
"""

from collections.abc import Iterator

from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.session.state import Branch
from mnemosyne.domain.wire.transcript import Transcript

LEAST = 100
"""Characters of a summary below which it proves nothing: it may have been guessed."""

SHORTEST = 20
"""Characters of a line below which others may write it too."""

OPENING = 3
"""Messages at the beginning of a history in which its summary stands."""


AMENDED = 2
"""Messages at the end of a window that the request for its summary may lack: clients amend the last ones for it."""

OPENING_TAG = "<summary>"
"""Behind this is what Claude Code keeps of the reply; before it the model thinks aloud."""


def sums_up(branch: Branch, window: Branch) -> bool:
    """Whether a summary was asked for with all that a window holds by now. Anybody can have something else summed up in
    a session's name, or the beginning of it.
    """
    return branch.kind is BranchKind.COMPACTION and window.count_shared(branch.chains) >= max(
        1, len(window.chains) - AMENDED
    )


def carries(read: Transcript, reply: str) -> bool:
    """Whether a history begins with half of the lines, by length, of the summary in a reply, or more."""
    summary = reply.rpartition(OPENING_TAG)[2]
    said = {line for line in _lines(summary) if len(line) >= SHORTEST}
    held = said.intersection(line for text in _texts(read) for line in _lines(text))
    shared = sum(map(len, held))
    return shared >= LEAST and 2 * shared >= sum(map(len, said))


def _lines(text: str) -> Iterator[str]:
    return (" ".join(line.split()) for line in text.splitlines())


def _texts(read: Transcript) -> Iterator[str]:
    for index in range(min(OPENING, len(read.messages))):
        content = read.message(index).get("content")
        if isinstance(content, str):
            yield content
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and isinstance(block.get("text"), str):
                yield block["text"]
