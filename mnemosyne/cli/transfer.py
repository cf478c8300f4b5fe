"""``mnemosyne export``, ``import``, ``archive`` and ``unarchive``: sessions in files; ``backup`` and ``restore``."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any
from uuid import UUID

import click
import trio

from mnemosyne.adapters.postgres.archive_files import PostgresArchivedContents
from mnemosyne.adapters.postgres.backup import BackupContents, check_backup, read_backup, write_backup
from mnemosyne.app.process import new_id, now
from mnemosyne.app.storage import Storage, event_codec, open_database, storage_of
from mnemosyne.cli.forget import clean_files, print_files, quick_option
from mnemosyne.cli.log_access import json_option, log_of, prints, session_argument, with_log
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.private_files import private_file
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import bytes_text, plural
from mnemosyne.regular_files import open_regular
from mnemosyne.services import archiving
from mnemosyne.services.archiving import restore_files
from mnemosyne.services.exporting import Importing, import_file, write_session
from mnemosyne.services.sessions import find
from mnemosyne.services.unstructuring import members
from mnemosyne.services.verifying import Verification, verify_sessions

FILE = click.Path(path_type=Path, allow_dash=True)


@contextmanager
def _writing(place: Path | None) -> Iterator[None]:
    """Report a file that cannot be written. Standard output is left to click, because its pipe may be closed."""
    try:
        yield
    except OSError as error:
        if place is None:
            raise
        raise BadConfiguration(f"{place} cannot be written: {error.strerror or error}.") from None


# One session


@click.command()
@session_argument
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file.  [default: standard output]"
)
@click.option("--redact", is_flag=True, help="Mask credentials in the content.")
@log_options()
@json_option
def export(session: str, output: Path | None, redact: bool, as_json: bool, **options: Any) -> None:
    """Write a session with its whole content to a file of JSON lines, which `mnemosyne import` reads.

    \b
      mnemosyne export 319a -o session.jsonl --redact

    --redact masks everything that looks like a credential: provider keys, tokens, private keys, passwords in URLs, and
    values after a word such as `password=`. It cannot detect other passwords, so check the file before you share it.
    """
    if as_json and output is None:
        raise click.UsageError("--json needs --output, because the session goes to standard output.")
    config = log_of(options)
    with _writing(output), nullcontext(sys.stdout.buffer) if output is None else private_file(output) as file:
        written = with_log(config, lambda storage: write_session(storage, session, file, event_codec(), redact=redact))
    if output is None:
        return
    if as_json:
        summary = {"id": str(written.session), "events": written.events, "bytes": written.bytes, "file": str(output)}
        print_json(summary | ({"masked": written.masked} if redact else {}))
        return
    say(f"{plural(written.events, 'event')} of session {written.session}: {bytes_text(written.bytes)}")
    if redact:
        say(f"Credentials were masked in {plural(written.masked, 'place')}.")


def _print_import(imported: Any) -> None:
    if imported.added:
        say(f"session {imported.session}: {plural(imported.added, 'event')} added")
    else:
        say(f"session {imported.session} already exists; nothing was added")


@click.command(name="import")
@click.argument("file", type=FILE)
@log_options(of_first_shard=True)
@prints(lambda imported: members(imported, "events added", id="session"), _print_import)
def import_command(file: Path, **options: Any) -> object:
    """Read a session from a file that `mnemosyne export` wrote; `-` is standard input. The session keeps its id and is
    marked as imported.

    \b
      mnemosyne import session.jsonl

    The whole file is checked before anything is written. An existing session is not changed, unless the file continues
    it.
    """
    config = configuration(options)
    importing = Importing(config.tenant, now(), new_id())
    with _regular(file) as path, progress_bar("import") as progress:
        return with_log(config, lambda storage: import_file(storage, path, event_codec(), importing, progress))


@contextmanager
def _regular(file: Path) -> Iterator[Path]:
    """The file, or a private copy of standard input, because the import reads it twice."""
    if str(file) != "-":
        yield file
        return
    with NamedTemporaryFile(prefix="standard-input-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield Path(copy.name)


# Content of sessions in files

sessions_argument = click.argument("sessions", metavar="SESSION...", nargs=-1, required=True)


async def _find_all(storage: Storage, wanted: Sequence[str]) -> Sequence[UUID]:
    """The sessions, each once. All are found before any is changed."""
    return list(dict.fromkeys([await find(storage, session) for session in wanted]))


def _print_archive(done: dict[str, Any]) -> None:
    for row in done["sessions"]:
        freed = f" ({bytes_text(row['freed_bytes'])})" if row["freed_bytes"] > 0 else ""  # 0 from file to file
        moved = f"{plural(row['pieces'], 'piece')} of content{freed} moved" if row["pieces"] else "nothing left to move"
        say(f"session {row['id']}: {moved} to {row['file']} ({bytes_text(row['file_bytes'])})")
    print_files(done["files"])


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
@prints(lambda done: done, _print_archive)
def archive(sessions: tuple[str, ...], folder: Path, quick: bool, **options: Any) -> dict[str, Any]:
    """Move the content of sessions from the database to files in DIR, one for each session. You can list, show, verify,
    search and continue the session as before.

    \b
      mnemosyne archive 319a --to /mnt/archive

    Content is deleted from the database only after every turn has been rebuilt from the file. Keep DIR at a path that
    every server can reach, and back it up: `mnemosyne backup` stores only the paths. `mnemosyne forget` deletes the
    file, unless another log wrote it.
    """
    folder = folder.resolve()

    async def work(storage: Storage) -> dict[str, Any]:
        streams = await _find_all(storage, sessions)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        done = []
        with progress_bar("archive") as progress:
            for number, stream in enumerate(streams, start=1):
                done.append(await _archive_one(storage, stream, folder))
                progress(number, len(streams))
        is_more = any(row["pieces"] for row in done) and not quick
        return {"sessions": done, "files": await clean_files(storage) if is_more else "kept"}

    with _writing(folder):
        return with_log(log_of(options), work)


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


def _sync(folder: Path) -> None:
    """Flush the folder, so that the name of a new file is durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _print_unarchive(done: Sequence[dict[str, Any]]) -> None:
    for row in done:
        if not row["pieces"]:
            say(f"session {row['id']} is not archived")
            continue
        pieces = plural(row["pieces"], "piece")
        say(f"session {row['id']}: {pieces} of content moved back; these files are no longer needed:")
        for file in row["files"]:
            say(f"  {file}")


