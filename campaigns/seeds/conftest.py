"""The played sessions that several tests look at."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from campaigns.seeds.auth_work import Seen, play
from tests.clients.conftest import programs, server
from tests.fixtures import PostgresServer

__all__ = ["programs", "seen", "server"]


@pytest.fixture(scope="package")
def seen(postgres_server: PostgresServer, template: str) -> Iterator[Seen]:
    """The session about authentication, played to its end; its database can still be queried."""
    # Not pytest's own temporary folder, which keeps its content for three runs.
    with (
        tempfile.TemporaryDirectory(prefix="mnemosyne-seeds-") as folder,
        postgres_server.fresh_database(template) as dsn,
    ):
        yield trio.run(play, Path(folder), dsn)
