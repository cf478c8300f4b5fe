"""One database cluster on disk: its files, its making, and the truth about the process that serves it.

In the data directory, which belongs to the user of Mnemosyne (root included):

=====================  ================================================================================================
``postgres/``          the cluster, 0700, owned by the account that runs the server; the socket lies in it too
``postgres.new-*/``    a cluster in the making; renamed to ``postgres`` when complete, removed if found later
``postgres.upgrade/``  the data directory of a cluster that an upgrade makes; ``postgres.upgraded`` once that is whole
``postgres.old-*/``    the cluster that an upgrade replaced, by its major version; nobody uses it
``postgres.log``       what the server says; over 1 MiB at a start it becomes ``postgres.log.1``
``postgres.lock``      held (flock) by the process that is starting or stopping the server
``postgres.users``     held shared (flock) by each process that uses the server; the kernel lets go for the dead
=====================  ================================================================================================

Two ideas keep this one layout true for everyone, also for root, below a 0700 directory, and for paths of any length:

* The server never walks down to its files. It is started *inside* the cluster and told that its data lies in
  ``/proc/self/cwd`` and its socket in ``.``, so the account that runs it needs no right on any parent directory. (Where
  there is no ``/proc``, it is told the path, and the parents must let it pass.)
* The socket is below nothing but the cluster's 0700 directory, never in a temporary folder. If its path is too long for
  a socket address (107 bytes), or cannot be written in a connection string, *clients* go through a symbolic link in a
  private directory with a random name: nobody can plant it beforehand, and ``requirepeer`` would notice.

Who may connect: the directory and the socket keep out all but the server's account and root. ``peer`` authentication
then asks the kernel who is calling and admits one name, the user of Mnemosyne. So where root shares an account such as
``nobody`` with other services, these reach the socket and are refused.
"""

import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

import attrs

from mnemosyne.adapters.embedded.programs import FOLDERS, NEWEST, Programs, ServerUser, account_for, find_programs
from mnemosyne.data_dir import refuse_shared
from mnemosyne.errors import BadConfiguration, DatabaseUnfit, LogUnavailable

ROLE = "mnemosyne"
DATABASE = "mnemosyne"
SQL_ROLE_PREFIX = "mnemosyne_sql_"
"""How the names of the roles begin as which `mnemosyne sql` asks; they may log in as ``ROLE`` may."""
PORT = 5432
"""No TCP port is opened; the number is part of the socket's name."""

LOG_BYTES = 1024 * 1024
ADDRESS_BYTES = 103
"""The longest path of a socket that every system takes: Linux has room for 107 bytes, macOS for 103."""

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "cluster_name": "mnemosyne",
    "max_connections": "50",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",  # a laptop's disk, and a short recovery, matter more than the last bit of throughput
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements and details may quote what people said to their agents; the log of the server is not the place.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}
"""Given on the command line, so that they follow the version of Mnemosyne and not the day the cluster was made."""

SETTINGS_SINCE = {18: {"io_method": "sync"}}  # no I/O worker processes: three fewer, for one user

INITDB_OPTIONS = (
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",  # PostgreSQL's own: an upgrade of the C library cannot corrupt an index
    "--builtin-locale=C.UTF-8",
    "--auth=peer",
    "--no-instructions",
)

_SQL_ROLES = f"/^{SQL_ROLE_PREFIX}[0-9a-f]+$"

HBA = f"local all {ROLE},{_SQL_ROLES} peer map=mnemosyne\n"

OWN_DIRECTORY = Path("/proc/self/cwd")


@attrs.frozen
class Postmaster:
    """The living server process of a cluster; ``ready`` when it takes connections."""

    pid: int
    ready: bool


