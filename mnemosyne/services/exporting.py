"""Exports a session from the log into a file, and imports a file into a log."""

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import IO, TypeVar
from uuid import UUID

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.history.verification import Discrepancy, Verifier
from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.ports import Append, Content, Recorded
from mnemosyne.domain.session.decide import NoteImport
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import Event, EventLost, SessionForgotten, SessionImported, SessionStarted
from mnemosyne.domain.session.redaction import is_whole
from mnemosyne.errors import BadConfiguration, ContentForgotten, ContentMissing, LogDamaged, MnemosyneError
from mnemosyne.services import export_format, redacting, sessions, switching
from mnemosyne.services.export_format import DamagedFile, ExportCodec, Header, Reader
from mnemosyne.services.redacting import RedactedSession
from mnemosyne.services.sessions import Archive

Item = TypeVar("Item")

CHUNK_BYTES = 4 * 1024 * 1024
CHUNK_EVENTS = 500
"""Limits of one fetch or of one transaction."""


@attrs.frozen
class Exported:
    """The result of an export: events and bytes written, and places where credentials were ``masked``."""

    session: UUID
    events: int
    bytes: int
    masked: int = 0


class SessionExists(MnemosyneError):
    """The log holds another session under this id."""


# Export


async def write_session(
    archive: Archive,
    session: str,
    file: IO[bytes],
    codec: ExportCodec,
    *,
    redact: bool = False,
    log: UUID | None = None,
) -> Exported:
    """Write a session's file; with ``redact``, without the credentials in its content; as the archive of a ``log``,
    with each content packed. Raises NotFound, ContentForgotten, OSError.
    """
    stream = await sessions.find(archive, session)
    copy = await _write_copy(archive, stream) if redact else None
    written = events = 0
    async with aclosing(export(archive, stream, codec, copy, log=log)) as lines:
        async for line in lines:
            file.write(line)
            written += len(line)
            events += export_format.is_event(line)
    file.flush()
    return Exported(stream, events, written, 0 if copy is None else copy.masked)


async def _write_copy(archive: Archive, stream: UUID) -> RedactedSession:
    await _check_not_forgotten(archive, stream)
    events = await archive.events.read(stream)
    return await redacting.redact(archive.contents, stream, events, await _find_lost(archive, stream, events))


async def export(
    archive: Archive,
    stream: UUID,
    codec: ExportCodec,
    copy: RedactedSession | None = None,
    *,
    log: UUID | None = None,
) -> AsyncGenerator[bytes]:
    """The lines of the session's file, or of a redacted ``copy``. Raises ContentForgotten before the first line if a
    content is missing.
    """
    await _check_not_forgotten(archive, stream)
    events = copy.events if copy is not None else await archive.events.read(stream)
    store = copy or archive.contents
    lost = await _find_lost(archive, stream, events) if copy is None else copy.lost
    named = _find_first_names(events, lost)
    begun = (each.envelope.event for each in events if isinstance(each.envelope.event, SessionStarted))
    since = await switching.find_import(archive, next((each.tenant for each in begun), ""), stream)
    yield export_format.header_line(Header(stream, len(events), sum(map(len, named.values())), since, log))
    for chunk in _chunks(events, lambda each: time_travel.new_bytes(each.envelope.event)):
        contents = await store.fetch(stream, [digest for each in chunk for digest in named[each.version]])
        for each in chunk:
            for digest in named[each.version]:
                yield export_format.content_line(Content(digest, contents[digest]), packed=log is not None)
            yield export_format.event_line(each.version, each.envelope, codec)


async def _check_not_forgotten(archive: Archive, stream: UUID) -> None:
    sizes = (await archive.events.sizes(stream)).get(stream)
    if sizes is not None and sizes.forgotten:
        raise ContentForgotten(f"Session {stream} was forgotten: there is nothing left to export.")


async def _find_lost(archive: Archive, stream: UUID, events: Sequence[Recorded[Event]]) -> set[bytes]:
    """The missing texts of renditions: early exports were written without them."""
    named = {each.envelope.event.text for each in events if isinstance(each.envelope.event, ObjectSummarized)}
    if await _are_held(archive, stream, sorted(named)):
        return set()
    return {digest for digest in named if not await _are_held(archive, stream, [digest])}


async def _are_held(archive: Archive, stream: UUID, digests: Sequence[bytes]) -> bool:
    try:
        await archive.contents.fetch(stream, digests)
    except ContentMissing:
        return False
    return True


def _find_first_names(events: Sequence[Recorded[Event]], lost: Collection[bytes]) -> dict[int, list[bytes]]:
    """For each event, the contents that it is the first to name, without the lost ones."""
    seen: set[bytes] = set(lost)
    named: dict[int, list[bytes]] = {}
    for each in events:
        new = [digest for digest in time_travel.digests_of(each.envelope.event) if digest not in seen]
        named[each.version] = new
        seen.update(new)
    return named


