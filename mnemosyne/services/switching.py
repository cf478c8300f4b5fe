"""The operator's switches: managing on or off, for one session or all, and the record of imported sessions."""

from uuid import UUID

from mnemosyne.domain.session.decide import NoteImport, StartManaging, SwitchManaging
from mnemosyne.domain.session.directory import find_import_time, off_since, operator_stream
from mnemosyne.domain.session.state import Session
from mnemosyne.errors import NotFound
from mnemosyne.services import memories
from mnemosyne.services.sessions import Archive

Switch = SwitchManaging | StartManaging | NoteImport


async def switch_session(
    archive: Archive, stream: UUID, command: SwitchManaging | StartManaging, correlation_id: str
) -> Session:
    """Record the switch for one session, unless it is already set; return the session's state before.

    Events of a concurrent writer are read first. Raises the log's errors, and NotFound for a session that did not
    begin: a stream that began with this event would be listed nowhere.
    """
    if not await archive.events.read(stream, upto=1):
        raise NotFound(f"There is no session {stream}.")
    return await _record(archive, stream, command, correlation_id)


async def switch_all(archive: Archive, tenant: str, command: SwitchManaging, correlation_id: str) -> bool:
    """Record the switch for all sessions of a tenant, unless it is already set; return whether they were off before."""
    return (await _record(archive, operator_stream(tenant), command, correlation_id)).off


async def note_import(archive: Archive, tenant: str, command: NoteImport, correlation_id: str) -> None:
    """Record that a session of a tenant comes from a file."""
    await _record(archive, operator_stream(tenant), command, correlation_id)


async def find_import(archive: Archive, tenant: str, session: UUID) -> int | None:
    """The time when a session of a tenant was imported from a file, in µs of UTC; None if it was not."""
    return find_import_time(
        (each.envelope.event for each in await archive.events.read(operator_stream(tenant))), session
    )


async def all_are_off(archive: Archive, tenant: str) -> bool:
    """Whether managing is off for a whole tenant."""
    return await all_are_off_since(archive, tenant) is not None


async def all_are_off_since(archive: Archive, tenant: str) -> int | None:
    """The time since which it is off, in µs of UTC; None if it is on."""
    return off_since(each.envelope.event for each in await archive.events.read(operator_stream(tenant)))


async def _record(archive: Archive, stream: UUID, command: Switch, correlation_id: str) -> Session:
    before = Session()

    def ask(state: Session) -> Switch:
        nonlocal before
        before = state
        return command

    await memories.decide(archive, stream, ask, correlation_id)
    return before
