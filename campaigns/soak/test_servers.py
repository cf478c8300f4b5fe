"""Conversations without a worker: a real server and a real database."""

from pathlib import Path

import psycopg
import pytest
import trio

from mnemosyne.adapters.postgres.leading import LOCK
from tests.adapters.log_support import query
from tests.app.home import Served, at_home
from tests.app.test_worker import assert_as_rebuilt, caught_up, converse
from tests.http.managing import Client
from tests.waiting import DEADLINE

pytestmark = pytest.mark.soak


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
