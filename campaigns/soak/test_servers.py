"""Conversations through restarts, many at once on a busy machine, and without a worker: real servers and a real
database.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import trio

from mnemosyne.adapters.postgres.leading import LOCK
from mnemosyne.domain.session.round_events import BranchModeSet, Mode
from tests.adapters.log_support import query
from tests.app.home import Served, at_home
from tests.app.test_worker import DONE, assert_as_rebuilt, caught_up, converse
from tests.http.managing import Client
from tests.waiting import DEADLINE

pytestmark = pytest.mark.soak

AT_ONCE = 20
"""Conversations that begin at the same moment."""


async def test_managed_conversation_stays_managed_on_a_server_that_only_observes(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        client = Client("", session="s")
        for mode in ("manage", None, "manage"):
            async with home.serving(mode) as client.url:
                for _ in range(2):
                    message = await client.work("Where is it?")
                    assert message.get("content", [message])[-1] == DONE
        home.assert_lawful()
        modes = [event.mode for event in await home.events("s") if isinstance(event, BranchModeSet)]
        assert modes == [Mode.MANAGE]
        assert all("memory_query" in str(each.json()["tools"]) for each in home.standin.messages)


@pytest.mark.parametrize("mode", ["manage", "observe"])
async def test_each_of_many_conversations_that_begin_at_once_has_one_mode(mode: str, tmp_path: Path) -> None:
    async with at_home(tmp_path) as home, home.serving(mode) as url:
        clients = [Client(url, session=f"s{number}") for number in range(AT_ONCE)]
        with busy():
            async with trio.open_nursery() as nursery:
                for client in clients:
                    nursery.start_soon(converse, client, 3)
        home.assert_lawful()
        for client in clients:
            decided = [event for event in await home.events(client.session) if isinstance(event, BranchModeSet)]
            assert len(decided) == (1 if mode == "manage" else 0)


@contextmanager
def busy() -> Iterator[None]:
    """Keep every core busy within the block."""
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


async def until_behind(served: Served) -> None:
    """Wait until the server reports recorded events that no worker has processed; a turn may be recorded late."""
    with trio.fail_after(DEADLINE):
        while True:
            if (await served.worker_status()).get("events_behind"):
                return
            await trio.sleep(0.05)  # the server sends no notification


async def test_a_late_worker_processes_earlier_events(tmp_path: Path, dsn: str) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served():
            pass  # the schema is there
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_advisory_lock(%s)", (LOCK,))
            async with home.served("manage") as served:
                await served.until_worker(state="standing by")
                await converse(Client(served.url, session="s"))
                await until_behind(served)
                other.close()
                await caught_up(served)
                await assert_as_rebuilt(home)


async def test_conversation_continued_under_another_name_is_recognized_without_a_worker(
    tmp_path: Path, dsn: str
) -> None:
    async with at_home(tmp_path, dsn) as home:
        async with home.served():
            pass  # the schema is there
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_advisory_lock(%s)", (LOCK,))
            async with home.served("manage") as served:
                client = Client(served.url, session="s")
                await converse(client)
                gone_on = Client(served.url, session="t", history=client.history)
                await converse(gone_on)
                assert query(
                    dsn, "select count(*) from mnemosyne.stored_events where topic like 'session.started.%'"
                ) == [(1,)]
                home.assert_lawful()
