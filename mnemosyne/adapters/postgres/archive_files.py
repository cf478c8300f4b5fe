"""Archive files as rows of content refer to them: where a content is, and which files this log wrote and may delete."""

import base64
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres.database import Connection
from mnemosyne.errors import BadConfiguration, LogFailed
from mnemosyne.services.archiving import is_archive_of
from mnemosyne.services.export_format import read_header

ARCHIVED = 2
"""The encoding of a row that holds an encoded ``Reference``."""

_HEADER_BYTES = 4096


@attrs.frozen
class Reference:
    """Where a content is: in a ``file``, from ``at`` on, ``length`` bytes of base64, which are a frame of zstd.

    ``log`` is the identity of the log that wrote the file; None in the backup of a version that recorded none.
    """

    file: str
    at: int
    length: int
    log: str | None

    def encode(self) -> bytes:
        """As its row holds it."""
        parts = [self.file, self.at, self.length, *([] if self.log is None else [self.log])]
        return json.dumps(parts, ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Reference":
        """The reference that ``encode`` wrote. Raises ValueError for anything else."""
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
        """The frame. Raises OSError, and ValueError where the file does not hold it."""
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


def log_id(connection: Connection) -> UUID:
    """The identity of the log in this database."""
    row = connection.execute("select id from mnemosyne.log_identity").fetchone()
    assert row is not None
    return UUID(str(row[0]))


def files_of(connection: Connection, stream: UUID) -> list[str]:
    """The files that hold archived contents of a stream, except those of damaged rows."""
    return sorted({reference.file for _, reference in _references(connection, stream)})


def own_files_of(connection: Connection, stream: UUID) -> list[str]:
    """Those of a stream's files that this log wrote, by the reference and by the file itself. A missing file is one."""
    log = log_id(connection)
    files = {reference.file for _, reference in _references(connection, stream) if reference.log == str(log)}
    return sorted(file for file in files if _is_own(file, stream, log))


def delete_own_files(connection: Connection, stream: UUID) -> None:
    """Delete the archive files of a stream that this log wrote; a file of any other origin stays. Raises LogFailed
    where one cannot be deleted from here; nothing is deleted before every folder was found.
    """
    own = [Path(file) for file in own_files_of(connection, stream)]
    for file in own:
        if not file.parent.is_dir():
            raise LogFailed(f"Session {stream} is archived in {file}, a folder that is not there; nothing was erased.")
    for file in own:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise LogFailed(f"The archived session's file {file} cannot be erased: {reason}.") from None


def refuse_foreign_references(connection: Connection) -> None:
    """Raise BadConfiguration where a content of the log refers to a file that is no archive of its session by name."""
    for stream, reference in _references(connection, None):
        if not is_archive_of(reference.file, stream):
            raise BadConfiguration(
                f"The backup cannot be used: it refers to {reference.file!r}, which is no archive of session {stream}."
            )


def _is_own(file: str, stream: UUID, log: UUID) -> bool:
    """Whether a file that a reference of ours names is, as it is now, an archive that this log wrote."""
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
    # Files of earlier versions name no log: the reference, which the migration marked, decides alone.
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
