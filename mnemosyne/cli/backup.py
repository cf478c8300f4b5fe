"""``mnemosyne backup`` and ``mnemosyne restore``: the whole log in a file, and from there into an empty database."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click
import trio

from mnemosyne.adapters.postgres.backup import BackupContents, check_backup, read_backup, write_backup
from mnemosyne.app.storage import open_database, storage_of
from mnemosyne.cli.printing import bytes_text, print_json, progress_bar, say
from mnemosyne.cli.private_files import private_file
from mnemosyne.cli.reading import json_option, log_of
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import now_us
from mnemosyne.config import Config
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import plural
from mnemosyne.regular_files import open_regular
from mnemosyne.services.unstructuring import members
from mnemosyne.services.verifying import Verification, verify_sessions

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("file", type=FILE)
@log_options()
@json_option
def backup(file: Path, as_json: bool, **options: object) -> None:
    """Write the log to FILE, which must not be there: all sessions of all tenants, as they are at this moment. Servers
    may go on meanwhile. Only its owner can read the file.

    What was said is in it as it was said, so keep it as you keep your sources. What is erased later with `mnemosyne
    forget` stays in it. Settings, models file and token are not in it: they are files of the data directory.

    `mnemosyne restore` reads it.
    """
    config = log_of(options)
    if file.is_file():
        raise BadConfiguration(f"{file} is there already; nothing was written.")
    is_new = not file.exists()
    try:
        with private_file(file) as opened, backup_progress("backup") as progress:
            written = _write(config, opened, progress)
            opened.flush()
            if is_new:  # no pipe and no terminal
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
    """Read the log from a FILE that `mnemosyne backup` wrote, into a database that holds none yet.

    The file is checked whole before anything is written, and it goes in whole or not at all. Then every turn is rebuilt
    and checked, as `mnemosyne verify` does; the exit code is 1 if anything differs. Read models and the index are made
    anew by the next server, or by the command that reads them.
    """
    config = configuration(options)
    try:
        with open_regular(file) as opened:
            held, found = _restore(config, opened)
    except OSError as error:
        raise BadConfiguration(f"{file} cannot be read: {error.strerror or error}.") from None
    differing = [str(each.session) for each in found if not each.is_sound]
    turns = sum(each.turns for each in found)
    if as_json:
        print_json(
            {**members(held, "events contents bytes"), "sessions": len(found), "turns": turns, "differing": differing}
        )
    else:
        say(f"{contents_text(held)} restored.")
        say(f"{plural(turns, 'turn')} of {plural(len(found), 'session')} checked: {_verdict(differing)}")
    ctx.exit(1 if differing else 0)


def _write(config: Config, file: IO[bytes], progress: Callable[[int], None]) -> BackupContents:

    async def run() -> BackupContents:
        async with open_database(config) as database:
            return await write_backup(database, file, now_us(), progress)

    return trio.run(run)


def _restore(config: Config, file: IO[bytes]) -> tuple[BackupContents, list[Verification]]:
    with backup_progress("check") as progress:
        held = check_backup(file, progress)

    async def run() -> list[Verification]:
        async with open_database(config) as database:
            with backup_progress("restore") as progress:
                await read_backup(database, file, progress)
            return await verify_sessions(storage_of(database), None, progress_bar)

    return held, trio.run(run)


@contextmanager
def backup_progress(label: str) -> Iterator[Callable[[int], None]]:
    """How far it has come, in megabytes; how many there are is not known before."""
    with progress_bar(label) as progress:
        yield lambda size: progress(size // 1_000_000, 0)


def contents_text(held: BackupContents) -> str:
    """What a file holds, in words."""
    return f"{plural(held.events, 'event')} and {plural(held.contents, 'content')}, {bytes_text(held.bytes)}"


def _verdict(differing: list[str]) -> str:
    return "all as they were recorded." if not differing else f"these differ: {', '.join(differing)}"
