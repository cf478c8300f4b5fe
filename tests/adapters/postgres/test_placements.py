"""Databases that share the sessions: each knows the place of every session, even if another one placed it."""

from pathlib import Path

import pytest

from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.placements import count_places, find_place, join_shards
from mnemosyne.app.storage import event_codec
from mnemosyne.errors import DatabaseUnfit
from tests.app.home import at_home
from tests.app.test_worker import converse
from tests.fixtures import LentDatabases
from tests.http.managing import Client

NOWHERE = "postgresql:///none?host=/nowhere"


async def join(database: Database, number: int, *others: str) -> None:
    await join_shards(database, PostgresEventLog(database, event_codec()), number, others)


async def test_a_session_stays_where_it_was_placed_first(dsn: str) -> None:
    database = Database(dsn)
    assert await find_place(database, "s", {}) is None
    assert await find_place(database, "s", {"s": 1, "agent": 1}) == 1
    assert await find_place(database, "s", {"s": 0}) == 1
    assert await find_place(database, "agent", {}) == 1
    database.close()


async def test_databases_exchange_their_rows_and_adopt_earlier_sessions(
    tmp_path: Path, databases: LentDatabases
) -> None:
    with databases.lend() as one, databases.lend() as two:
        async with at_home(tmp_path, one) as home, home.serving() as url:
            await converse(Client(url, session="old"))
            await home.events("old")
        first, second = Database(one), Database(two)
        await find_place(second, "late", {"late": 1})
        await join(first, 0, NOWHERE, two)
        assert [await find_place(each, "old", {}) for each in (first, second)] == [0, 0]
        assert [await find_place(each, "late", {}) for each in (first, second)] == [1, 1]
        await join(second, 1, one)
        assert (await count_places(first), await count_places(second)) == (2, 2), "each also has a row for itself"
        first.close()
        second.close()


async def test_a_database_in_another_place_of_the_settings_is_not_used(dsn: str) -> None:
    database = Database(dsn)
    await join(database, 1)
    with pytest.raises(DatabaseUnfit, match=r"number 1 .* number 0; restore their order"):
        await join(database, 0)
    database.close()
