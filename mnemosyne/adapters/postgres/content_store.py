"""Content by SHA-256, compressed if that saves space, and verified when read.

Content belongs to a session (its forks share the stream). The journal writes it in the transaction of the events that
name it. Forgetting keeps the hash in a row without data, a tombstone, so the log stays valid; content that a client
sends again is stored again. The row of archived content refers to a file.
"""

import base64
import binascii
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Literal
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres.batches import EncodedAppend
from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.domain.ports import Content
from mnemosyne.errors import ContentForgotten, ContentMissing, LogFailed
from mnemosyne.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

_RAW, _ZSTD = 0, 1
ARCHIVED = 2
"""The encoding of a row with an encoded ``Reference``."""

# The frame of zstd makes shorter content longer.
_WORTH_COMPRESSING = 128
_ZSTD_LEVEL = 3

STATEMENT_BYTES = 8 * 1024 * 1024
"""The approximate limit of contents in one statement, which both sides buffer."""

_DIGESTS_PER_QUERY = 2_000


class PostgresContentStore:
    """The store in a prepared ``Database`` (ports.ContentStore)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._database.run(_fetch, stream, list(dict.fromkeys(digests)), alone=True)


@attrs.frozen(eq=False)
class Packed:
    """Content as stored in a row. ``size`` counts raw bytes."""

    stream: UUID
    digest: bytes
    size: int
    encoding: int
    data: bytes


@attrs.frozen
class Reference:
    """The place of a zstd frame: ``length`` bytes of base64 at the offset ``at`` of a ``file``. ``log`` is the identity
    of the log that wrote the file, None if unknown.
    """

    file: str
    at: int
    length: int
    log: str | None

    def encode(self) -> bytes:
        parts = [self.file, self.at, self.length, *([] if self.log is None else [self.log])]
        return json.dumps(parts, ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Reference":
        """Decode a reference. Raises ValueError."""
        try:
            file, at, length, *log = json.loads(data)
        except (TypeError, RecursionError):
            raise ValueError("it is not a reference") from None
        if (type(file), type(at), type(length)) != (str, int, int) or at < 0 or length < 0 or "\0" in file:
            raise ValueError("it does not say where in which file")
        if len(log) > 1 or not all(isinstance(each, str) for each in log):
            raise ValueError("it does not say which log wrote the file")
        return cls(file, at, length, log[0] if log else None)

    def read(self) -> bytes:
        """Read the frame. Raises OSError, and ValueError if the file does not contain it."""
        handle = os.open(self.file, os.O_RDONLY | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is no file")
            if self.at + self.length > status.st_size:
                raise ValueError("it ends before that place")
            return base64.b64decode(os.pread(handle, self.length, self.at), validate=True)
        finally:
            os.close(handle)


def pack_contents(batch: Iterable[EncodedAppend]) -> list[Packed]:
    """Verify and compress the contents of a batch. Raises LogFailed if a hash is wrong."""
    compressor = ZstdCompressor(level=_ZSTD_LEVEL)
    packed = {
        (append.stream, content.digest): pack(append.stream, content, compressor)
        for append in batch
        for content in append.contents
    }
    # The same order everywhere avoids deadlocks between transactions that insert the same content.
    return [packed[key] for key in sorted(packed)]


def slices(packed: Sequence[Packed]) -> list[Sequence[Packed]]:
    """Split contents into parts for one statement each; at least one part."""
    found: list[Sequence[Packed]] = []
    start, weight = 0, 0
    for end, content in enumerate(packed):
        weight += len(content.data)
        if weight > STATEMENT_BYTES and end > start:
            found.append(packed[start:end])
            start, weight = end, len(content.data)
    return [*found, packed[start:]]


def hold_sessions(connection: Connection, streams: Iterable[UUID], strength: Literal["share", "update"]) -> None:
    """Lock sessions until the transaction ends: for erasing ("update") or indexing ("share")."""
    connection.execute(
        "select from mnemosyne.stored_events where originator_id = any(%s) and originator_version = 1"
        f" order by originator_id for {strength}".encode(),
        (list(set(streams)),),
    )


def erase_contents(connection: Connection, stream: UUID) -> int:
    """Replace each content of a stream by a tombstone; return their number. Archive files that this log wrote are
    deleted first. Raises LogFailed if one cannot be deleted.
    """
    from mnemosyne.adapters.postgres.archive_files import delete_own_files  # rarely needed

    delete_own_files(connection, stream)
    return connection.execute(
        "update mnemosyne.content set data = null, encoding = 0 where stream = %s and data is not null", (stream,)
    ).rowcount


def pack(stream: UUID, content: Content, compressor: ZstdCompressor) -> Packed:
    """Verify and compress a content. Raises LogFailed if its hash is wrong."""
    data = content.data
    if hashlib.sha256(data).digest() != content.digest:
        raise LogFailed(f"content given as {content.digest.hex()} for session {stream} does not have that hash")
    if len(data) >= _WORTH_COMPRESSING:
        compressed = compressor.compress(data, ZstdCompressor.FLUSH_FRAME)
        if len(compressed) < len(data) * 0.9:
            return Packed(stream, content.digest, len(data), _ZSTD, compressed)
    return Packed(stream, content.digest, len(data), _RAW, data)


def _fetch(connection: Connection, stream: UUID, digests: list[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    with connection.cursor(binary=True) as cursor:
        for start in range(0, len(digests), _DIGESTS_PER_QUERY):
            wanted = digests[start : start + _DIGESTS_PER_QUERY]
            cursor.execute(
                "select digest, size, encoding, data from mnemosyne.content where stream = %s and digest = any(%b)",
                (stream, wanted),
            )
            for digest, size, encoding, data in cursor:
                if data is None:
                    raise ContentForgotten(f"content {digest.hex()} of session {stream} was forgotten")
                found[digest] = unpack(stream, digest, size, encoding, data)
    if len(found) < len(digests):
        missing = [digest for digest in digests if digest not in found]
        raise ContentMissing(
            f"session {stream}: the log names {len(missing)} pieces of content that the store does not hold, "
            f"the first is {missing[0].hex()}; restore the table of content from the same backup as the events"
        )
    return found


def unpack(stream: UUID, digest: bytes, size: int, encoding: int, data: bytes) -> bytes:
    """Decode and verify raw bytes. Raises ContentMissing if they are damaged."""
    if encoding == ARCHIVED:
        encoding, data = _ZSTD, _read_archived(stream, digest, data)
    try:
        raw = ZstdDecompressor().decompress(data, max_length=max(0, size)) if encoding == _ZSTD else data
    except ZstdError:
        raw = b""
    if encoding not in (_RAW, _ZSTD):
        raise ContentMissing(f"content {digest.hex()} of session {stream} is packed in a way that this version lacks")
    if len(raw) != size or hashlib.sha256(raw).digest() != digest:
        raise ContentMissing(f"content {digest.hex()} of session {stream} is damaged: its hash does not match")
    return raw


def _read_archived(stream: UUID, digest: bytes, data: bytes) -> bytes:
    try:
        reference = Reference.decode(data)
    except ValueError:
        raise ContentMissing(
            f"content {digest.hex()} of session {stream} is damaged: its row is no reference"
        ) from None
    try:
        return reference.read()
    except (OSError, ValueError, binascii.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ContentMissing(
            f"content {digest.hex()} of session {stream} is archived in {reference.file}, "
            f"which cannot be read: {reason}"
        ) from None
