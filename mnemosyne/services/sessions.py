"""Finds sessions in the log by any of their names, and reads them."""

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from mnemosyne.domain.history.time_travel import History, history_of
from mnemosyne.domain.ports import ContentStore, EventLog, Journal, Recorded
from mnemosyne.domain.session.directory import Alias, Directory
from mnemosyne.domain.session.events import Event, SessionForgotten, SessionStarted, TurnBegan
from mnemosyne.domain.session.round_events import SessionTrashed
from mnemosyne.errors import Ambiguous, NotFound

log = logging.getLogger(__name__)

_NAMED_AT_MOST = 5

_SURELY_AN_ID = 8
"""Minimum length of an id's beginning that is unique in practice."""


class Archive(Protocol):
    """An open log."""

    @property
    def events(self) -> EventLog[Event]: ...
    @property
    def contents(self) -> ContentStore: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def directory(self) -> Directory: ...


async def find(archive: Archive, wanted: str) -> UUID:
    """The session that a person means: by its id, by the client's name for it or for a branch of it, or by the
    beginning of its id or name. A branch's name is logged.

    Raises NotFound unless exactly one matches.
    """
    exact: list[tuple[UUID, str]] = []
    beginning: list[tuple[UUID, str]] = []
    if not _is_storable(wanted):
        return only(exact, wanted)
    by_id = await archive.events.streams(wanted.lower())
    if len(by_id) == 1 and len(wanted) >= _SURELY_AN_ID:
        return by_id[0]  # without reading the clients' names of all sessions
    if aliases := await _read_aliases(archive, wanted):
        return owner_of(aliases, wanted)
    for first in await archive.events.pick_first():
        began = first.envelope.event
        external_id = began.external_id if isinstance(began, SessionStarted) else ""
        if external_id == wanted:
            exact.append((first.stream, external_id))
        elif first.stream in by_id or external_id.startswith(wanted):
            beginning.append((first.stream, external_id))
    return only(exact or beginning, wanted)


def _is_storable(name: str) -> bool:
    """Whether the database can store such a name: without NUL or lone surrogates."""
    return "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)


async def _read_aliases(archive: Archive, name: str) -> Sequence[Alias]:
    """The branches of the archive's sessions with this client name."""
    found = await archive.directory.aliases(name)
    streams = await archive.events.streams() if found else ()
    return [each for each in found if each.stream in streams]


def owner_of(aliases: Sequence[Alias], wanted: str) -> UUID:
    """The one session whose branches ``wanted`` may mean; the branch is logged. Raises NotFound."""
    stream = only([*dict.fromkeys((each.stream, each.external_id) for each in aliases)], wanted)
    log.warning("%s.", alias_sentence(aliases[-1], wanted))
    return stream


def alias_sentence(alias: Alias, wanted: str) -> str:
    """The sentence about a branch's name that was given for a session."""
    return f"{wanted!r} is branch {alias.branch} of session {alias.stream} ({alias.external_id})"


def only(found: Sequence[tuple[UUID, str]], wanted: str) -> UUID:
    """The one session among the candidates for ``wanted``, each with the client's name for it. Raises NotFound."""
    if not wanted or not found:
        raise NotFound(f"There is no session {wanted!r}; `mnemosyne sessions` lists all.")
    if len(found) > 1:
        names = [f"{stream} ({external_id})" for stream, external_id in found[:_NAMED_AT_MOST]]
        more = f" and {len(found) - _NAMED_AT_MOST} more" if len(found) > _NAMED_AT_MOST else ""
        raise Ambiguous(f"{wanted!r} matches {len(found)} sessions: {', '.join(names)}{more}. Give more of the id.")
    return found[0][0]


async def events_of(archive: Archive, wanted: str) -> tuple[UUID, Sequence[Recorded[Event]]]:
    """The session that a person means, and its events. Raises NotFound."""
    stream = await find(archive, wanted)
    return stream, await archive.events.read(stream)


async def read_history(archive: Archive, wanted: str) -> tuple[UUID, History]:
    """The session that a person means, with its history. Raises NotFound."""
    stream = await find(archive, wanted)
    return stream, await read_stream(archive, stream)


async def read_stream(archive: Archive, stream: UUID) -> History:
    """A session's history. Raises UnknownEvent and LogDamaged for a damaged one."""
    return history_of(str(stream), await archive.events.read(stream))


async def read_trashed(archive: Archive) -> Mapping[UUID, int]:
    """The sessions in the trash, and since when (µs of UTC)."""
    last = [(each.stream, each.envelope.event) for each in await archive.events.pick_last(_DECIDING)]
    return {stream: event.at for stream, event in last if isinstance(event, SessionTrashed) and event.trashed}


_DECIDING = (SessionTrashed, TurnBegan, SessionForgotten)
"""Events of which the last one decides whether a session is in the trash."""


async def find_own(archive: Archive, wanted: str) -> UUID:
    """The session that a person wants to delete: not a branch, because its shared content would be deleted, too. Raises
    NotFound for a branch's name.
    """
    for alias in await _read_aliases(archive, wanted):
        raise NotFound(
            f"{alias_sentence(alias, wanted)}: only whole sessions can be removed. Give the id of the session."
        )
    return await find(archive, wanted)
