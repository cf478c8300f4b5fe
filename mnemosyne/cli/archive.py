"""``mnemosyne archive`` and ``mnemosyne unarchive``: the content of sessions in files outside the database."""

import os
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from mnemosyne.adapters.postgres.archived_contents import PostgresArchivedContents
from mnemosyne.app.storage import Storage, event_codec
from mnemosyne.cli.forget import clean_files, print_files, quick_option
from mnemosyne.cli.log_access import json_option, log_of, with_log
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.private_files import private_file
from mnemosyne.cli.settings import log_options
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import bytes_text, plural
from mnemosyne.services import archiving
from mnemosyne.services.archiving import restore_files
from mnemosyne.services.exporting import write_session
from mnemosyne.services.sessions import find
from mnemosyne.services.unstructuring import members

sessions_argument = click.argument("sessions", metavar="SESSION...", nargs=-1, required=True)


@click.command()
@sessions_argument
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Target folder.",
)
@quick_option
@log_options()
@json_option
def archive(sessions: tuple[str, ...], folder: Path, quick: bool, as_json: bool, **options: object) -> None:
    """Move the content of sessions from the database to files in DIR, one for each session. You can list, show, verify,
    search and continue the session as before.

    \b
      mnemosyne archive 319a --to /mnt/archive

    Content is deleted from the database only after every turn has been rebuilt from the file. Keep DIR at a path that
    every server can reach, and back it up: `mnemosyne backup` stores only the paths. `mnemosyne forget` deletes the
    file, unless another log wrote it.
    """
    config = log_of(options)
    folder = folder.resolve()
    try:
        with progress_bar("archive") as progress:
            done, files = with_log(config, lambda storage: _archive(storage, sessions, folder, progress, quick=quick))
    except OSError as error:
        raise BadConfiguration(f"{folder} cannot be written: {error.strerror or error}.") from None
    if as_json:
        print_json({"sessions": done, "files": files})
        return
    for row in done:
        moved = f"{plural(row['pieces'], 'piece')} of content ({bytes_text(row['freed_bytes'])})"
        say(f"session {row['id']}: {moved} moved to {row['file']} ({bytes_text(row['file_bytes'])})")
    print_files(files)


async def _archive(
    storage: Storage, wanted: tuple[str, ...], folder: Path, progress: Any, *, quick: bool
) -> tuple[list[dict[str, Any]], str]:
    done = []
    streams = dict.fromkeys([await find(storage, session) for session in wanted])  # check all before changing any
    _make(folder)
    for number, stream in enumerate(streams, start=1):
        done.append(await _archive_one(storage, stream, folder))
        progress(number, len(streams))
    is_more = any(row["pieces"] for row in done) and not quick
    return done, await clean_files(storage) if is_more else "kept"


async def _archive_one(storage: Storage, stream: UUID, folder: Path) -> dict[str, Any]:
    """Archive a session. Returns its row of the JSON output."""
    events = (await storage.events.sizes(stream))[stream].events
    file = folder / archiving.name_file(stream, events)
    archived = PostgresArchivedContents(storage.files.database)
    if not file.exists():  # else an earlier attempt wrote it, or the session is archived already
        log = await archived.log_id()
        with private_file(file) as opened:
            await write_session(storage, str(stream), opened, event_codec(), log=log)
            os.fsync(opened.fileno())
        _sync(folder)
    moved = await archiving.shelve(storage, archived, stream, file, event_codec())
    return {
        **members(moved, "pieces", freed_bytes="freed"),
        "id": str(stream),
        "file": str(file),
        "file_bytes": file.stat().st_size,
    }


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _sync(folder: Path) -> None:
    """Flush the folder, so that the name of a new file is durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@click.command()
@sessions_argument
@log_options()
@json_option
def unarchive(sessions: tuple[str, ...], as_json: bool, **options: object) -> None:
    """Move the content of archived sessions back into the database.

    \b
      mnemosyne unarchive 319a

    The files stay; delete them when you like, because `forget` no longer tracks them.
    """
    config = log_of(options)
    done = with_log(config, lambda storage: _unarchive(storage, sessions))
    if as_json:
        print_json([{"id": str(stream), "pieces": pieces, "files": files} for stream, pieces, files in done])
        return
    for stream, pieces, files in done:
        if pieces:
            say(f"session {stream}: {plural(pieces, 'piece')} of content moved back; these files are no longer needed:")
            for file in files:
                say(f"  {file}")
        else:
            say(f"session {stream} is not archived")


async def _unarchive(storage: Storage, wanted: tuple[str, ...]) -> list[tuple[UUID, int, list[str]]]:
    archived = PostgresArchivedContents(storage.files.database)
    done = []
    for stream in dict.fromkeys([await find(storage, session) for session in wanted]):
        files = list(await archived.own_files(stream))
        with progress_bar("unarchive") as progress:
            pieces = await restore_files(storage, archived, stream, progress)
        done.append((stream, pieces, files))
    return done
