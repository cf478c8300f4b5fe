"""The embedded PostgreSQL, each time with a real server: its life, its deaths, its users, and who is kept out."""

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
from mnemosyne.adapters.embedded.programs import (
    NEWEST,
    ServerUser,
    account_for,
    find_programs,
)
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.errors import DatabaseUnfit, LogUnavailable, NotFound
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
    """A data directory that was used and left in order."""

    async def make() -> None:
        async with open_embedded(path):
            pass

    with tempfile.TemporaryDirectory(prefix="mnemosyne-test-") as folder:
        path = Path(folder) / "data"
        trio.run(make)
        yield path


@pytest.fixture
def warm(finished_cluster: Path, data_dir: Path) -> Iterator[Path]:
    """The finished one, lent to a test, which hands it back whole: that spares it the cold start."""
    finished_cluster.rename(data_dir)
    yield data_dir
    data_dir.chmod(0o700)
    data_dir.rename(finished_cluster)


@pytest.fixture
def disposable(finished_cluster: Path, data_dir: Path) -> Path:
    """A copy of the finished one, for a test that damages it."""
    subprocess.run(["cp", "-a", str(finished_cluster), str(data_dir)], check=True)
    return data_dir


class AnotherUser:
    """Another process that uses the server, until told to leave or killed."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self.server_pid = 0
        self.adopted = False

    async def arrived(self) -> None:
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            received = await self._process.stdout.receive_some()
            assert received, "the other user did not get to the server"
            line += received
        pid, adopted = line.split()
        self.server_pid, self.adopted = int(pid), adopted == b"True"

    async def leave(self) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.aclose()
        assert await self._process.wait() == 0

    async def die(self) -> None:
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def another_user(data_dir: Path) -> AsyncIterator[AnotherUser]:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", A_USER, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield AnotherUser(process)
    finally:
        with trio.CancelScope(shield=True):
            process.terminate()
            await process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await stream.aclose()
            await stop_leftover(data_dir)


async def stop_leftover(data_dir: Path) -> None:
    """Whatever a failed or killed user left behind: come and go, as the last one."""
    if Cluster(data_dir).postmaster() is not None:
        async with open_embedded(data_dir):
            pass


async def ask(dsn: str, question: str) -> str:
    def run() -> str:
        with psycopg.connect(dsn) as connection:
            row = connection.execute(question.encode()).fetchone()
        assert row is not None
        return str(row[0])

    return await trio.to_thread.run_sync(run)


async def tell(dsn: str, *statements: str) -> None:
    def run() -> None:
        with psycopg.connect(dsn) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    await trio.to_thread.run_sync(run)


def lives(data_dir: Path) -> bool:
    return Cluster(data_dir).postmaster() is not None


def server_account(data_dir: Path) -> ServerUser:
    return Cluster(data_dir).account()


# Coming and going


async def test_an_empty_directory_becomes_a_database_that_has_vectors_and_reads_unicode(data_dir: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with open_embedded(data_dir) as server:
            assert not server.adopted
            await tell(server.dsn, "CREATE EXTENSION vector")
            assert await ask(server.dsn, "SELECT lower('ÄÖÜ')") == "äöü"
            assert await ask(server.dsn, "SHOW server_encoding") == "UTF8"
            assert await ask(server.dsn, "SELECT current_database()") == "mnemosyne"
    assert not lives(data_dir)


async def test_what_was_written_is_there_the_next_time(warm: Path) -> None:
    async with open_embedded(warm) as server:
        await tell(server.dsn, "CREATE TABLE written AS SELECT 'kept' AS word")
    assert not lives(warm)
    async with open_embedded(warm) as server:
        assert await ask(server.dsn, "SELECT word FROM written") == "kept"


async def test_two_processes_that_begin_together_on_an_empty_directory_share_one_server(data_dir: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with another_user(data_dir) as one, another_user(data_dir) as two:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.arrived)
                nursery.start_soon(two.arrived)
            assert one.server_pid == two.server_pid
            assert [one.adopted, two.adopted].count(True) == 1
            await one.leave()
            await two.leave()
            assert not lives(data_dir)


async def test_the_server_outlives_who_started_it_and_goes_with_the_last_user(warm: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with another_user(warm) as starter:
            await starter.arrived()
            async with open_embedded(warm) as server:
                assert server.adopted
                assert server.pid == starter.server_pid
                await starter.leave()
                assert await ask(server.dsn, "SELECT 1") == "1"
                assert server.restarts == 0
            assert not lives(warm)


async def test_who_leaves_first_leaves_the_server_to_the_others(warm: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with another_user(warm) as other:
            async with open_embedded(warm) as server:
                await other.arrived()
                assert other.adopted
            assert other.server_pid == server.pid
            assert lives(warm)
            await other.leave()
            assert not lives(warm)


async def test_a_server_whose_owner_was_killed_is_adopted_and_then_stopped(warm: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with another_user(warm) as owner:
            await owner.arrived()
            await owner.die()
            assert lives(warm)
            async with open_embedded(warm) as server:
                assert server.adopted
                assert server.pid == owner.server_pid
                assert await ask(server.dsn, "SELECT 1") == "1"
            assert not lives(warm)


async def test_an_error_of_the_user_comes_out_as_it_is_and_the_server_is_stopped(warm: Path) -> None:
    with pytest.raises(NotFound, match="as it is"):
        async with open_embedded(warm):
            raise NotFound("as it is")
    assert not lives(warm)


async def test_a_cancelled_user_still_stops_the_server(warm: Path) -> None:
    with trio.CancelScope() as scope:
        async with open_embedded(warm):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not lives(warm)


async def test_a_start_that_is_cancelled_leaves_no_server_behind(warm: Path) -> None:
    for delay in (0.005, 0.01, 0.02):
        with trio.move_on_after(delay):
            async with open_embedded(warm):
                await trio.sleep_forever()
        assert not lives(warm)


# Deaths


async def test_a_server_that_is_killed_comes_back_with_all_that_was_committed(
    warm: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with trio.fail_after(DEADLINE):
        async with open_embedded(warm) as server:
            await tell(server.dsn, "CREATE TABLE survivor AS SELECT 'kept' AS word")
            first = server.pid
            os.kill(first, signal.SIGKILL)
            await until(lambda: server.restarts == 1)
            assert await ask(server.dsn, "SELECT word FROM survivor") == "kept"
            os.kill(server.pid, signal.SIGKILL)
            await until(lambda: server.restarts == 2)
            assert await ask(server.dsn, "SELECT word FROM survivor") == "kept"
    assert f"process {first}) died; it is being started again" in caplog.text
    assert not lives(warm)


async def test_when_an_adopted_server_dies_all_users_meet_on_a_new_one(warm: Path) -> None:
    with trio.fail_after(DEADLINE):
        async with open_embedded(warm) as one, open_embedded(warm) as two:
            assert two.adopted
            os.kill(one.pid, signal.SIGKILL)
            await until(lambda: one.restarts == 1)
            await until(lambda: two.restarts == 1)
            assert one.pid == two.pid
            assert await ask(two.dsn, "SELECT 1") == "1"


async def test_a_stale_pid_file_that_names_another_living_process_does_not_hinder_and_spares_it(warm: Path) -> None:
    with bystander(warm, ["sleep", "1000"]) as process:
        leave_pid_file(warm, process.pid)
        async with open_embedded(warm) as server:
            assert not server.adopted
            assert await ask(server.dsn, "SELECT 1") == "1"
        assert process.poll() is None


def bystander(data_dir: Path, command: list[str]) -> "_Bystander":
    account = server_account(data_dir)
    identity = {} if account.is_ours else {"user": account.uid, "group": account.gid}
    return _Bystander(subprocess.Popen(command, **identity))  # type: ignore[call-overload]


class _Bystander:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def __enter__(self) -> "subprocess.Popen[bytes]":
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def leave_pid_file(data_dir: Path, pid: int) -> None:
    """What a machine that lost its power leaves, when the number has since gone to somebody else."""
    cluster = Cluster(data_dir)
    account = server_account(data_dir)
    for file in (cluster.pid_file, cluster.socket_lock):
        file.write_text(f"{pid}\n{cluster.folder}\n1700000000\n5432\n.\n\n  2148035        10\nready   \n")
        os.chown(file, account.uid, account.gid)


@pytest.fixture
def interrupted(data_dir: Path) -> Path:
    """What remains when the very first start is killed."""
    half = data_dir / "postgres.new-abc" / "base"
    half.mkdir(parents=True)
    (half / "1").write_text("half a table")
    return data_dir


async def test_a_half_made_cluster_is_removed_and_made_again(interrupted: Path) -> None:
    async with open_embedded(interrupted) as server:
        assert await ask(server.dsn, "SELECT 1") == "1"
    assert sorted(os.listdir(interrupted)) == ["postgres", "postgres.lock", "postgres.log", "postgres.users"]


# Refusals


async def test_a_directory_that_is_no_database_is_left_alone(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    account = account_for(None)
    os.chown(data_dir / "postgres", account.uid, account.gid)
    with pytest.raises(DatabaseUnfit, match="PG_VERSION is missing"):
        async with open_embedded(data_dir):
            pass


async def test_a_server_that_does_not_start_says_why(disposable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "START_PAUSES", (0.0, 0.01))
    (disposable / "postgres" / "global" / "pg_control").write_bytes(b"")
    with pytest.raises(LogUnavailable, match=r"ended at once\. PostgreSQL said: .*pg_control.*More in .*postgres\.log"):
        async with open_embedded(disposable):
            pass
    assert not lives(disposable)


async def test_a_lock_that_is_never_released_ends_the_waiting(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_server, "LOCK_SECONDS", 0.05)
    async with embedded_server.exclusive(Cluster(warm)):
        with pytest.raises(LogUnavailable, match=r"Another process has been starting or stopping"):
            async with open_embedded(warm):
                pass


async def test_a_server_that_answers_but_cannot_be_seen_is_not_doubled(
    warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_server, "START_PAUSES", (0.0,))
    async with open_embedded(warm) as server:
        with monkeypatch.context() as blind:
            blind.setattr(embedded_cluster, "_command_line", lambda pid, owner: ())
            with pytest.raises(LogUnavailable, match="perhaps in another container"):
                async with open_embedded(warm):
                    pass
        assert server.restarts == 0
        assert await ask(server.dsn, "SELECT 1") == "1"


# Paths


AWKWARD = ['it\'s "quoted" \\ back', "Ünïcödé 記憶", "comma, equals = and 100%", "$HOME `id`;", "x" * 200, "with space"]


IN_SOAK = [pytest.param(each, marks=pytest.mark.soak) for each in AWKWARD[1:]]


@pytest.mark.parametrize("name", [AWKWARD[0], *IN_SOAK])
async def test_any_path_will_do(warm: Path, name: str) -> None:
    path = trio.Path(warm.parent / name / "data")
    await path.parent.mkdir(mode=0o700)
    await trio.Path(warm).rename(path)
    try:
        async with open_embedded(Path(path)) as server:
            assert await ask(server.dsn, "SELECT 1") == "1"
            assert await ask(server.dsn, "SHOW mnemosyne.data_dir") == str(path)
    finally:
        await path.rename(warm)


async def test_a_path_of_great_length_will_do_from_the_first_start(data_dir: Path) -> None:
    path = data_dir / "/".join(["y" * 250] * 6)  # longer than PostgreSQL's own limit of 1024
    async with open_embedded(path) as server:
        assert await ask(server.dsn, "SELECT 1") == "1"


# Who is kept out


async def test_nothing_is_open_to_other_users_or_to_the_network(warm: Path) -> None:
    async with open_embedded(warm) as server:
        assert await ask(server.dsn, "SHOW listen_addresses") == ""
        assert await ask(server.dsn, "SHOW fsync") == "on"
        for path in (warm, warm / "postgres"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for path in (warm / "postgres.log", warm / "postgres.lock", warm / "postgres.users"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((warm / "postgres" / ".s.PGSQL.5432").stat().st_mode) == 0o700


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
@pytest.mark.parametrize("who", ["stranger", "the server's account"])
async def test_another_unprivileged_user_cannot_connect(warm: Path, who: str) -> None:
    async with open_embedded(warm) as server:
        account = server_account(warm)
        if who == "stranger":
            uid, gid = 54321, 54321
        else:
            uid, gid = account.uid, account.gid
            # Nothing but authentication stands between this account and the database.
            await trio.Path(warm).chmod(0o755)
            await trio.Path(warm.parent).chmod(0o755)
        done = await trio.run_process(
            [sys.executable, "-c", CONNECT_AS, str(uid), str(gid), server.dsn], capture_stdout=True
        )
        reason = b"Permission denied" if who == "stranger" else b"Peer authentication failed"
        assert done.stdout.startswith(b"refused:")
        assert reason in done.stdout


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


@root_only
async def test_an_ordinary_user_runs_the_server_in_his_own_name(data_dir: Path) -> None:
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


# The log


async def test_what_people_wrote_does_not_reach_the_log(warm: Path) -> None:
    async with open_embedded(warm) as server:
        with pytest.raises(psycopg.errors.UniqueViolation):
            await tell(
                server.dsn,
                "CREATE TABLE private_words (word text PRIMARY KEY)",
                *["INSERT INTO private_words VALUES ('my secret')"] * 2,
            )
    text = (warm / "postgres.log").read_text()
    assert "duplicate key" in text
    assert "secret" not in text


# The fixtures that other tests use


def test_each_test_gets_an_empty_database_of_its_own(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert tables.fetchone() == (0,)
        connection.execute("CREATE TABLE mine (id int)")


async def test_the_database_serves_trio_tests_as_well(dsn: str) -> None:
    assert (await ask(dsn, "SELECT current_database()")).startswith("test_")
    assert await ask(dsn, "SELECT count(*) FROM pg_class WHERE relname = 'mine'") == "0"
