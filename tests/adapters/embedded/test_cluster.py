"""A cluster on disk: its owner, its server process, its address, and the messages for its failures."""

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
from mnemosyne.errors import DatabaseUnfit

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

OURS = ServerUser(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid())


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A data directory with the empty folder of a cluster."""
    found = Cluster.at(tmp_path / "data")
    found.data_dir.mkdir(mode=0o700)
    found.folder.mkdir(mode=0o700)
    return found


# Its programs


@pytest.mark.parametrize(("version", "named"), [("15\n", "15"), ("", ""), (b"\xff", "of unreadable version")])
def test_files_of_an_unknown_major_version_are_refused(version: str | bytes, named: str, cluster: Cluster) -> None:
    (cluster.folder / "PG_VERSION").write_bytes(version if isinstance(version, bytes) else version.encode())
    with pytest.raises(DatabaseUnfit, match=f"made by PostgreSQL {named}; this installation has 18 and 16"):
        cluster.programs(OURS)


def test_a_folder_that_is_no_cluster_is_refused(cluster: Cluster) -> None:
    with pytest.raises(DatabaseUnfit, match="PG_VERSION is missing"):
        cluster.programs(OURS)


# The process that serves it


@contextmanager
def run_process(*command: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def write_pid_file(cluster: Cluster, pid: object, state: str = "ready") -> None:
    """A pid file that names a process."""
    cluster.pid_file.write_text(f"{pid}\n{cluster.folder}\n1700000000\n5432\n.\n\n  2148035        10\n{state}   \n")


@pytest.mark.parametrize("state", ["ready", "starting"])
def test_the_postmaster_is_the_process_started_for_this_cluster(cluster: Cluster, state: str) -> None:
    mark = embedded_cluster._identity(cluster.folder)
    with run_process(sys.executable, "-c", "print(flush=True); input()", "-c", mark) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write_pid_file(cluster, process.pid, state)
        assert cluster.postmaster() == Postmaster(process.pid, ready=state == "ready")


def test_another_living_process_is_not_the_postmaster(cluster: Cluster) -> None:
    write_pid_file(cluster, os.getpid())
    assert cluster.postmaster() is None


def test_a_zombie_is_not_the_postmaster(cluster: Cluster) -> None:
    with run_process("true", embedded_cluster._identity(cluster.folder)) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        write_pid_file(cluster, process.pid)
        assert cluster.postmaster() is None


@pytest.mark.parametrize("content", ["", "nonsense", "0\n", "99999999\n"])
def test_an_invalid_pid_file_is_removed_before_a_start(cluster: Cluster, content: str) -> None:
    cluster.pid_file.write_text(content)
    assert cluster.postmaster() is None
    cluster.prepare_start(OURS)
    assert not cluster.pid_file.exists()


def test_the_login_rules_are_replaced_at_each_start(cluster: Cluster) -> None:
    victim = cluster.data_dir / "victim"
    victim.write_text("whole")
    (cluster.folder / "pg_hba.conf").symlink_to(victim)  # planted by the account that owns the folder
    cluster.prepare_start(OURS)
    assert (cluster.folder / "pg_hba.conf").read_text() == HBA
    assert victim.read_text() == "whole"
    assert OURS.name in (cluster.folder / "pg_ident.conf").read_text()


def test_the_log_is_rotated_at_a_start(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_cluster, "LOG_BYTES", 10)
    for _ in range(3):
        cluster.log.write_text("x" * 1000)
        cluster.prepare_start(OURS)
        with cluster.open_log() as file:
            assert file.tell() == 0
    assert sorted(each.name for each in cluster.data_dir.glob("*.log*")) == ["postgres.log", "postgres.log.1"]


# Paths


def test_a_long_path_is_replaced_by_a_private_link_for_a_time(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 200)
    with client_address(long) as address:
        link = Path(address)
        assert link.readlink() == long
        status = link.parent.stat()
        assert stat.S_IMODE(status.st_mode) == 0o700
        assert status.st_uid == os.geteuid()
    assert not link.parent.exists()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_any_value_can_be_written_in_a_connection_string(value: str) -> None:
    parameters = {"application_name": value, "host": value}
    assert conninfo_to_dict(connection_string(parameters)) == parameters


# Failures


def test_a_failure_is_reported_in_the_last_lines_of_postgresql() -> None:
    assert plain_reason("") == "PostgreSQL said nothing."
    disk = 'initdb: error: could not write to file "pg_wal/xlogtemp.1": No space left on device'
    assert plain_reason(disk) == "The disk is full: make room and try again."
    lines = "\n".join(f"line {number}" for number in range(9))
    assert plain_reason(lines) == "PostgreSQL said: " + " | ".join(f"line {number}" for number in range(3, 9))
