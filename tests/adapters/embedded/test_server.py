"""The embedded PostgreSQL with a real server: starts and stops, crashes, users, and who may connect."""

import os
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
import trio

from mnemosyne.adapters.embedded import cluster as embedded_cluster
from mnemosyne.adapters.embedded import server as embedded_server
from mnemosyne.adapters.embedded.cluster import Cluster
from mnemosyne.adapters.embedded.programs import NEWEST, ServerUser, find_programs
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.app.storage import is_embedded
from mnemosyne.errors import LogUnavailable, NotFound
from tests.waiting import DEADLINE, until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

A_USER = """
import sys, trio
from pathlib import Path
from mnemosyne.adapters.embedded.server import open_embedded

async def main():
    async with open_embedded(Path(sys.argv[1])) as server:
        print(server.pid, server.adopted, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)

trio.run(main)
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mnemosyne-test-") as folder:
        yield Path(folder) / "data"


@pytest.fixture(scope="module")
def finished_cluster() -> Iterator[Path]:
    """A data directory with a stopped database."""

    async def make() -> None:
        async with open_embedded(path):
            pass

    with tempfile.TemporaryDirectory(prefix="mnemosyne-test-") as folder:
        path = Path(folder) / "data"
        trio.run(make)
        yield path


@pytest.fixture
def warm(finished_cluster: Path, data_dir: Path) -> Iterator[Path]:
    """The finished cluster, lent to a test, which returns it intact: this saves making a new one."""
    finished_cluster.rename(data_dir)
    yield data_dir
    data_dir.chmod(0o700)
    data_dir.rename(finished_cluster)


@pytest.fixture
def disposable(finished_cluster: Path, data_dir: Path) -> Path:
    """A copy of the finished cluster, for a test that damages it."""
    subprocess.run(["cp", "-a", str(finished_cluster), str(data_dir)], check=True)
    return data_dir


class OtherProcess:
    """Another process that uses the server until it disconnects or is killed."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self.server_pid = 0
        self.adopted = False

    async def wait_until_connected(self) -> None:
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            received = await self._process.stdout.receive_some()
            assert received, "the other process did not reach the server"
            line += received
        pid, adopted = line.split()
        self.server_pid, self.adopted = int(pid), adopted == b"True"

    async def disconnect(self) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        assert await self._process.wait() == 0

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def open_other_process(data_dir: Path) -> AsyncIterator[OtherProcess]:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", A_USER, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield OtherProcess(process)
    finally:
        with trio.CancelScope(shield=True):
            process.terminate()
            await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await stream.aclose()
            await stop_leftover(data_dir)


async def stop_leftover(data_dir: Path) -> None:
    """Stop a server that a failed or killed process left behind."""
    if Cluster(data_dir).postmaster() is not None:
        async with open_embedded(data_dir):
            pass


async def select(dsn: str, question: str) -> str:
    def run() -> str:
        with psycopg.connect(dsn) as connection:
            row = connection.execute(question.encode()).fetchone()
        assert row is not None
        return str(row[0])

    return await trio.to_thread.run_sync(run)


async def execute(dsn: str, *statements: str) -> None:
    def run() -> None:
        with psycopg.connect(dsn) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    await trio.to_thread.run_sync(run)


def is_running(data_dir: Path) -> bool:
    return Cluster(data_dir).postmaster() is not None


# Start and stop


@pytest.mark.release
async def test_a_database_is_made_in_an_empty_directory_with_a_long_path(data_dir: Path) -> None:
    data_dir /= "/".join(["y" * 250] * 6)  # longer than PostgreSQL's own limit of 1024
    half = data_dir / "postgres.new-abc" / "base"  # left by a first start that was killed
    half.mkdir(parents=True)
    (half / "1").write_text("half a table")
    data_dir.chmod(0o700)
    with trio.fail_after(DEADLINE):
        async with open_embedded(data_dir) as server:
            assert not server.adopted
            await execute(server.dsn, "CREATE EXTENSION vector")
            assert await select(server.dsn, "SELECT lower('ÄÖÜ')") == "äöü"
            assert await select(server.dsn, "SHOW server_encoding") == "UTF8"
            assert await select(server.dsn, "SELECT current_database()") == "mnemosyne"
            assert is_embedded(server.dsn)
            assert not is_embedded("host=db.example dbname=mnemosyne user=mnemosyne")
    assert not is_running(data_dir)
    assert sorted(os.listdir(data_dir)) == ["postgres", "postgres.lock", "postgres.log", "postgres.users"]


