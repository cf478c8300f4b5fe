"""Backup of the log: every event and content of one snapshot in a file, and its restoration into an empty database.

The projections are rebuilt after a restoration. Unlike a ``pg_dump``, a file does not depend on the release of
PostgreSQL and the schema of pgvector.

The file begins with a line of JSON (``Heading``). Pieces follow: one byte with the kind, four with the length (big
endian), and the data. The pieces of a table are the output of ``COPY ... (FORMAT BINARY)``. The last piece is JSON with
the number of rows and the SHA-256 of all bytes before it.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

import attrs

from mnemosyne import __version__
from mnemosyne.adapters.postgres.archive_files import refuse_foreign_references
from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.errors import BadConfiguration

FORMAT = 1
"""The version of the file format."""

LARGEST_PIECE = 1024 * 1024 * 1024
"""Bytes; PostgreSQL's limit of a row, which is a piece."""

SECONDS = 24 * 3600.0
"""The time limit of a backup or restoration."""

_PIECE = struct.Struct(">BI")
_END = 0
_TABLES = {
    1: (
        "mnemosyne.stored_events",
        "(originator_id, originator_version, topic, state, notification_id)",
        "notification_id",
    ),
    2: ("mnemosyne.content", "(stream, size, encoding, digest, data)", "stream, digest"),
}
"""By kind of piece: the table, its columns, and the order of its rows."""

Progress = Callable[[int], None]
"""Receives the number of bytes written or read."""


@attrs.frozen(kw_only=True)
class Heading:
    """The first line: the ``format``, the ``version`` of Mnemosyne that wrote the file, and the time (µs of UTC)."""

    format: int
    version: str
    at: int


@attrs.frozen(kw_only=True)
class BackupContents:
    """The rows of events and contents in a file, and its bytes."""

    events: int
    contents: int
    bytes: int


async def write_backup(database: Database, file: IO[bytes], at: int, progress: Progress) -> BackupContents:
    """Write a snapshot of the log of all tenants to a file. Raises OSError and errors of ``Database.run``."""
    return await database.run(_write, file, at, progress, deadline=SECONDS)


async def read_backup(database: Database, file: IO[bytes], progress: Progress) -> None:
    """Restore a file, after ``check_backup``, into an empty log in one transaction.

    The log gets a new identity, so that it deletes no archive of the original. Raises BadConfiguration if the log is
    not empty or the file refers to a foreign file, and errors of ``Database.run``.
    """
    await database.run(_read, file, progress, deadline=SECONDS)


def check_backup(file: IO[bytes], progress: Progress) -> BackupContents:
    """Read and verify a whole file. Raises BadConfiguration if it is not a backup, of an unknown format, or damaged."""
    hashed, size = hashlib.sha256(_heading_line(file)), 0
    for kind, data in _pieces(file):
        if kind == _END:
            return _judge_end(data, hashed.hexdigest(), file.tell())
        hashed.update(_PIECE.pack(kind, len(data)) + data)
        size += len(data)
        progress(size)
    raise _unusable("it is incomplete")


def _judge_end(data: bytes, sha256: str, size: int) -> BackupContents:
    with suppress(ValueError, KeyError, TypeError):
        end = json.loads(data)
        if end["sha256"] == sha256:
            return BackupContents(events=end["events"], contents=end["contents"], bytes=size)
    raise _unusable("it is damaged: its hash does not match")


def _write(connection: Connection, file: IO[bytes], at: int, progress: Progress) -> BackupContents:
    connection.execute("set transaction isolation level repeatable read, read only")
    _allow_time(connection)
    heading = attrs.asdict(Heading(format=FORMAT, version=__version__, at=at))
    writer = _Writer(file, progress)
    writer.write(json.dumps({"mnemosyne_backup": heading}).encode() + b"\n")
    rows: list[int] = []
    for kind, (table, columns, order) in _TABLES.items():
        names = columns.strip("()")
        with connection.cursor() as cursor:
            query = f"copy (select {names} from {table} order by {order}) to stdout (format binary)"
            with cursor.copy(query.encode()) as copy:
                for data in copy:
                    writer.write(_PIECE.pack(kind, len(data)) + data)
            rows.append(cursor.rowcount)
    end = {"events": rows[0], "contents": rows[1], "sha256": writer.hashed.hexdigest()}
    data = json.dumps(end).encode()
    writer.write(_PIECE.pack(_END, len(data)) + data)
    return BackupContents(events=rows[0], contents=rows[1], bytes=writer.size)


class _Writer:
    def __init__(self, file: IO[bytes], progress: Progress) -> None:
        self.hashed = hashlib.sha256()
        self.size = 0
        self._file = file
        self._progress = progress

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.hashed.update(data)
        self.size += len(data)
        self._progress(self.size)


def _read(connection: Connection, file: IO[bytes], progress: Progress) -> None:
    _allow_time(connection)
    connection.execute("lock table mnemosyne.stored_events, mnemosyne.content in exclusive mode")
    _refuse_rows(connection)
    file.seek(0)
    _heading_line(file)
    pieces = _pieces(file)
    kind, data = next(pieces)
    size = 0
    while kind != _END:
        table, columns, _ = _TABLES[kind]
        with (
            connection.cursor() as cursor,
            cursor.copy(f"copy {table} {columns} from stdin (format binary)".encode()) as copy,
        ):
            current = kind
            while kind == current:
                copy.write(data)
                size += len(data)
                progress(size)
                kind, data = next(pieces)
    refuse_foreign_references(connection)
    connection.execute("update mnemosyne.log_identity set id = gen_random_uuid()")
    connection.execute(
        "select setval(pg_get_serial_sequence('mnemosyne.stored_events', 'notification_id'), max(notification_id)) "
        "from mnemosyne.stored_events having count(*) > 0"
    )


def _refuse_rows(connection: Connection) -> None:
    rows = connection.execute(
        "select exists (select from mnemosyne.stored_events) or exists (select from mnemosyne.content)"
    ).fetchone()
    if rows is not None and rows[0]:
        raise BadConfiguration(
            "The database already has a log, and a backup can only be restored into an empty one. "
            "Name another with --data-dir or --dsn."
        )


def _allow_time(connection: Connection) -> None:
    names = ("statement_timeout", "idle_in_transaction_session_timeout")
    connection.execute("; ".join(f"set local {name} = 0" for name in names).encode())


def _heading_line(file: IO[bytes]) -> bytes:
    line = file.readline(4096)
    try:
        heading = Heading(**json.loads(line)["mnemosyne_backup"])
    except (ValueError, KeyError, TypeError):
        raise _unusable("it is not a backup of Mnemosyne") from None
    if heading.format != FORMAT:
        raise _unusable(
            f"its format is {heading.format}, written by Mnemosyne {heading.version}, and this version "
            f"({__version__}) reads {FORMAT}; use the newer version"
        )
    return line


def _pieces(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Each piece up to the last. Raises BadConfiguration if one is invalid."""
    last = 1
    while True:
        head = file.read(_PIECE.size)
        if len(head) < _PIECE.size:
            raise _unusable("it is incomplete")
        kind, length = _PIECE.unpack(head)
        if length > LARGEST_PIECE or (kind != _END and (kind not in _TABLES or kind < last)):
            raise _unusable("it is damaged")
        last = kind
        data = file.read(length)
        if len(data) < length:
            raise _unusable("it is incomplete")
        yield kind, data
        if kind == _END:
            return


def _unusable(why: str) -> BadConfiguration:
    return BadConfiguration(f"The backup cannot be used: {why}.")
