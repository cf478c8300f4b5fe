"""What many tests need: one PostgreSQL for the whole run, and a database in it for each test that asks.

Set MNEMOSYNE_TEST_DSN to run against a server of your own; its user must be allowed to create databases.
"""

import gc
import logging
import os
import queue
import secrets
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import attrs
import psycopg
import pytest
import trio
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from trio.testing import MockClock

from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.database import Database
from tests.profiles import load_profile

load_profile()  # before the first property is imported


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """A command that a test runs in its own process may silence the log; the next test hears it again."""
    log = logging.getLogger("mnemosyne")
    level = log.level
    yield
    log.setLevel(level)


@attrs.frozen
class PostgresServer:
    """A server on which tests may create databases. ``dsn`` leads to a database that tests leave alone."""

    dsn: str

    @contextmanager
    def fresh_database(self, template: str = "template0") -> Iterator[str]:
        """The DSN of a copy of ``template``, which nobody is connected to; dropped at the end, whoever uses it then."""
        name = f"test_{secrets.token_hex(8)}"
        # Copying files beats copying through the journal while nothing has to survive a crash.
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        self._execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield make_conninfo(self.dsn, dbname=name)
        finally:
            self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, *statements: sql.Composed | sql.SQL) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def forget_durability(self) -> None:
        self._execute(
            sql.SQL("ALTER SYSTEM SET fsync = off"),
            sql.SQL("ALTER SYSTEM SET full_page_writes = off"),
            sql.SQL("SELECT pg_reload_conf()"),
        )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this test run, started when the first test asks for it."""
    given = os.environ.get("MNEMOSYNE_TEST_DSN")
    if given:
        yield PostgresServer(given)
        return
    # Not pytest's own temporary folder: that one keeps what it holds for three runs, 40 MB each.
    with tempfile.TemporaryDirectory(prefix="mnemosyne-tests-") as folder, _served_from_a_thread(Path(folder)) as dsn:
        server = PostgresServer(dsn)
        server.forget_durability()
        yield server


@pytest.fixture(scope="session")
def template(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a database with our schema and nothing in it: a copy is had sooner than a schema is made."""

    async def prepare(dsn: str) -> None:
        database = Database(dsn)
        await database.prepare()
        database.close()

    # In a thread, because the first to ask may be a trio test, in its own loop.
    with postgres_server.fresh_database() as dsn, ThreadPoolExecutor() as threads:
        threads.submit(trio.run, prepare, dsn).result()
        yield str(conninfo_to_dict(dsn)["dbname"])


@pytest.fixture
def dsn(postgres_server: PostgresServer, template: str) -> Iterator[str]:
    """The DSN of a database for one test, with our schema and nothing in it."""
    with postgres_server.fresh_database(template) as dsn:
        yield dsn


@pytest.fixture
def empty_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """The same where not even the schema is there."""
    with postgres_server.fresh_database() as dsn:
        yield dsn


@pytest.fixture
def loopback_clock() -> MockClock:
    """Jumps as ``autojump_clock`` does, and not while bytes are on their way from one socket to another: those are the
    system's to bring, which has other things to do on a busy machine.
    """
    return MockClock(autojump_threshold=0.02)


@pytest.fixture(scope="session", autouse=True)
def _signals_reach_what_tests_start() -> None:
    """Under nohup, or in the background of a script, some signals are ignored, and so they would be in every process
    that a test starts. Here, they still are; but a handler, unlike that, is not inherited.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@contextmanager
def _served_from_a_thread(data_dir: Path) -> Iterator[str]:
    # A thread, because trio tests each bring their own loop and other tests have none.
    started: queue.Queue[tuple[str, Callable[[], None]] | BaseException] = queue.Queue()

    async def serve() -> None:
        async with open_embedded(data_dir) as server:
            token, end = trio.lowlevel.current_trio_token(), trio.Event()
            started.put((server.dsn, lambda: token.run_sync_soon(end.set)))
            await end.wait()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            started.put(error)
            raise

    thread = threading.Thread(target=run, name="postgres for the tests")
    thread.start()
    outcome = started.get()
    if isinstance(outcome, BaseException):
        thread.join()
        raise outcome
    dsn, end = outcome
    try:
        yield dsn
    finally:
        end()
        thread.join()
