"""Database machines of a campaign: PostgreSQL servers of the wheel's programs, each with a folder of its own, one of
them the primary. A machine can be lost with its files, stopped or promoted; nothing restarts it.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlencode

import attrs
import psycopg
import trio

from mnemosyne.adapters.embedded.cluster import DATABASE, INITDB_OPTIONS, ROLE
from mnemosyne.adapters.embedded.programs import (
    FOLDERS,
    NEWEST,
    PACKAGE,
    Programs,
    ServerUser,
    account_for,
    find_programs,
)
from tests.waiting import DEADLINE

SYNCHRONOUS = "*"
"""A commit waits until any standby has it on disk."""


@attrs.define
class Machine:
    """One PostgreSQL server. Its socket is in its folder, which only its account and root may enter."""

    folder: Path
    account: ServerUser
    programs: Programs
    process: trio.Process | None = None

    def dsn(self, **options: str) -> str:
        """The DSN of this machine alone."""
        return dsn_of([self], **options)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    async def create(self) -> None:
        """A new, empty cluster with the database of the servers."""
        self._make_folder()
        await self._run("initdb", "-D", str(self.data), "-U", ROLE, *INITDB_OPTIONS, account=self.account)
        rules = "local all all trust\nlocal replication all trust\n"  # the folder admits no other account
        (self.data / "pg_hba.conf").write_text(rules)
        await self.start()
        await self.execute(f"create database {DATABASE}", dbname="postgres")

    async def copy(self, primary: "Machine") -> None:
        """A standby with the files of ``primary``, which streams from it."""
        self._make_folder()
        address = f"host={primary.folder} user={ROLE}"
        await self._run(
            "pg_basebackup", "-D", str(self.data), "-d", address, "--write-recovery-conf", "--checkpoint=fast"
        )
        for path in (self.data, *self.data.rglob("*")):
            os.lchown(path, self.account.uid, self.account.gid)
        await self.start()

    async def start(self) -> None:
        """Start the server on its files, and wait until it takes connections."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "32MB",
            "max_connections": "40",
            "io_method": "sync",
            "wal_keep_size": "256MB",  # a standby that was stopped can catch up
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as output:
            self.process = await trio.lowlevel.open_process(
                [self.programs.postgres, "-D", str(self.data), *options],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                **self.account.spawn_options(),
            )  # fmt: skip
        await self.until("select true", dbname="postgres")

    async def until(self, question: LiteralString, **options: str) -> None:
        """Wait until the server answers a question with yes. Raises TooSlowError after ``DEADLINE``."""
        with trio.fail_after(DEADLINE):
            while True:
                try:
                    if await self.execute(question, **options) == [(True,)]:
                        return
                except psycopg.OperationalError:
                    pass  # it does not take connections yet
                await trio.sleep(0.05)

    async def execute(self, statement: Any, **options: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, in its own transaction."""
        return await trio.to_thread.run_sync(partial(_execute, self.dsn(**options), statement))

    async def demand(self, standbys: str) -> None:
        """Let commits wait for these standbys, as ``synchronous_standby_names`` says; none if empty."""
        if standbys:
            await self.until("select exists (select from pg_stat_replication where state = 'streaming')")
        await self.execute(f"alter system set synchronous_standby_names = '{standbys}'")
        await self.execute("select pg_reload_conf()")
        await self.until("select current_setting('synchronous_standby_names') = '" + standbys + "'")

    async def promote(self) -> None:
        """Make the standby a primary that waits for no other."""
        await self.execute("select pg_promote(true, 60)")
        await self.demand("")

    async def lose(self) -> None:
        """The machine is gone with its files, without a word."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        await self.process.wait()
        shutil.rmtree(self.folder)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the server at once, as if to the machine."""
        assert self.process is not None
        for pid in (self.process.pid, *_children(self.process.pid)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    async def end(self) -> None:
        """End the server by SIGKILL, in whatever state it is; its files stay."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            await self.process.wait()

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700)
        os.chown(self.folder, self.account.uid, self.account.gid)

    async def _run(self, program: str, *arguments: str, account: ServerUser | None = None) -> None:
        # The copy of the programs for another account has only those that serve.
        folder = self.programs.folder if account else Path(str(files(PACKAGE))) / FOLDERS[self.programs.major]
        options = account.spawn_options() if account else {}
        await trio.run_process([str(folder / "bin" / program), *arguments], capture_stdout=True, **options)


def dsn_of(machines: list[Machine], **options: str) -> str:
    """A DSN with several hosts, of which libpq takes the first that accepts writes."""
    hosts = ",".join(str(each.folder) for each in machines)
    chosen = {"host": hosts, "user": ROLE, "target_session_attrs": "read-write"} if len(machines) > 1 else {}
    asked = {"host": hosts, "user": ROLE, **chosen, **options}
    name = asked.pop("dbname", DATABASE)
    return f"postgresql:///{name}?{urlencode(asked)}"


@asynccontextmanager
async def two_machines(*, apart: bool = False) -> AsyncIterator[tuple[Machine, Machine]]:
    """A primary, and the synchronous standby that its commits wait for; or two primaries that know nothing of each
    other.
    """
    account = account_for(None)
    programs = await trio.to_thread.run_sync(find_programs, NEWEST, account)
    # A folder with a short path, which the account may enter.
    folder = Path(tempfile.mkdtemp(prefix="machines-"))
    os.chown(folder, account.uid, account.gid)
    first, second = (Machine(folder / name, account, programs) for name in ("first", "second"))
    try:
        await first.create()
        if apart:
            await second.create()
        else:
            await second.copy(first)
            await first.demand(SYNCHRONOUS)
        yield first, second
    finally:
        with trio.CancelScope(shield=True):
            await first.end()
            await second.end()
            shutil.rmtree(folder)


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def _execute(dsn: str, statement: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []
