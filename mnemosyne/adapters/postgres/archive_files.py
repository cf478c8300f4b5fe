"""The archive files of contents, and deletion of those that this log wrote."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from mnemosyne.adapters.postgres.content_store import ARCHIVED, Reference
from mnemosyne.adapters.postgres.database import Connection
from mnemosyne.errors import BadConfiguration, LogFailed
from mnemosyne.services.archiving import is_archive_of
from mnemosyne.services.export_format import read_header

_HEADER_BYTES = 4096


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
