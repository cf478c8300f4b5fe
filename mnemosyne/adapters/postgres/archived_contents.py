"""Moves contents between the database and archive files."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres.archive_files import files_of, log_id, own_files_of
from mnemosyne.adapters.postgres.content_store import ARCHIVED, STATEMENT_BYTES, Packed, Reference, pack, unpack
from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.domain.ports import Content
from mnemosyne.errors import ContentForgotten
from mnemosyne.services.archiving import Moved
from mnemosyne.services.export_format import FramePlace
from mnemosyne.zstd import ZstdCompressor

_SECONDS = 120.0
_ZSTD_LEVEL = 3


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
        " where held.stream = %b and held.digest = new.digest"
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
