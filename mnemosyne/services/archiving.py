"""Moves a session's contents into an archive file outside the database, from where they are read, and back."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.errors import BadConfiguration
from mnemosyne.services.export_format import DamagedFile, ExportCodec, FramePlace, Reader
from mnemosyne.services.exporting import check
from mnemosyne.services.sessions import Archive


@attrs.frozen
class Moved:
    """The number of contents moved out of the database, and the bytes freed there."""

    pieces: int
    freed: int


class ArchivedContents(Protocol):
    """The contents of sessions that are stored in files. Every call raises LogFailed."""

    async def files(self, stream: UUID) -> Sequence[str]:
        """The files that hold contents of a session."""

    async def own_files(self, stream: UUID) -> Sequence[str]:
        """The files among them that this log wrote. Only these may be deleted."""

    async def log_id(self) -> UUID:
        """The identity of the log, which its archive files carry."""

    async def put(self, stream: UUID, file: str, places: Mapping[bytes, FramePlace]) -> Moved:
        """Read these contents of a session from a file from now on: all of them or none. A content smaller than its
        frame stays in the database. Raises ContentForgotten if one of them was erased.
        """

    async def take(self, stream: UUID) -> int:
        """Move some of a session's contents back in one transaction; return how many, 0 if no file holds any. Raises
        ContentMissing if a file cannot be read.
        """


def name_file(stream: UUID, events: int) -> str:
    """The archive file's name for a session with this number of events."""
    return f"{stream}-{events}.jsonl"


def is_archive_of(file: str, stream: UUID) -> bool:
    """Whether a path could be the session's file, named by ``name_file``."""
    path = PurePath(file)
    return path.is_absolute() and re.fullmatch(rf"{stream}-[0-9]+\.jsonl", path.name) is not None


async def find_archives(archived: ArchivedContents, streams: Iterable[UUID]) -> list[str]:
    """The files that hold contents of these sessions."""
    return [file for stream in streams for file in await archived.files(stream)]


async def shelve(archive: Archive, archived: ArchivedContents, stream: UUID, file: Path, codec: ExportCodec) -> Moved:
    """Move a session's contents into a written, durable file, after reading it back and rebuilding every body from it.
    Earlier archive files of this log are deleted.

    Raises BadConfiguration if the file is another log's or session's, or incomplete; OSError if an earlier file cannot
    be deleted; and what ``archived`` raises.
    """
    before = await archived.own_files(stream)
    try:
        reader = Reader(file, codec)
        check(reader, file)
        exported = [part.envelope for part in reader.parts()]
    except DamagedFile:
        raise BadConfiguration(
            f"{file} is damaged or incomplete, so nothing was moved. Remove the file and try again."
        ) from None
    held = await archive.events.read(stream, upto=len(exported))
    if reader.header.session != stream or exported != [each.envelope for each in held]:
        raise BadConfiguration(f"{file} does not match session {stream}, so nothing was moved. Use another folder.")
    # A file of an earlier version names no log: it is ours if our rows already refer to it.
    if reader.header.log != await archived.log_id() and (reader.header.log is not None or str(file) not in before):
        raise BadConfiguration(f"{file} was written by another log, so nothing was moved. Use another folder.")
    moved = await archived.put(stream, str(file), reader.packed)
    _delete({*before} - {str(file)})
    return moved


def _delete(files: Iterable[str]) -> None:
    for each in files:
        Path(each).unlink(missing_ok=True)


async def restore_files(
    archive: Archive, archived: ArchivedContents, stream: UUID, progress: Callable[[int, int], None]
) -> int:
    """Read archived contents from their files back into the database; return how many pieces. The next call continues
    after a crash. The files stay. ``progress`` gets the pieces restored so far and their total. Raises LogFailed.
    """
    sizes = await archive.events.sizes(stream)
    restored = 0
    while pieces := await archived.take(stream):
        restored += pieces
        progress(restored, sizes[stream].archived)
    return restored
