"""A database cluster on disk: its files, its creation, and the server process.

The data directory belongs to the user of Mnemosyne, who may be root:

=====================  ================================================================================================
``postgres/``          the cluster and its socket, 0700, owned by the account that runs the server
``postgres.new-*/``    an incomplete cluster; renamed to ``postgres`` when complete, otherwise removed later
``postgres.log``       the server's log; above 1 MiB it is renamed to ``postgres.log.1`` at a start
``postgres.lock``      locked (flock) by the process that starts or stops the server
``postgres.users``     locked shared (flock) by each process that uses the server
=====================  ================================================================================================

This layout also works for root, below a 0700 directory, and for paths of any length:

* The server starts *inside* the cluster, with ``/proc/self/cwd`` as data directory and ``.`` as socket directory, so
  its account needs no rights on parent directories. (Without ``/proc``, it gets the path and needs these rights.)
* The socket is in the cluster's 0700 directory. If its path is too long for a socket address (107 bytes), or invalid in
  a connection string, *clients* use a symbolic link in a private directory with a random name.

File modes admit only the server's account and root. ``peer`` authentication then admits only the user of Mnemosyne, so
other services that share an account such as ``nobody`` are refused.
"""

import fcntl
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

import attrs

from mnemosyne.adapters.embedded.programs import FOLDERS, NEWEST, Programs, ServerUser, account_for, find_programs
from mnemosyne.errors import BadConfiguration, DatabaseUnfit, LogUnavailable

ROLE = "mnemosyne"
DATABASE = "mnemosyne"
SQL_ROLE_PREFIX = "mnemosyne_sql_"
"""The prefix of the roles of `mnemosyne sql`, which may log in like ``ROLE``."""
PORT = 5432
"""Part of the socket's name; no TCP port is opened."""

LOG_BYTES = 1024 * 1024
ADDRESS_BYTES = 103
"""The longest socket path of every system: Linux allows 107 bytes, macOS 103."""

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "port": str(PORT),
    "cluster_name": "mnemosyne",
    "max_connections": "50",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",  # a small disk footprint and a short recovery
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # Statements and details may quote content.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}
"""Given on the command line, so that they apply to existing clusters too."""

SETTINGS_SINCE = {18: {"io_method": "sync"}}  # no I/O worker processes

INITDB_OPTIONS = (
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",  # an upgrade of the C library cannot corrupt an index
    "--builtin-locale=C.UTF-8",
    "--auth=peer",
    "--no-instructions",
)

_SQL_ROLES = f"/^{SQL_ROLE_PREFIX}[0-9a-f]+$"

HBA = f"local all {ROLE},{_SQL_ROLES} peer map=mnemosyne\n"

OWN_DIRECTORY = Path("/proc/self/cwd")


@attrs.frozen
class Postmaster:
    """The server process of a cluster; ``ready`` when it accepts connections."""

    pid: int
    ready: bool


