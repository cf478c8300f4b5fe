"""Contents in archive files: moving them there and back, and deletion of the files that this log wrote."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres.content_store import ARCHIVED, STATEMENT_BYTES, Packed, Reference, pack, unpack
from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.domain.ports import Content
from mnemosyne.errors import BadConfiguration, ContentForgotten, LogFailed
from mnemosyne.services.archiving import Moved, is_archive_of
from mnemosyne.services.export_format import FramePlace, read_header
from mnemosyne.zstd import ZstdCompressor

_HEADER_BYTES = 4096
_SECONDS = 120.0
_ZSTD_LEVEL = 3


def log_id(connection: Connection) -> UUID:
    """The identity of the log in this database."""
    row = connection.execute("select id from mnemosyne.log_identity").fetchone()
    assert row is not None
    return UUID(str(row[0]))


def files_of(connection: Connection, stream: UUID) -> list[str]:
    return sorted({reference.file for _, reference in _references(connection, stream)})


def own_files_of(connection: Connection, stream: UUID) -> list[str]:
    """The files of a stream that this log wrote, including missing ones."""
    log = log_id(connection)
    files = {reference.file for _, reference in _references(connection, stream) if reference.log == str(log)}
    return sorted(file for file in files if _is_own(file, stream, log))


def delete_own_files(connection: Connection, stream: UUID) -> None:
    """Delete the archive files of a stream that this log wrote. Raises LogFailed if one cannot be deleted; no file is
    deleted if a folder is missing.
    """
    own = [Path(file) for file in own_files_of(connection, stream)]
    for file in own:
        if not file.parent.is_dir():
            raise LogFailed(f"Session {stream} is archived in {file}, whose folder does not exist; nothing was erased.")
    for file in own:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise LogFailed(f"The archived session's file {file} cannot be erased: {reason}.") from None


def refuse_foreign_references(connection: Connection) -> None:
    """Raise BadConfiguration if a content refers to a file that is not named as an archive of its session."""
    for stream, reference in _references(connection, None):
        if not is_archive_of(reference.file, stream):
            raise BadConfiguration(
                f"The backup cannot be used: it refers to {reference.file!r}, which is not an archive of session "
                f"{stream}."
            )


def _is_own(file: str, stream: UUID, log: UUID) -> bool:
    """Whether a file is an archive that this log wrote, or missing."""
    if not is_archive_of(file, stream):
        return False
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return False
        header = read_header(os.read(handle, _HEADER_BYTES).partition(b"\n")[0])
    except (OSError, ValueError):
        return False
    finally:
        os.close(handle)
    # Files of earlier versions name no log: the reference decides.
    return header.session == stream and header.log in (log, None)


def _references(connection: Connection, stream: UUID | None) -> Iterator[tuple[UUID, Reference]]:
    rows = connection.execute(
        "select stream, data from mnemosyne.content"
        " where (%s::uuid is null or stream = %s) and encoding = %s and data is not null",
        (stream, stream, ARCHIVED),
        binary=True,
    )
    for owner, data in rows:
        with suppress(ValueError):
            yield owner, Reference.decode(data)


@attrs.frozen
class PostgresArchivedContents:
    """See services.archiving.ArchivedContents."""

    database: Database

    async def files(self, stream: UUID) -> Sequence[str]:
        return await self.database.run(files_of, stream)

    async def own_files(self, stream: UUID) -> Sequence[str]:
        return await self.database.run(own_files_of, stream)

    async def log_id(self) -> UUID:
        return await self.database.run(log_id)

    async def put(self, stream: UUID, file: str, places: Mapping[bytes, FramePlace]) -> Moved:
        return await self.database.run(_put, stream, file, places, deadline=_SECONDS)

    async def take(self, stream: UUID) -> int:
        return await self.database.run(_take, stream, deadline=_SECONDS)


def _put(connection: Connection, stream: UUID, file: str, places: Mapping[bytes, FramePlace]) -> Moved:
    digests = sorted(places)
    log = str(log_id(connection))
    references = [Reference(file, places[each].at, places[each].length, log).encode() for each in digests]
    # The order of digests is that of commits, which avoids deadlocks.
    held = connection.execute(
        "select octet_length(data) from mnemosyne.content where stream = %s and digest = any(%b)"
        " order by digest for update",
        (stream, digests),
    ).fetchall()
    if (None,) in held:
        raise ContentForgotten(f"Session {stream} was forgotten in the meantime; it is not archived.")
    # A content that is smaller than its reference stays.
    moved = connection.execute(
        "update mnemosyne.content as held set encoding = %b, data = new.data"
        " from unnest(%b::bytea[], %b::bytea[]) as new (digest, data)"
        " where held.stream = %b and held.digest = new.digest and held.data <> new.data"
        " and (held.encoding = %b or octet_length(held.data) > octet_length(new.data))",
        (ARCHIVED, digests, references, stream, ARCHIVED),
    ).rowcount
    (left,) = connection.execute(
        "select coalesce(sum(octet_length(data)), 0)::bigint from mnemosyne.content"
        " where stream = %s and digest = any(%b)",
        (stream, digests),
    ).fetchone() or (0,)
    return Moved(moved, sum(size for (size,) in held) - left)


def _take(connection: Connection, stream: UUID) -> int:
    rows = connection.execute(
        "select digest, size, data from mnemosyne.content where (stream, digest) in (select stream, digest from ("
        " select stream, digest, sum(size) over (order by digest) - size as before from mnemosyne.content"
        " where stream = %s and encoding = %s and data is not null) as archived"
        " where before < %s order by digest limit 1000) order by digest for update",
        (stream, ARCHIVED, STATEMENT_BYTES),
        binary=True,
    ).fetchall()
    compressor = ZstdCompressor(level=_ZSTD_LEVEL)
    packed: list[Packed] = [
        pack(stream, Content(digest, unpack(stream, digest, size, ARCHIVED, data)), compressor)
        for digest, size, data in rows
    ]
    return connection.execute(
        "update mnemosyne.content as held set encoding = new.encoding, data = new.data"
        " from unnest(%b::bytea[], %b::smallint[], %b::bytea[]) as new (digest, encoding, data)"
        " where held.stream = %b and held.digest = new.digest and held.data is not null",
        ([each.digest for each in packed], [each.encoding for each in packed], [each.data for each in packed], stream),
    ).rowcount
