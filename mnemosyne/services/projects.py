"""Finding the sessions of a project."""

from uuid import UUID

from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.wire.project import is_within, project_of
from mnemosyne.errors import ContentForgotten
from mnemosyne.services import contexts
from mnemosyne.services.sessions import Archive

_FIRST_EVENTS, _FIRST_ATTEMPTS = 60, 5
"""Events and attempts searched for the project. Some clients ask for a title first."""


async def sessions_in(archive: Archive, folder: str) -> list[UUID]:
    """The sessions whose client worked in a folder, or below it."""
    return [stream for stream in await archive.events.streams() if await _is_in(archive, stream, folder)]


async def _is_in(archive: Archive, stream: UUID, folder: str) -> bool:
    history = history_of(str(stream), await archive.events.read(stream, upto=_FIRST_EVENTS))
    for attempt in history.attempts[:_FIRST_ATTEMPTS]:
        try:
            project = project_of((await contexts.rebuild(archive, stream, history, attempt)).body)
        except ContentForgotten:
            return False
        if project is not None:
            return is_within(project, folder)
    return False
