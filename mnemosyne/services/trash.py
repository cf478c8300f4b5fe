"""The trash: sessions and entries that a person removed, hidden and restorable until retention erases them."""

from uuid import UUID

import attrs

from mnemosyne.domain.knowledge.decide import Place, TrashEntry, UndoWrite
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.knowledge.state import Entry
from mnemosyne.domain.session.decide import TrashSession
from mnemosyne.domain.session.retention import DAY, TRASH_DAYS, has_expired
from mnemosyne.errors import Ambiguous, NotFound
from mnemosyne.services import memories, overviews
from mnemosyne.services.forgetting import read_last_active
from mnemosyne.services.knowledge import WriteStamp, erase_entries
from mnemosyne.services.sessions import Archive, find_own, read_trashed


@attrs.frozen(kw_only=True)
class Trashed:
    """A session or an entry (``kind``) in the trash since ``at``, with its title or text. Retention erases it after
    ``until``. Times are µs of UTC.
    """

    kind: str
    id: str
    text: str
    at: int

    @property
    def until(self) -> int:
        return self.at + TRASH_DAYS * DAY


async def list_trash(archive: Archive, tenant: str) -> list[Trashed]:
    """What is in a tenant's trash, the last first."""
    found = [
        Trashed(kind="entry", id=each.id, text=each.content, at=each.trashed_at)
        for _, each in await _entries(archive, tenant)
        if each.trashed_at is not None
    ]
    for stream, at in (await read_trashed(archive)).items():
        found.append(Trashed(kind="session", id=str(stream), text=await overviews.read_title(archive, stream), at=at))
    return sorted(found, key=lambda each: each.at, reverse=True)


async def put_away(archive: Archive, tenant: str, wanted: str, stamp: WriteStamp) -> Trashed:
    """Put a session, or the entry with this id, into the trash. Raises NotFound."""
    for place, entry in await _entries(archive, tenant):
        if entry.id == wanted:
            if entry.trashed_at is None:
                command = TrashEntry(at=stamp.at, write=stamp.id, wanted=wanted)
                await KnowledgeStore(archive.events, archive.journal).write(place, command, stamp.id)
            return Trashed(kind="entry", id=wanted, text=entry.content, at=entry.trashed_at or stamp.at)
    stream = await _find_session(archive, wanted)
    if stream not in await read_last_active(archive):
        raise NotFound(f"Session {stream} is forgotten: there is nothing to restore.")
    await _switch(archive, stream, stamp, trashed=True)
    since = (await read_trashed(archive)).get(stream, stamp.at)
    return Trashed(kind="session", id=str(stream), text=await overviews.read_title(archive, stream), at=since)


async def take_out(archive: Archive, tenant: str, wanted: str, stamp: WriteStamp) -> Trashed:
    """Take a session or an entry out of the trash. Raises NotFound if it is not there."""
    held = await list_trash(archive, tenant)
    found = next((each for each in held if each.id == wanted), None)
    if found is None:
        stream = str(await _find_session(archive, wanted))
        found = next((each for each in held if each.id == stream), None)
    if found is None:
        raise NotFound(f"{wanted!r} is not in the trash; `mnemosyne trash --list` shows what is.")
    if found.kind == "session":
        await _switch(archive, UUID(found.id), stamp, trashed=False)
        return found
    for place, entry in await _entries(archive, tenant):
        if entry.id == found.id and entry.ended_by is not None:
            command = UndoWrite(at=stamp.at, write=stamp.id, undone=entry.ended_by)
            await KnowledgeStore(archive.events, archive.journal).write(place, command, stamp.id)
    return found


async def _find_session(archive: Archive, wanted: str) -> UUID:
    """The session that is wanted, after no entry was. Raises NotFound."""
    try:
        return await find_own(archive, wanted)
    except Ambiguous:
        raise
    except NotFound:
        raise NotFound(f"There is no session {wanted!r} and no memory entry with this id.") from None


async def _switch(archive: Archive, stream: UUID, stamp: WriteStamp, *, trashed: bool) -> None:
    await memories.decide(archive, stream, lambda _: TrashSession(at=stamp.at, trashed=trashed), stamp.id)


async def erase_expired_entries(archive: Archive, tenant: str, stamp: WriteStamp, *, dry_run: bool = False) -> int:
    """Erase the text of a tenant's entries whose time in the trash is over; return their number."""
    expired: dict[Place, set[str]] = {}
    for place, each in await _entries(archive, tenant):
        if has_expired(each.trashed_at, stamp.at):
            expired.setdefault(place, set()).add(each.id)
    for place, entries in expired.items():
        if not dry_run:
            await erase_entries(KnowledgeStore(archive.events, archive.journal), place, frozenset(entries), stamp)
    return sum(map(len, expired.values()))


async def _entries(archive: Archive, tenant: str) -> list[tuple[Place, Entry]]:
    """All entries of a tenant, with their places."""
    store = KnowledgeStore(archive.events, archive.journal)
    known = await store.read_all(await store.list_places(tenant))
    return [(place, entry) for place, each in known for entry in each.entries.values()]
