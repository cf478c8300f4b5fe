"""Fixtures: one shared database of sessions for all read-only tests."""

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

from tests.fixtures import PostgresServer
from tests.http.inspector.shown import Pages, fill, open_pages, session


@attrs.frozen
class ShownLog:
    """The database's address and the ids of its sessions."""

    dsn: str
    folder: Path
    session: str
    other: str


@pytest.fixture(scope="session")
def shown(
    postgres_server: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShownLog]:
    """A managed session with a compaction, and a short one whose usage the provider reported."""
    folder = tmp_path_factory.mktemp("pages")
    with postgres_server.fresh_database(template) as dsn, ThreadPoolExecutor() as threads:
        short = session("another", turns=2, said="nothing odd")
        for turn in short["turns"]:
            turn["usage"] = {"input": 10, "cache_read": 1_000, "cache_write": 5_000}
        first, other = threads.submit(fill, dsn, folder, session(), short).result()
        yield ShownLog(dsn, folder, str(first), str(other))


@pytest.fixture
async def pages(shown: ShownLog) -> AsyncIterator[Pages]:
    """The pages of that log, with the owner's access."""
    async with open_pages(shown.dsn, shown.folder) as opened:
        yield opened
