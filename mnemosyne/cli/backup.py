"""``mnemosyne backup`` and ``mnemosyne restore``: write the whole log to a file, and read it into an empty database."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click
import trio

from mnemosyne.adapters.postgres.backup import BackupContents, check_backup, read_backup, write_backup
from mnemosyne.app.storage import open_database, storage_of
from mnemosyne.cli.log_access import json_option, log_of
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.private_files import private_file
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import bytes_text, plural
from mnemosyne.regular_files import open_regular
from mnemosyne.services.unstructuring import members
from mnemosyne.services.verifying import Verification, verify_sessions

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=FILE)
@log_options()
@json_option
def backup(file: Path, as_json: bool, **options: object) -> None:
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
    try:
        with private_file(file) as opened, backup_progress("backup") as progress:
            written = _write(config, opened, progress)
            opened.flush()
            if is_new:  # neither a pipe nor a terminal
                os.fsync(opened.fileno())
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be written: {error.strerror or error}.") from None
    if as_json:
        print_json({"file": str(file), **members(written, "events contents bytes")})
    else:
        say(f"{file} holds {contents_text(written)}.")


@click.command()
@click.argument("file", type=FILE)
@log_options()
@json_option
@click.pass_context
def restore(ctx: click.Context, /, file: Path, as_json: bool, **options: object) -> None:
    """Restore the log from a FILE that `mnemosyne backup` wrote, into a database without a log.

    \b
      mnemosyne restore mnemosyne.backup

    The file is checked before anything is written; then every turn is checked, as with `mnemosyne verify`. The exit
    code is 1 if anything differs.
    """
    config = configuration(options)
    try:
        with open_regular(file) as opened:
            contents, results = _restore(config, opened)
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be read: {error.strerror or error}.") from None
    differing = [str(result.session) for result in results if not result.is_sound]
    turns = sum(result.turns for result in results)
    if as_json:
        print_json(
            {
                **members(contents, "events contents bytes"),
                "sessions": len(results),
                "turns": turns,
                "differing": differing,
            }
        )
    else:
        say(f"{contents_text(contents)} restored.")
        say(f"{plural(turns, 'turn')} of {plural(len(results), 'session')} checked: {_verdict(differing)}")
    ctx.exit(1 if differing else 0)


def _write(config: Config, file: IO[bytes], progress: Callable[[int], None]) -> BackupContents:

    async def run() -> BackupContents:
        async with open_database(config) as database:
            return await write_backup(database, file, now_us(), progress)

    return trio.run(run)


def _restore(config: Config, file: IO[bytes]) -> tuple[BackupContents, list[Verification]]:
    with backup_progress("check") as progress:
        contents = check_backup(file, progress)

    async def run() -> list[Verification]:
        async with open_database(config) as database:
            with backup_progress("restore") as progress:
                await read_backup(database, file, progress)
            return await verify_sessions(storage_of(database), None, progress_bar)

    return contents, trio.run(run)


@contextmanager
def backup_progress(label: str) -> Iterator[Callable[[int], None]]:
    """A progress bar in megabytes, without a total."""
    with progress_bar(label) as progress:
        yield lambda size: progress(size // 1_000_000, 0)


def contents_text(contents: BackupContents) -> str:
    """The contents of a backup: ``3 events and 2 contents, 1.2 MB``."""
    return (
        f"{plural(contents.events, 'event')} and {plural(contents.contents, 'content')}, {bytes_text(contents.bytes)}"
    )


def _verdict(differing: list[str]) -> str:
    return "all as they were recorded." if not differing else f"these differ: {', '.join(differing)}"