@click.command()
@sessions_argument
@log_options()
@prints(lambda done: done, _print_unarchive)
def unarchive(sessions: tuple[str, ...], **options: Any) -> Sequence[dict[str, Any]]:
    """Move the content of archived sessions back into the database.

    \b
      mnemosyne unarchive 319a

    The files stay; delete them when you like, because `forget` no longer tracks them.
    """

    async def work(storage: Storage) -> Sequence[dict[str, Any]]:
        archived = PostgresArchivedContents(storage.files.database)
        done = []
        for stream in await _find_all(storage, sessions):
            files = list(await archived.own_files(stream))
            with progress_bar("unarchive") as progress:
                pieces = await restore_files(storage, archived, stream, progress)
            done.append({"id": str(stream), "pieces": pieces, "files": files})
        return done

    return with_log(log_of(options), work)


# The whole log


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@log_options(of_first_shard=True)
@prints(
    lambda done: {"file": str(done[0]), **members(done[1], "events contents bytes")},
    lambda done: say(f"{done[0]} holds {_contents_text(done[1])}."),
)
def backup(file: Path, **options: Any) -> tuple[Path, BackupContents]:
    """Write a snapshot of the log to FILE: all sessions of all tenants. Servers can keep running. `mnemosyne restore`
    reads it.

    \b
      mnemosyne backup mnemosyne.backup

    The file contains the sessions in plain text, also those that you erase later with `mnemosyne forget`. It does not
    contain the settings, the models file or the token.
    """
    config = log_of(options)
    if file.is_file():
        raise BadConfiguration(f"{file} already exists; nothing was written.")
    is_new = not file.exists()
    with _writing(file), private_file(file) as opened, _progress("backup") as progress:
        written = _write(config, opened, progress)
        opened.flush()
        if is_new:  # neither a pipe nor a terminal
            os.fsync(opened.fileno())
    if config.shards and options["dsn"] is None:
        say(f"The other {plural(len(config.shards), 'database')} of `shards` are not in it: use --dsn.", err=True)
    return file, written


def _write(config: Config, file: IO[bytes], progress: Callable[[int], None]) -> BackupContents:

    async def run() -> BackupContents:
        async with open_database(config) as database:
            return await write_backup(database, file, now(), progress)

    return trio.run(run)


Restored = tuple[BackupContents, Sequence[Verification]]


def _restore_as_json(restored: Restored) -> dict[str, Any]:
    contents, results = restored
    return {
        **members(contents, "events contents bytes"),
        "sessions": len(results),
        "turns": sum(result.turns for result in results),
        "differing": _list_differing(results),
    }


def _print_whole(restored: Restored) -> None:
    contents, results = restored
    turns, differing = sum(result.turns for result in results), _list_differing(results)
    verdict = f"these differ: {', '.join(differing)}" if differing else "all as they were recorded."
    say(f"{_contents_text(contents)} restored.")
    say(f"{plural(turns, 'turn')} of {plural(len(results), 'session')} checked: {verdict}")


def _list_differing(results: Sequence[Verification]) -> list[str]:
    return [str(result.session) for result in results if not result.is_sound]


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@log_options(of_first_shard=True)
@prints(_restore_as_json, _print_whole, fails=lambda restored: bool(_list_differing(restored[1])))
def restore(file: Path, **options: Any) -> Restored:
    """Restore the log from a FILE that `mnemosyne backup` wrote, into a database without a log.

    \b
      mnemosyne restore mnemosyne.backup

    The file is checked before anything is written; then every turn is checked, as with `mnemosyne verify`. The exit
    code is 1 if anything differs.
    """
    config = configuration(options)
    try:
        with open_regular(file) as opened:
            return _restore(config, opened)
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be read: {error.strerror or error}.") from None


def _restore(config: Config, file: IO[bytes]) -> Restored:
    with _progress("check") as progress:
        contents = check_backup(file, progress)

    async def run() -> list[Verification]:
        async with open_database(config) as database:
            with _progress("restore") as progress:
                await read_backup(database, file, progress)
            return await verify_sessions(storage_of(database), None, progress_bar)

    return contents, trio.run(run)


@contextmanager
def _progress(label: str) -> Iterator[Callable[[int], None]]:
    """A progress bar in megabytes, without a total."""
    with progress_bar(label) as progress:
        yield lambda size: progress(size // 1_000_000, 0)


def _contents_text(contents: BackupContents) -> str:
    """The contents of a backup: ``3 events and 2 contents, 1.2 MB``."""
    return (
        f"{plural(contents.events, 'event')} and {plural(contents.contents, 'content')}, {bytes_text(contents.bytes)}"
    )