@attrs.frozen
class Cluster:
    """The database cluster in a data directory. Methods read or write the disk: call them in a worker thread."""

    data_dir: Path

    @classmethod
    def at(cls, data_dir: Path) -> Self:
        return cls(Path(os.path.abspath(data_dir)))

    @property
    def folder(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def upgraded(self) -> Path:
        return self.data_dir / "postgres.upgraded"

    @property
    def is_made(self) -> bool:
        """Whether there are files of a database."""
        return self.folder.exists() or self.upgraded.exists()

    @property
    def log(self) -> Path:
        return self.data_dir / "postgres.log"

    @property
    def lock(self) -> Path:
        return self.data_dir / "postgres.lock"

    @property
    def users(self) -> Path:
        return self.data_dir / "postgres.users"

    @property
    def pid_file(self) -> Path:
        return self.folder / "postmaster.pid"

    @property
    def socket_lock(self) -> Path:
        return self.folder / f".s.PGSQL.{PORT}.lock"

    def make_data_dir(self) -> None:
        """Make the data directory if it is missing; refuse one in which other people decide what the files are."""
        try:
            self.data_dir.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.data_dir.mkdir(mode=0o700)
            status = self.data_dir.stat()
        except OSError as error:
            raise BadConfiguration(f"data_dir = {str(self.data_dir)!r} cannot be made or read: {error}.") from error
        if not stat.S_ISDIR(status.st_mode):
            raise BadConfiguration(f"data_dir = {str(self.data_dir)!r} is not a directory.")
        if status.st_uid != os.geteuid():
            raise BadConfiguration(
                f"data_dir = {str(self.data_dir)!r} belongs to {_user_name(status.st_uid)}, and this is "
                f"{_user_name(os.geteuid())}: run as its owner, or choose another directory."
            )
        refuse_shared(self.data_dir, status)

    def account(self) -> ServerUser:
        """Who runs the server: the owner of the cluster, or who is to own it."""
        try:
            owner = self.folder.stat().st_uid
        except FileNotFoundError:
            return account_for(None)
        account = account_for(owner)
        if account.uid != owner:
            raise DatabaseUnfit(
                f"{self.folder} belongs to {_user_name(owner)}, and PostgreSQL would run as {account.name}: "
                f"`chown -R {account.name}` it, if it is yours."
            )
        return account

    def programs(self, account: ServerUser) -> Programs:
        """The programs that fit the cluster's files, the newest if there are none yet."""
        try:
            version = (self.folder / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if self.folder.exists():
                raise DatabaseUnfit(
                    f"{self.folder} is no database: PG_VERSION is missing. Restore it, or move it away to begin anew."
                ) from None
            return find_programs(NEWEST, account)
        except UnicodeDecodeError:
            version = "of unreadable version"
        for major in FOLDERS:
            if version == str(major):
                return find_programs(major, account)
        brought = " and ".join(str(major) for major in FOLDERS)
        raise DatabaseUnfit(
            f"The database in {self.folder} was made by PostgreSQL {version}; this installation brings {brought}. "
            "Use the Mnemosyne that made it, or set dsn to a PostgreSQL that holds its data."
        )

    def finish_upgrade(self) -> None:
        """Put in its place what an upgrade made, where that was ended between its last two steps. Call it under the
        lock.
        """
        if not self.folder.exists() and self.upgraded.exists():
            self.upgraded.rename(self.folder)
            flush(self.data_dir)

    def initialise(self, programs: Programs, account: ServerUser) -> None:
        """Make the cluster with its database, beside its final place; then rename it. Call it under the lock."""
        for leftover in self.data_dir.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        side = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.data_dir))
        try:
            if not account.is_ours:
                os.chown(side, account.uid, account.gid)
            self._run(
                [programs.initdb, "-D", directory_argument(side), "-U", ROLE, *INITDB_OPTIONS],
                inside=side,
                account=account,
            )
            # Alone and before the rename, so that a cluster without its database cannot exist.
            self._run(
                [programs.postgres, "--single", "-D", directory_argument(side), "template1"],
                inside=side,
                account=account,
                words=f"CREATE DATABASE {DATABASE} TEMPLATE template0\n",
            )
            side.rename(self.folder)
            flush(self.data_dir)
        finally:
            shutil.rmtree(side, ignore_errors=True)

    def _run(self, command: list[str], *, inside: Path, account: ServerUser, words: str = "") -> None:
        done = subprocess.run(
            command, cwd=inside, input=words, capture_output=True, encoding="utf-8", errors="replace", check=False,
            **account.spawn_options(),
        )  # fmt: skip
        # A server on its own reports a failed statement and still exits with 0.
        if done.returncode != 0 or "ERROR:" in done.stderr or "FATAL:" in done.stderr:
            raise LogUnavailable(
                f"The database in {self.data_dir} could not be made. {plain_reason(done.stderr or done.stdout)}"
            )

    def postmaster(self) -> Postmaster | None:
        """The process that serves this cluster, if one lives.

        The pid in the file is a hint. After a crash it may name a zombie or somebody else's process, and where another
        account owns the file it may have been written to have root signal a process of its choice. So the process
        counts only if it belongs to the owner of the cluster and was started for it.
        """
        try:
            lines = self.pid_file.read_text(encoding="utf-8", errors="replace").splitlines()
            owner, mark = self.folder.stat().st_uid, _identity(self.folder)
        except FileNotFoundError:
            return None
        if not lines or not lines[0].strip().isdecimal():
            return None
        pid = int(lines[0])
        if mark not in _command_line(pid, owner):
            return None
        return Postmaster(pid, ready=len(lines) > 7 and lines[7].strip() == "ready")

    def prepare_start(self, account: ServerUser) -> None:
        """Clear what a dead server left, say who may log in, and bound the log. Call it under the lock.

        Left alone, PostgreSQL refuses to start when a pid in one of these files is alive again as another process, or
        is a zombie. Removing them is safe: a server that lives after all is found by PostgreSQL itself, which marks the
        cluster in shared memory too, and refuses.
        """
        self.pid_file.unlink(missing_ok=True)
        self.socket_lock.unlink(missing_ok=True)
        self._write("pg_hba.conf", HBA, account)
        # Written at each start: accounts get renamed.
        user = _user_name(os.geteuid())
        self._write("pg_ident.conf", "".join(f'mnemosyne "{user}" {role}\n' for role in (ROLE, _SQL_ROLES)), account)
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES:
                self.log.replace(self.log.with_name("postgres.log.1"))

    def _write(self, name: str, text: str, account: ServerUser) -> None:
        # For root the directory belongs to another account: replace what is there, follow nothing.
        handle, side = tempfile.mkstemp(prefix=f"{name}.", dir=self.folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                if not account.is_ours:
                    os.fchown(file.fileno(), account.uid, account.gid)
            Path(side).replace(self.folder / name)
        except OSError:
            Path(side).unlink(missing_ok=True)
            raise

    def command(self, programs: Programs) -> list[str]:
        """How to start the server, inside ``folder``."""
        settings = {**SETTINGS, **SETTINGS_SINCE.get(programs.major, {})}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        # The path is there for people who look at the list of processes.
        marks = ["-c", _identity(self.folder), "-c", f"mnemosyne.data_dir={self.data_dir}"]
        return [programs.postgres, "-D", directory_argument(self.folder), *options, *marks]

    def open_log(self) -> BinaryIO:
        return open(self.log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))

    def last_words(self, since: int) -> str:
        """Why the server did not start: the end of what it wrote to the log after ``since`` bytes."""
        try:
            with self.log.open("rb") as file:
                file.seek(since)
                text = file.read(LOG_BYTES).decode("utf-8", errors="replace")
        except FileNotFoundError:
            text = ""
        return f"{plain_reason(text)} (More in {self.log}.)"


