"""A cluster on disk: whose it may be, which process serves it, how clients reach it, what its failures are called."""

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from mnemosyne.adapters.embedded import cluster as embedded_cluster
from mnemosyne.adapters.embedded.cluster import (
    HBA,
    Cluster,
    Postmaster,
    client_address,
    connection_string,
    plain_reason,
)
from mnemosyne.adapters.embedded.programs import ServerUser
from mnemosyne.errors import BadConfiguration, DatabaseUnfit

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

OURS = ServerUser(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid())


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A data directory with the folder of a cluster, of which nothing was made yet."""
    found = Cluster.at(tmp_path / "data")
    found.make_data_dir()
    found.folder.mkdir(mode=0o700)
    return found


# The data directory


def test_a_data_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    found = Cluster.at(tmp_path / "a/b/data")
    found.make_data_dir()
    found.make_data_dir()
    assert stat.S_IMODE(found.data_dir.stat().st_mode) == 0o700


def test_a_file_in_the_place_of_the_directory_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(BadConfiguration, match="is not a directory"):
        Cluster.at(tmp_path / "data").make_data_dir()


def test_a_directory_that_everybody_may_write_is_refused(cluster: Cluster) -> None:
    cluster.data_dir.chmod(0o777)
    with pytest.raises(BadConfiguration, match="can be written by every user"):
        cluster.make_data_dir()


@root_only
def test_a_directory_of_another_user_is_refused(cluster: Cluster) -> None:
    os.chown(cluster.data_dir, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(BadConfiguration, match="belongs to nobody, and this is root"):
        cluster.make_data_dir()


# Its programs


@pytest.mark.parametrize(("version", "named"), [("15\n", "15"), ("", ""), (b"\xff", "of unreadable version")])
def test_files_of_another_major_version_are_refused_in_one_sentence(
    version: str | bytes, named: str, cluster: Cluster
) -> None:
    (cluster.folder / "PG_VERSION").write_bytes(version if isinstance(version, bytes) else version.encode())
    with pytest.raises(DatabaseUnfit, match=f"made by PostgreSQL {named}; this installation brings 18 and 16"):
        cluster.programs(OURS)


def test_files_that_are_no_cluster_are_none_to_make_one_of(cluster: Cluster) -> None:
    with pytest.raises(DatabaseUnfit, match="PG_VERSION is missing"):
        cluster.programs(OURS)


# The process that serves it


@contextmanager
def running(*command: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def named(cluster: Cluster, pid: object, state: str = "ready") -> None:
    """A pid file that names a process."""
    cluster.pid_file.write_text(f"{pid}\n{cluster.folder}\n1700000000\n5432\n.\n\n  2148035        10\n{state}   \n")


@pytest.mark.parametrize("state", ["ready", "starting"])
def test_the_server_is_the_process_that_was_started_for_this_cluster(cluster: Cluster, state: str) -> None:
    mark = embedded_cluster._identity(cluster.folder)
    with running(sys.executable, "-c", "print(flush=True); input()", "-c", mark) as process:
        assert process.stdout is not None
        process.stdout.readline()
        named(cluster, process.pid, state)
        assert cluster.postmaster() == Postmaster(process.pid, ready=state == "ready")


def test_another_living_process_is_no_server(cluster: Cluster) -> None:
    named(cluster, os.getpid())
    assert cluster.postmaster() is None


def test_a_zombie_is_no_server(cluster: Cluster) -> None:
    with running("true", embedded_cluster._identity(cluster.folder)) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        named(cluster, process.pid)
        assert cluster.postmaster() is None


@pytest.mark.parametrize("content", ["", "nonsense", "0\n", "99999999\n"])
def test_an_unreadable_pid_file_names_no_server_and_is_cleared_before_a_start(cluster: Cluster, content: str) -> None:
    cluster.pid_file.write_text(content)
    assert cluster.postmaster() is None
    cluster.prepare_start(OURS)
    assert not cluster.pid_file.exists()


def test_only_who_may_log_in_is_written_anew_at_each_start(cluster: Cluster) -> None:
    victim = cluster.data_dir / "victim"
    victim.write_text("whole")
    (cluster.folder / "pg_hba.conf").symlink_to(victim)  # planted by the account that owns the folder
    cluster.prepare_start(OURS)
    assert (cluster.folder / "pg_hba.conf").read_text() == HBA
    assert victim.read_text() == "whole"
    assert OURS.name in (cluster.folder / "pg_ident.conf").read_text()


def test_the_log_is_bounded_at_each_start(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_cluster, "LOG_BYTES", 10)
    for _ in range(3):
        cluster.log.write_text("x" * 1000)
        cluster.prepare_start(OURS)
        with cluster.open_log() as file:
            assert file.tell() == 0
    assert sorted(each.name for each in cluster.data_dir.glob("*.log*")) == ["postgres.log", "postgres.log.1"]


# Paths


def test_the_way_round_a_long_path_is_private_and_goes_away(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 200)
    with client_address(long) as address:
        link = Path(address)
        assert link.readlink() == long
        status = link.parent.stat()
        assert stat.S_IMODE(status.st_mode) == 0o700
        assert status.st_uid == os.geteuid()
    assert not link.parent.exists()


def test_a_short_path_is_used_as_it_is() -> None:
    with client_address(Path("/srv/a b")) as address:
        assert address == "/srv/a b"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_every_value_survives_the_connection_string(value: str) -> None:
    parameters = {"application_name": value, "host": value}
    assert conninfo_to_dict(connection_string(parameters)) == parameters


# Failures


def test_a_full_disk_is_called_a_full_disk() -> None:
    said = 'initdb: error: could not write to file "pg_wal/xlogtemp.1": No space left on device'
    assert plain_reason(said) == "The disk is full: make room and try again."


def test_other_failures_are_told_in_the_last_words_of_postgresql() -> None:
    assert plain_reason("") == "PostgreSQL said nothing."
    said = "\n".join(f"line {number}" for number in range(9))
    assert plain_reason(said) == "PostgreSQL said: " + " | ".join(f"line {number}" for number in range(3, 9))
