"""A conversation without a worker: a real server and a real database."""

from pathlib import Path

import psycopg
import pytest

from mnemosyne.adapters.postgres.leading import LOCK
from tests.adapters.log_support import query
from tests.app.home import at_home
from tests.app.test_worker import converse
from tests.http.managing import Client

pytestmark = pytest.mark.soak


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