def _chunks(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Events in groups whose contents fit into memory, or into one transaction, together."""
    chunk: list[Item] = []
    room = CHUNK_BYTES
    for each in items:
        chunk.append(each)
        room -= size(each)
        if room <= 0 or len(chunk) == CHUNK_EVENTS:
            yield chunk
            chunk, room = [], CHUNK_BYTES
    if chunk:
        yield chunk


# Import


@attrs.frozen
class Importing:
    """The tenant that a session is imported for, and the time of the import in µs of UTC."""

    tenant: str
    at: int
    correlation_id: str


@attrs.frozen
class Imported:
    """The result of an import: ``added`` of the file's ``events`` were new to the log."""

    session: UUID
    events: int
    added: int


async def import_file(
    archive: Archive,
    path: Path,
    codec: ExportCodec,
    importing: Importing,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Import a file's session under its own id. Nothing is written before the whole file is checked: its hashes, and
    that every body can be rebuilt. If the log already holds the beginning of the session, as after an interrupted
    import, the rest is added.

    A session of another tenant is refused. The import itself is recorded first. Raises DamagedFile, SessionExists,
    BadConfiguration.
    """
    reader = Reader(path, codec)
    check(reader, path)
    check_own(reader, path, importing.tenant)
    stream = reader.header.session
    held = await archive.events.read(stream)
    _check_beginning(reader, held)
    version = len(held)
    if version < reader.header.events:
        await _note(archive, stream, importing)
    missing = (part for part in reader.parts() if part.version > len(held))
    for parts in _chunks(missing, lambda part: sum(len(content.data) for content in part.contents)):
        contents = tuple(content for part in parts for content in part.contents)
        append = Append(stream, version, tuple(part.envelope for part in parts), contents)
        version = await archive.journal.append(append)
        if progress is not None:
            progress(version, reader.header.events)
    return Imported(stream, reader.header.events, version - len(held))


def check(reader: Reader, path: Path) -> None:
    """Rebuild every body from the file's contents. Raises DamagedFile."""
    stream = reader.header.session
    # Without their contents, which are read again when needed.
    parts = {part.version: attrs.evolve(part, contents=()) for part in reader.parts()}
    events = [Recorded(stream, version, version, part.envelope) for version, part in parts.items()]
    try:
        history = history_of(str(stream), events)
    except LogDamaged as error:
        raise DamagedFile(f"{path}: {error}. Nothing was imported.") from None
    for task in Verifier(history).tasks():
        difference = task if isinstance(task, Discrepancy) else task.check(reader.fetch(list(task.needs)).__getitem__)
        if difference is not None:
            line = parts[difference.attempt.version].line
            raise DamagedFile(f"{path}, line {line}: {difference.sentence}. Nothing was imported.")


async def _note(archive: Archive, stream: UUID, importing: Importing) -> None:
    if await switching.find_import(archive, importing.tenant, stream) is None:
        command = NoteImport(at=importing.at, session=stream)
        await switching.note_import(archive, importing.tenant, command, importing.correlation_id)


_BEFORE = (EventLost, SessionForgotten)
"""Events before the start of a session that was damaged, deleted and restarted."""


def check_own(reader: Reader, path: Path, tenant: str) -> None:
    """Check that a file's events form one session of this tenant, under the id derived from its client's name, and that
    no event belongs to another session. Raises DamagedFile, BadConfiguration.
    """
    own: SessionStarted | None = None
    events = []
    for part in reader.parts():
        event = part.envelope.event
        events.append(event)
        if isinstance(event, SessionStarted):
            if event.tenant != tenant:
                raise BadConfiguration(
                    f"The session belongs to tenant {event.tenant}, but the settings name {tenant}: use --tenant. "
                    "Nothing was imported."
                )
            own = event
        named = own is None or stream_of(tenant, own.external_id) == reader.header.session
        if isinstance(event, SessionImported) or not named or (own is None and not isinstance(event, _BEFORE)):
            raise DamagedFile(
                f"{path}, line {part.line}: the event does not belong to this session. Nothing was imported."
            )
    if own is None or not is_whole(events):
        raise DamagedFile(f"{path}: its events do not form a complete session. Nothing was imported.")


def _check_beginning(reader: Reader, held: Sequence[Recorded[Event]]) -> None:
    """Check that the log's events equal the file's, as far as both go."""
    if not held:
        return
    for part, each in zip(reader.parts(), held, strict=False):
        if part.envelope != each.envelope:
            raise SessionExists(
                f"Session {reader.header.session} already exists and differs from the file from event {part.version} "
                "on. Nothing was imported."
            )
