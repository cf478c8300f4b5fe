"""A person names, closes or reopens a session, or chooses its grounding."""

from uuid import UUID

from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.decide import EditSession
from mnemosyne.domain.session.events import SessionForgotten, TurnBegan
from mnemosyne.domain.session.round_events import SessionEdited
from mnemosyne.errors import BadEntry, ContentForgotten
from mnemosyne.services import memories
from mnemosyne.services.knowledge import WriteStamp
from mnemosyne.services.sessions import Archive, find_own

LONGEST_TITLE = 100
"""Characters of a session's name."""


async def edit(
    archive: Archive,
    wanted: str,
    *,
    title: str | None = None,
    closed: bool | None = None,
    grounding: str | None = None,
    stamp: WriteStamp,
) -> tuple[UUID, bool]:
    """Edit a session; None leaves a value as it is. ``title``: empty if it has none of its own. ``closed``: until its
    next turn. ``grounding``: of its next requests, empty for the server's. Return its id, and whether anything changed.
    Raises NotFound, ContentForgotten, and BadEntry for a name that is too long.
    """
    line = None if title is None else " ".join(sanitize.text(title).split())
    if line is not None and len(line) > LONGEST_TITLE:
        raise BadEntry(f"A session's name has at most {LONGEST_TITLE} characters, not {len(line)}.")
    stream = await find_own(archive, wanted)
    recorded = await archive.events.select(stream, {SessionForgotten, TurnBegan})
    if recorded and isinstance(recorded[-1].envelope.event, SessionForgotten):
        raise ContentForgotten(f"Session {stream} was forgotten: it has no name any more.")
    command = EditSession(at=stamp.at, title=line, closed=closed, grounding=grounding)
    return stream, bool(await memories.decide(archive, stream, lambda _: command, stamp.id))


def describe_edit(closed: bool | None, grounding: str | None) -> str:
    """The effect of an edit: the session was closed or reopened, its grounding chosen, or else its name changed."""
    if grounding is not None:
        return f"grounding: {grounding or 'as the server'}"
    return {True: "closed", False: "opened", None: "renamed"}[closed]


async def read_grounding(archive: Archive, stream: UUID) -> str:
    """The grounding that a person chose for a session; empty for the server's."""
    edits = [each.envelope.event for each in await archive.events.select(stream, {SessionEdited})]
    chosen = [each.grounding for each in edits if isinstance(each, SessionEdited) and each.grounding is not None]
    return chosen[-1] if chosen else ""
