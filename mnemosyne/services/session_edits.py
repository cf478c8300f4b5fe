"""A person names a session, or closes it."""

from uuid import UUID

from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import EditSession
from mnemosyne.domain.session.events import SessionForgotten, TurnBegan
from mnemosyne.errors import BadEntry, ContentForgotten
from mnemosyne.services import memories
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.sessions import Archive, find_own

LONGEST_TITLE = 100
"""Characters of a session's name."""


async def edit(
    archive: Archive, wanted: str, *, title: str | None, closed: bool, stamp: WriteStamp
) -> tuple[UUID, bool]:
    """Name a session (None: its name stays; empty: it has none of its own) or close it until its next turn. Return its
    id, and whether anything changed. Raises NotFound, ContentForgotten, and BadEntry for a name that is too long.
    """
    line = None if title is None else " ".join(sanitize.text(title).split())
    if line is not None and len(line) > LONGEST_TITLE:
        raise BadEntry(f"A session's name has at most {LONGEST_TITLE} characters, not {len(line)}.")
    stream = await find_own(archive, wanted)
    recorded = await archive.events.select(stream, {SessionForgotten, TurnBegan})
    if recorded and isinstance(recorded[-1].envelope.event, SessionForgotten):
        raise ContentForgotten(f"Session {stream} was forgotten: it has no name any more.")
    command = EditSession(at=stamp.at, title=line, closed=closed)
    return stream, bool(await memories.decide(archive, stream, lambda _: command, stamp.id))