@attrs.frozen
class Cluster:
    """The database cluster in a data directory. Methods access the disk: call them in a worker thread."""

    data_dir: Path

    @classmethod
    def at(cls, data_dir: Path) -> Self:
        return cls(Path(os.path.abspath(data_dir)))

    @property
    def folder(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def is_made(self) -> bool:
        """Whether the files of a database exist."""
        return self.folder.exists()

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

    def account(self) -> ServerUser:
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
        """The programs of the cluster's version, the newest for a new cluster."""
        try:
            version = (self.folder / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if self.folder.exists():
                raise DatabaseUnfit(
                    f"{self.folder} is not a database: PG_VERSION is missing. Restore it, or move it away."
                ) from None
            return find_programs(NEWEST, account)
        except UnicodeDecodeError:
            version = "of unreadable version"
        for major in FOLDERS:
            if version == str(major):
                return find_programs(major, account)
        available = " and ".join(str(major) for major in FOLDERS)
        raise DatabaseUnfit(
            f"The database in {self.folder} was made by PostgreSQL {version}; this installation has {available}. "
            "Use the Mnemosyne that made it, or set dsn to a PostgreSQL that holds its data."
        )

    def initialise(self, programs: Programs, account: ServerUser) -> None:
        """Create the cluster with its database in another folder, then rename it. Call it under the lock."""
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
            # Before the rename: no cluster exists without its database.
            self._run(
                [programs.postgres, "--single", "-D", directory_argument(side), "template1"],
                inside=side,
                account=account,
                words=f"CREATE DATABASE {DATABASE} TEMPLATE template0\n",
            )
            side.rename(self.folder)
            _flush(self.data_dir)
        finally:
            shutil.rmtree(side, ignore_errors=True)

    def _run(self, command: list[str], *, inside: Path, account: ServerUser, words: str = "") -> None:
        done = subprocess.run(
            command, cwd=inside, input=words, capture_output=True, encoding="utf-8", errors="replace", check=False,
            **account.spawn_options(),
        )  # fmt: skip
        # A single-user server exits with 0 after a failed statement.
        if done.returncode != 0 or "ERROR:" in done.stderr or "FATAL:" in done.stderr:
            raise LogUnavailable(
                f"The database in {self.data_dir} could not be created. {plain_reason(done.stderr or done.stdout)}"
            )

    def postmaster(self) -> Postmaster | None:
        """The running server process of this cluster, if any.

        The PID in the file may be of a zombie or of an unrelated process, and another account may have written it to
        make root signal a process. So the process must belong to the owner of the cluster and be started for it.
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
        """Remove stale files, write the login rules, and rotate the log. Call it under the lock.

        PostgreSQL does not start while a PID in these files is of another process or a zombie. Removing them is safe:
        PostgreSQL also finds a running server by shared memory, and refuses to start.
        """
        self.pid_file.unlink(missing_ok=True)
        self.socket_lock.unlink(missing_ok=True)
        self._write("pg_hba.conf", HBA, account)
        # At each start: accounts may be renamed.
        user = _user_name(os.geteuid())
        self._write("pg_ident.conf", "".join(f'mnemosyne "{user}" {role}\n' for role in (ROLE, _SQL_ROLES)), account)
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_BYTES:
                self.log.replace(self.log.with_name("postgres.log.1"))

    def _write(self, name: str, text: str, account: ServerUser) -> None:
        # Another account may own the directory: replace the file, and follow no link.
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
        """The command that starts the server, inside ``folder``."""
        settings = {**SETTINGS, **SETTINGS_SINCE.get(programs.major, {})}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        # The path is for readers of the process list.
        marks = ["-c", _identity(self.folder), "-c", f"mnemosyne.data_dir={self.data_dir}"]
        return [programs.postgres, "-D", directory_argument(self.folder), *options, *marks]

    def open_log(self) -> BinaryIO:
        return open(self.log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))

    def read_failure(self, since: int) -> str:
        """The reason for a failed start: the end of the log after ``since`` bytes."""
        try:
            with self.log.open("rb") as file:
                file.seek(since)
                text = file.read(LOG_BYTES).decode("utf-8", errors="replace")
        except FileNotFoundError:
            text = ""
        return f"{plain_reason(text)} (More in {self.log}.)"


def directory_argument(folder: Path) -> str:
    """The name of ``folder`` for a program that starts inside it, which needs no rights on its parents."""
    return str(OWN_DIRECTORY if OWN_DIRECTORY.exists() else folder)


def plain_reason(output: str) -> str:
    """A sentence for failures that the user can fix, otherwise PostgreSQL's last lines."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return "The disk is full: make room and try again."
    if "Read-only file system" in output:
        return "The disk is read-only."
    lines = [line.strip() for line in output.splitlines() if line.strip()][-6:]
    return "PostgreSQL said: " + " | ".join(lines) if lines else "PostgreSQL said nothing."


@contextmanager
def client_address(folder: Path) -> Iterator[str]:
    """A name of the socket's directory that fits into a socket address and a connection string."""
    if _fits(folder):
        yield str(folder)
        return
    # Not $XDG_RUNTIME_DIR: it goes away with the login session, and the server need not.
    candidates = [*(["/run"] if os.geteuid() == 0 else []), tempfile.gettempdir(), "/tmp"]
    for base in candidates:
        with suppress(OSError):
            private = Path(tempfile.mkdtemp(prefix="mnemosyne-", dir=base))  # a new directory, 0700
            break
    else:
        raise LogUnavailable(
            "No temporary directory is writable, and the path of the data directory is too long for a socket."
        )
    link = private / "db"
    handle = os.open(private, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)  # protects it from systemd-tmpfiles
        link.symlink_to(folder)
        if not _fits(link):
            raise BadConfiguration(f"The temporary directory {private.parent} is too long a path for a socket.")
        yield str(link)
    finally:
        os.close(handle)
        link.unlink(missing_ok=True)
        with suppress(OSError):
            private.rmdir()


def _fits(folder: Path) -> bool:
    # In a connection string, a comma separates hosts, and all bytes must be UTF-8.
    path = f"{folder}/.s.PGSQL.{PORT}"
    try:
        return "," not in path and len(path.encode("utf-8")) <= ADDRESS_BYTES
    except UnicodeEncodeError:
        return False


def connection_string(parameters: dict[str, str]) -> str:
    """A connection string in libpq's keyword form."""
    return " ".join(f"{name}='{_escape(value)}'" for name, value in parameters.items())


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("'", r"\'")


def _identity(folder: Path) -> str:
    """The mark of the server of ``folder`` on its command line. The path may change, and in many containers root cannot
    read the working directory of another user's process.
    """
    status = folder.stat()
    return f"mnemosyne.cluster={status.st_dev}:{status.st_ino}"


def _command_line(pid: int, owner: int) -> Sequence[str]:
    """The arguments of a running process of the user ``owner``; empty for any other process."""
    if not Path("/proc/self/stat").exists():
        return _command_line_from_ps(pid, owner)
    process = Path("/proc") / str(pid)
    try:
        # The name of the process is in parentheses and may hold any character; its state is the next word.
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


def _flush(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