def directory_argument(folder: Path) -> str:
    """How a program that was started inside ``folder`` names it without needing any right on its parents."""
    return str(OWN_DIRECTORY if OWN_DIRECTORY.exists() else folder)


def plain_reason(output: str) -> str:
    """One sentence for the failures that people can mend, else the last lines that PostgreSQL wrote."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return "The disk is full: make room and try again."
    if "Read-only file system" in output:
        return "The disk is read-only."
    lines = [line.strip() for line in output.splitlines() if line.strip()][-6:]
    return "PostgreSQL said: " + " | ".join(lines) if lines else "PostgreSQL said nothing."


@contextmanager
def client_address(folder: Path) -> Iterator[str]:
    """A name for the directory of the socket that fits into a socket address and into a connection string."""
    if _fits(folder):
        yield str(folder)
        return
    # Not $XDG_RUNTIME_DIR: it goes away with the login session, and the server need not.
    candidates = [*(["/run"] if os.geteuid() == 0 else []), tempfile.gettempdir(), "/tmp"]
    for base in candidates:
        with suppress(OSError):
            private = Path(tempfile.mkdtemp(prefix="mnemosyne-", dir=base))  # 0700, and did not exist before
            break
    else:
        raise LogUnavailable("No temporary directory can be written, and the path of the data directory is too long.")
    link = private / "db"
    handle = os.open(private, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)  # keeps systemd-tmpfiles from tidying it away after ten days
        link.symlink_to(folder)
        if not _fits(link):
            raise BadConfiguration(f"The temporary directory {private.parent} has too long a name for a socket.")
        yield str(link)
    finally:
        os.close(handle)
        link.unlink(missing_ok=True)
        with suppress(OSError):
            private.rmdir()


def _fits(folder: Path) -> bool:
    # A comma separates hosts in a connection string; bytes that are not UTF-8 cannot be in one.
    path = f"{folder}/.s.PGSQL.{PORT}"
    try:
        return "," not in path and len(path.encode("utf-8")) <= ADDRESS_BYTES
    except UnicodeEncodeError:
        return False


def connection_string(parameters: dict[str, str]) -> str:
    """libpq's keyword form, every value quoted."""
    return " ".join(f"{name}='{_escape(value)}'" for name, value in parameters.items())


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("'", r"\'")


def _identity(folder: Path) -> str:
    """What marks the command line of the server of ``folder``: not its path, which has many spellings and may change.

    The working directory would need no mark, but root may not read that of another user's process in a usual container.
    """
    status = folder.stat()
    return f"mnemosyne.cluster={status.st_dev}:{status.st_ino}"


def _command_line(pid: int, owner: int) -> Sequence[str]:
    """The arguments of a living process of the user ``owner``; none if it is dead, a zombie, or somebody else's."""
    if not Path("/proc/self/stat").exists():
        return _command_line_from_ps(pid, owner)
    process = Path("/proc") / str(pid)
    try:
        # A process names itself in parentheses, with any characters; its state is the first word behind the last one.
        state = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        if state in "ZX" or process.stat().st_uid != owner:
            return ()
        return (process / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except (OSError, IndexError):
        return ()


def _command_line_from_ps(pid: int, owner: int) -> Sequence[str]:
    asked = subprocess.run(
        ["ps", "-ww", "-o", "uid=,stat=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    words = asked.stdout.split()
    return words[2:] if len(words) > 2 and words[0] == str(owner) and not words[1].startswith("Z") else ()


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def flush(folder: Path) -> None:
    """Make renames in it durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