@pytest.mark.release
async def test_two_processes_that_start_together_share_one_server(data_dir: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with open_other_process(data_dir) as one, open_other_process(data_dir) as two:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.wait_until_connected)
                nursery.start_soon(two.wait_until_connected)
            assert one.server_pid == two.server_pid
            assert [one.adopted, two.adopted].count(True) == 1
            await one.disconnect()
            await two.disconnect()
            assert not is_running(data_dir)


async def test_the_server_stops_with_its_last_user(warm: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with open_other_process(warm) as starter:
            await starter.wait_until_connected()
            async with open_embedded(warm) as server:
                assert server.adopted
                assert server.pid == starter.server_pid
                await starter.disconnect()
                assert await select(server.dsn, "SELECT 1") == "1"
                assert server.restarts == 0
            assert not is_running(warm)


async def test_the_server_of_a_killed_process_is_adopted_and_then_stopped(warm: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with open_other_process(warm) as owner:
            await owner.wait_until_connected()
            await owner.kill()
            assert is_running(warm)
            async with open_embedded(warm) as server:
                assert server.adopted
                assert server.pid == owner.server_pid
                assert await select(server.dsn, "SELECT 1") == "1"
            assert not is_running(warm)


async def test_an_error_of_the_user_is_raised_unchanged_and_the_server_stops(warm: Path) -> None:
    with pytest.raises(NotFound, match="as it is"):
        async with open_embedded(warm):
            raise NotFound("as it is")
    assert not is_running(warm)


async def test_a_cancelled_user_stops_the_server(warm: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_embedded(warm):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not is_running(warm)


async def test_a_cancelled_start_stops_its_server(warm: Path) -> None:
    for delay in (0.005, 0.01, 0.02):
        with trio.move_on_after(delay):
            async with open_embedded(warm):
                await trio.sleep_forever()
        assert not is_running(warm)


# Crashes


async def test_a_killed_server_is_restarted_with_all_committed_data(
    warm: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with trio.fail_after(DEADLINE):
        async with open_embedded(warm) as server:
            await execute(server.dsn, "CREATE TABLE survivor AS SELECT 'kept' AS word")
            first = server.pid
            os.kill(first, signal.SIGKILL)
            await until(lambda: server.restarts == 1)
            assert await select(server.dsn, "SELECT word FROM survivor") == "kept"
            os.kill(server.pid, signal.SIGKILL)
            await until(lambda: server.restarts == 2)
            assert await select(server.dsn, "SELECT word FROM survivor") == "kept"
    assert f"process {first}) died; restarting it" in caplog.text
    assert not is_running(warm)


async def test_all_users_of_a_killed_server_share_its_successor(warm: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with open_embedded(warm) as one, open_embedded(warm) as two:
            assert two.adopted
            os.kill(one.pid, signal.SIGKILL)
            await until(lambda: one.restarts == 1)
            await until(lambda: two.restarts == 1)
            assert one.pid == two.pid
            assert await select(two.dsn, "SELECT 1") == "1"


# Refusals


async def test_a_failed_start_is_reported_with_the_reason(disposable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "START_PAUSES", (0.0, 0.01))
    (disposable / "postgres" / "global" / "pg_control").write_bytes(b"")
    with pytest.raises(LogUnavailable, match=r"ended at once\. PostgreSQL said: .*pg_control.*More in .*postgres\.log"):
        async with open_embedded(disposable):
            pass
    assert not is_running(disposable)


async def test_waiting_for_the_lock_ends(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "LOCK_SECONDS", 0.05)
    async with embedded_server.exclusive(Cluster(warm)):
        with pytest.raises(LogUnavailable, match=r"Another process has been starting or stopping"):
            async with open_embedded(warm):
                pass


async def test_no_second_server_is_started_for_an_invisible_one(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "START_PAUSES", (0.0,))
    async with open_embedded(warm) as server:
        with monkeypatch.context() as blind:
            blind.setattr(embedded_cluster, "_command_line", lambda pid, owner: ())
            with pytest.raises(LogUnavailable, match="perhaps in another container"):
                async with open_embedded(warm):
                    pass
        assert server.restarts == 0
        assert await select(server.dsn, "SELECT 1") == "1"


# Paths


AWKWARD = ['it\'s "quoted" \\ back', "Ünïcödé 記憶", "comma, equals = and 100%", "$HOME `id`;", "x" * 200, "with space"]


@pytest.mark.parametrize("name", [AWKWARD[0], *(pytest.param(each, marks=pytest.mark.soak) for each in AWKWARD[1:])])
async def test_the_path_may_hold_any_characters(warm: Path, name: str) -> None:
    path = trio.Path(warm.parent / name / "data")
    await path.parent.mkdir(mode=0o700)
    await trio.Path(warm).rename(path)
    try:
        async with open_embedded(Path(path)) as server:
            assert await select(server.dsn, "SELECT 1") == "1"
            assert await select(server.dsn, "SHOW mnemosyne.data_dir") == str(path)
    finally:
        await path.rename(warm)


# Who may connect


async def test_the_server_is_closed_to_other_users_and_the_network_and_its_log_holds_no_data(warm: Path) -> None:
    async with open_embedded(warm) as server:
        with pytest.raises(psycopg.errors.UniqueViolation):
            await execute(
                server.dsn,
                "CREATE TABLE private_words (word text PRIMARY KEY)",
                *["INSERT INTO private_words VALUES ('my secret')"] * 2,
            )
        assert await select(server.dsn, "SHOW listen_addresses") == ""
        assert await select(server.dsn, "SHOW fsync") == "on"
        for path in (warm, warm / "postgres"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for path in (warm / "postgres.log", warm / "postgres.lock", warm / "postgres.users"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((warm / "postgres" / ".s.PGSQL.5432").stat().st_mode) == 0o700
    text = (warm / "postgres.log").read_text()
    assert "duplicate key" in text
    assert "secret" not in text


CONNECT_AS = """
import os, sys, psycopg
uid, gid, dsn = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with psycopg.connect(dsn): pass  # so that all modules are loaded while we may read them
os.setgroups([]); os.setgid(gid); os.setuid(uid)
try:
    psycopg.connect(dsn)
except psycopg.OperationalError as error:
    print("refused:", error)
else:
    print("connected")
"""


@root_only
async def test_neither_another_user_nor_the_server_s_own_account_can_connect(warm: Path) -> None:
    async with open_embedded(warm) as server:
        account = Cluster(warm).account()
        for uid, gid, reason in (
            (54321, 54321, b"Permission denied"),
            (account.uid, account.gid, b"Peer authentication failed"),
        ):
            command = [sys.executable, "-c", CONNECT_AS, str(uid), str(gid), server.dsn]
            done = await trio.run_process(command, capture_stdout=True)
            assert done.stdout.startswith(b"refused:")
            assert reason in done.stdout
            # Only authentication protects the database from that account.
            await trio.Path(warm).chmod(0o755)
            await trio.Path(warm.parent).chmod(0o755)


A_NON_ROOT_USER = """
import os, sys, trio, psycopg
from pathlib import Path
from mnemosyne.adapters.embedded.server import open_embedded

async def main(path):
    async with open_embedded(path) as server:
        with psycopg.connect(server.dsn) as connection:
            print(server.pid, connection.execute("SELECT current_user").fetchone()[0])

trio.run(main, Path(sys.argv[3]) / "as root")  # so that all modules are loaded while we may read them
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]))
trio.run(main, Path(sys.argv[3]) / "as nobody" / "data")
print(os.stat(Path(sys.argv[3]) / "as nobody" / "data" / "postgres").st_uid)
"""


@pytest.mark.release
@root_only
async def test_an_ordinary_user_runs_the_server_under_their_own_account(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    account = ServerUser("nobody", nobody.pw_uid, nobody.pw_gid)
    if "/var/cache" in find_programs(NEWEST, account).postgres:
        pytest.skip("the installation is below a directory that other users may not enter")
    home = data_dir / "as nobody"
    home.mkdir(parents=True)
    os.chown(home, account.uid, account.gid)
    for folder in (data_dir.parent, data_dir):
        folder.chmod(0o755)
    done = await trio.run_process(
        [sys.executable, "-c", A_NON_ROOT_USER, str(account.uid), str(account.gid), str(data_dir)], capture_stdout=True
    )
    lines = done.stdout.decode().splitlines()
    assert [line.split()[-1] for line in lines] == ["mnemosyne", "mnemosyne", str(account.uid)]
