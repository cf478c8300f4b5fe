"""The supervisor replaces a worker that ends or hangs."""

import pickle
import signal
import sys
from binascii import b2a_base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from mnemosyne.actors.helper_work import HelperQueue
from mnemosyne.actors.loaded_sessions import LoadedSessions
from mnemosyne.adapters.postgres.bills import PostgresBills
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.reconnecting_log import OpenLog, ReconnectingLog
from mnemosyne.app import supervising
from mnemosyne.app.supervising import Supervisor, run_child
from mnemosyne.app.worker_link import Beat, Line, WorkerStatus
from mnemosyne.domain.session.helper_results import SUMMARY
from tests.actors.support import StoppableLog, open_process
from tests.actors.test_helper_work import Settled
from tests.adapters.indexing import always
from tests.adapters.log_support import CODEC, open_database, until
from tests.app.test_worker_link import REQUEST
from tests.cli.support import ended
from tests.waiting import DEADLINE

BEAT = b2a_base64(pickle.dumps(Beat(leads=True)), newline=False).decode()
"""The message that a worker sends each second."""


@asynccontextmanager
async def supervised(
    dsn: str, tmp_path: Path, script: str, orders: HelperQueue | None = None
) -> AsyncIterator[Supervisor]:
    """A server's supervisor whose worker is a script; each start leaves a line in ``starts``."""
    program = tmp_path / "worker.py"
    program.write_text(
        f"import os, sys, time\nprint(os.getpid(), file=open({str(tmp_path / 'starts')!r}, 'a'))\n{script}"
    )
    reconnecting = ReconnectingLog()
    async with open_process(StoppableLog()) as process, open_database(dsn) as database, trio.open_nursery() as nursery:
        process.registry.orders = orders
        opened = OpenLog(
            database,
            PostgresEventLog(database, CODEC),
            PostgresContentStore(database),
            PostgresObjectIndex(database, always(None)),
            PostgresDirectory(database, PostgresEventLog(database, CODEC)),
            PostgresBills(database, PostgresEventLog(database, CODEC)),
        )
        command = (sys.executable, "-I", str(program))
        supervisor = Supervisor(reconnecting, LoadedSessions(process.registry), {}, command)
        nursery.start_soon(supervisor.run)
        with reconnecting.holding(opened):
            yield supervisor
            nursery.cancel_scope.cancel()


def starts(tmp_path: Path) -> list[str]:
    try:
        return (tmp_path / "starts").read_text().split()
    except FileNotFoundError:
        return []


async def test_a_worker_that_ends_is_restarted_with_backoff(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE", 0.001)
    async with supervised(dsn, tmp_path, "sys.exit(3)") as supervisor:
        await until(lambda: len(starts(tmp_path)) > 3)
        status = await supervisor.describe()
        assert status["restarts"] >= 2  # type: ignore[operator]
    pauses = [record.getMessage().rpartition(" in ")[2] for record in caplog.records if "exit code 3" in record.message]
    assert pauses[:3] == ["0.001 s.", "0.002 s.", "0.004 s."]


async def test_a_server_does_not_wait_for_what_a_worker_that_ended_had_taken(dsn: str, tmp_path: Path) -> None:
    orders = HelperQueue()
    orders.put(attrs.evolve(REQUEST, order=attrs.evolve(REQUEST.order, task=SUMMARY)), Settled())
    await orders.take()
    async with supervised(dsn, tmp_path, "sys.exit(3)", orders):
        with trio.fail_after(DEADLINE):
            await orders.finish_summaries()


async def test_a_hung_worker_is_reported_and_replaced(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, seconds in (
        ("SILENT_SECONDS", 0.0),
        ("HUNG_SECONDS", 0.5),
        ("WATCH_SECONDS", 0.01),
        ("FIRST_PAUSE", 0.001),
    ):
        monkeypatch.setattr(supervising, name, seconds)
    async with supervised(dsn, tmp_path, f"print({BEAT!r}, flush=True)\ntime.sleep(1000)") as supervisor:
        states: list[object] = []
        while "hung" not in states:
            states.append((await supervisor.describe())["state"])
        await until(lambda: len(starts(tmp_path)) > 1)
    assert "has not responded for" in caplog.text
    assert "The worker ended (SIGKILL)" in caplog.text


async def test_a_process_is_replaced_for_its_own_silence_and_not_for_its_supervisor_s(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    running, started = list[trio.Process](), trio.Event()

    async def talk(process: trio.Process, _: Line, status: WorkerStatus) -> None:
        running.append(process)
        status.began = True
        started.set()

    command = (sys.executable, "-I", "-c", "import time; time.sleep(1000)")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_child, command, {}, talk, "It", 20.0)
        await started.wait()
        await wait_all_tasks_blocked()
        mock_clock.jump(23)  # as if the supervisor was stopped
        await wait_all_tasks_blocked()
        assert "It has not responded" not in caplog.text
        for _ in range(22):
            mock_clock.jump(1)
            await wait_all_tasks_blocked()
        assert "It has not responded for 21 s and is replaced." in caplog.text
        assert await running[0].wait() == -signal.SIGKILL


async def test_a_slow_start_is_not_reported_as_hung(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "HUNG_SECONDS", 0.0)
    monkeypatch.setattr(supervising, "WATCH_SECONDS", 0.001)
    async with supervised(dsn, tmp_path, "time.sleep(1000)") as supervisor:
        await until(lambda: bool(starts(tmp_path)))
        for _ in range(20):
            assert (await supervisor.describe())["state"] == "starting"
    assert len(starts(tmp_path)) == 1


async def test_a_worker_that_does_not_end_is_killed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "STOP_SECONDS", 0.05)
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1000)"
    async with supervised(dsn, tmp_path, stubborn):
        await until(lambda: bool(starts(tmp_path)))
    (pid,) = starts(tmp_path)
    assert ended(int(pid))


async def test_the_state_is_reported_without_worker_and_database(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with supervised(dsn, tmp_path, "") as supervisor:
        monkeypatch.setattr(supervising, "FIRST_PAUSE", 1000.0)
        await until(lambda: bool(starts(tmp_path)))
        status = await supervisor.describe()
        of_the_database = {"events_behind", "seconds_behind", "seconds_held", "damaged_sessions"}
        assert of_the_database <= status.keys()
        supervisor._log = ReconnectingLog()
        assert not of_the_database & (await supervisor.describe()).keys()


async def test_a_restart_replaces_the_worker(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE", 0.01)
    async with supervised(dsn, tmp_path, "sys.stdin.read()") as supervisor:
        await until(lambda: len(starts(tmp_path)) == 1)
        supervisor.restart()
        await until(lambda: len(starts(tmp_path)) == 2)
