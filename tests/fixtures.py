r"""Common fixtures: one PostgreSQL for the whole run, and a database in it for each test that needs one.

Set MNEMOSYNE_TEST_DSN to run against a server of your own; its user must be allowed to create databases.
"""

import gc
import logging
import os
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import httpcore2
import psycopg
import pytest
import trio
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from trio.testing import MockClock

from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.threads import in_a_thread
from mnemosyne.domain.cost.catalogue import in_force, use
from mnemosyne.projections.catalog import ALL
from tests.profiles import load_profile
from tests.repeats import read_list

_REPEATS = read_list()

load_profile()  # before the first property is imported
os.environ["MNEMOSYNE_SEMANTIC_SEARCH"] = "false"  # servers of tests download no model
gc.disable()  # collected tests stay: repeated garbage collection over them takes a fifth of the collection time
# Each new client would read the certificates of the system, which takes longer than most tests.
pytest.MonkeyPatch().setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import a share of the modules first, another share in each worker: what one compiles, with its assertions
    rewritten, the others read. In the same order, each worker would compile all of them on a new checkout.
    """
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    left_out = tuple(session.config.getoption("ignore") or ())
    found = [file for each in session.config.args for file in sorted(Path(each).rglob("test_*.py"))]
    files = [file.resolve().relative_to(session.config.rootpath) for file in found]
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in [file for file in files if not str(file).startswith(left_out)][number::count]:
        with suppress(Exception, pytest.skip.Exception):  # the collection reports it
            import_module(".".join(file.with_suffix("").parts))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the repeats, so that `make test` leaves them out."""
    if item.nodeid in _REPEATS:
        item.add_marker(pytest.mark.repeat)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end, so exclude them from garbage collection. It runs less often than
    usual: what tests leave behind makes each full collection longer.
    """
    gc.freeze()
    gc.set_threshold(5_000, 10, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Restore the state that a command run in the test's own process may change: logging, the model table, and the
    garbage collector.
    """
    log = logging.getLogger("mnemosyne")
    level, models, collections = log.level, in_force(), gc.get_threshold()
    yield
    log.setLevel(level)
    gc.set_threshold(*collections)
    if in_force() is not models:
        use(models)


@attrs.frozen
class PostgresServer:
    """A server on which tests may create databases. ``dsn`` is that of a database that tests do not touch."""

    dsn: str

    @contextmanager
    def fresh_database(self, template: str = "template0") -> Iterator[str]:
        """The DSN of a copy of ``template``, which must have no connections; dropped at the end despite any
        connections.
        """
        name = f"test_{secrets.token_hex(8)}"
        # Copying files is faster than copying through the journal if nothing has to survive a crash.
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
        """Nothing has to survive a crash, or stay fast for longer than a test."""
        self._execute(
            sql.SQL("ALTER SYSTEM SET fsync = off"),
            sql.SQL("ALTER SYSTEM SET full_page_writes = off"),
            sql.SQL("ALTER SYSTEM SET autovacuum = off"),
            sql.SQL("SELECT pg_reload_conf()"),
        )


@attrs.frozen
class Schema:
    """The schema of a database: the names of its tables, and the definitions of them and of everything else."""

    tables: frozenset[str]
    described: tuple[str, ...]


CLEANING = "cleaning between tests"
"""The name of a connection to a lent database that is not the test's."""


@attrs.define
class LentDatabases:
    """Databases with an empty schema, each lent to one test after the other: emptying one takes a fraction of the
    time of ``make``, which returns the DSN of a new one. ``made`` is the schema of a new one.
    """

    make: Callable[[], str]
    made: Schema
    _idle: list[str] = attrs.Factory(list)
    _connections: dict[str, psycopg.Connection] = attrs.Factory(dict)
    """One to each that was lent, kept because a new one reads the catalog, which takes longer than all the rest."""

    @contextmanager
    def lend(self) -> Iterator[str]:
        """The DSN of one. At the end, open connections are closed, and a database with another schema, except for
        additional tables, is not lent again.
        """
        dsn = self._idle.pop() if self._idle else self.make()
        yield dsn
        connection = self._connect(dsn)
        _empty(connection, self.made.tables)
        if _read_schema(connection) == self.made:
            self._idle.append(dsn)
        else:
            connection.close()

    def _connect(self, dsn: str) -> psycopg.Connection:
        with suppress(KeyError, psycopg.OperationalError):
            self._connections[dsn].execute("select")
            return self._connections[dsn]
        self._connections[dsn] = psycopg.connect(dsn, autocommit=True, application_name=CLEANING)
        return self._connections[dsn]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this test run, started when the first test needs it."""
    given = os.environ.get("MNEMOSYNE_TEST_DSN")
    if given:
        yield PostgresServer(given)
        return
    # Not pytest's own temporary folder, which keeps its content for three runs, 40 MB each.
    with tempfile.TemporaryDirectory(prefix="mnemosyne-tests-") as folder, _served_from_a_thread(Path(folder)) as dsn:
        server = PostgresServer(dsn)
        server.forget_durability()
        yield server


@pytest.fixture(scope="session")
def template(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of a database with an empty schema and empty read models: copying it is faster than creating them."""

    async def prepare(dsn: str) -> None:
        database = Database(dsn)
        await database.prepare()
        for projection in ALL:
            await PostgresProjections(database).create(projection)
        database.close()

    # In a thread, because the first user may be a trio test with its own loop.
    with postgres_server.fresh_database() as dsn, ThreadPoolExecutor() as threads:
        threads.submit(trio.run, prepare, dsn).result()
        yield str(conninfo_to_dict(dsn)["dbname"])


@pytest.fixture(scope="session")
def databases(postgres_server: PostgresServer, template: str) -> Iterator[LentDatabases]:
    """The source of the databases of ``dsn``."""
    with psycopg.connect(make_conninfo(postgres_server.dsn, dbname=template), autocommit=True) as connection:
        made = _read_schema(connection)
    with ExitStack() as stack:
        lent = LentDatabases(lambda: stack.enter_context(postgres_server.fresh_database(template)), made)
        yield lent
        lent.close()


@pytest.fixture
def dsn(databases: LentDatabases) -> Iterator[str]:
    """The DSN of a database for one test, with an empty schema."""
    with databases.lend() as dsn:
        yield dsn


UseLog = Callable[..., None]


@pytest.fixture
def use_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> UseLog:
    """Sets the environment in which commands find a database."""

    def use(dsn: str, tenant: str = "local") -> None:
        for name, value in {"DSN": dsn, "DATA_DIR": str(tmp_path), "TENANT": tenant}.items():
            monkeypatch.setenv(f"MNEMOSYNE_{name}", value)
        monkeypatch.setenv("TZ", "UTC")

    return use


@pytest.fixture
def empty_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """The DSN of a database without a schema."""
    with postgres_server.fresh_database() as dsn:
        yield dsn


@pytest.fixture
def loopback_clock() -> MockClock:
    """Jumps like ``autojump_clock``, except while bytes are on their way from one socket to another: the system
    delivers those, later on a busy machine.
    """
    return MockClock(autojump_threshold=0.02)


@pytest.fixture(scope="session", autouse=True)
def _reset_ignored_signals() -> None:
    """Under nohup, or in the background of a script, some signals are ignored, and processes that a test starts
    would inherit this. A handler, which does the same here, is not inherited.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def _empty(connection: psycopg.Connection, keep: frozenset[str]) -> None:
    connection.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    names = {name: sql.Identifier("mnemosyne", name) for name in _list_tables(connection)}
    if others := [each for name, each in names.items() if name not in keep]:
        connection.execute(sql.SQL("drop table {} cascade").format(sql.SQL(", ").join(others)))
    # Truncating all of them takes ten times as long as finding those with rows.
    written = connection.execute("select relname from pg_class where relkind = 'r' and pg_relation_size(oid) > 0")
    if kept := [names[name] for (name,) in written if name in names and name in keep]:
        connection.execute(sql.SQL("truncate {} cascade").format(sql.SQL(", ").join(kept)))
    connection.execute(
        "update mnemosyne.projections"
        " set position = 0, stream = null, stream_version = 0, error = null, moved_at = default"
    )
    connection.execute(
        "select setval(seqrelid, seqstart, false) from pg_sequence"
        " where seqrelid <> 'mnemosyne.projection_numbers'::regclass"
    )


def _list_tables(connection: psycopg.Connection) -> list[str]:
    rows = connection.execute("select tablename from pg_tables where schemaname = 'mnemosyne'")
    return [name for (name,) in rows if name not in ("mnemosyne_migrations", "log_identity", "projections")]


def _read_schema(connection: psycopg.Connection) -> Schema:
    described = tuple(text for (text,) in connection.execute(_DESCRIBE))
    return Schema(frozenset(_list_tables(connection)), described)


_DESCRIBE = """
    select format('%s %s is %s', relkind, pg_class.oid::regclass, array[relacl::text, reloptions::text])
        from pg_class where relnamespace = 'mnemosyne'::regnamespace
    union all
        select format('column %s of %s is %s', attname, attrelid::regclass, array[atttypid, attstattarget, attnum])
        from pg_attribute join pg_class on pg_class.oid = attrelid where relnamespace = 'mnemosyne'::regnamespace
    union all select format('function %s is %s', oid::regprocedure, md5(prosrc || coalesce(proacl::text, '')))
        from pg_proc where pronamespace = 'mnemosyne'::regnamespace
    union all select format('constraint %s of %s', pg_get_constraintdef(oid), conrelid::regclass)
        from pg_constraint where connamespace = 'mnemosyne'::regnamespace
    union all select format('trigger %s on %s', tgname, tgrelid::regclass) from pg_trigger
    union all select format('schema %s, %s', nspname, nspacl) from pg_namespace where nspname !~ '^pg_'
    union all select format('setting %s', setconfig) from pg_db_role_setting
        where setdatabase = (select oid from pg_database where datname = current_database())
    union all select format('projection %s, %s, version %s', name, side, version) from mnemosyne.projections
    union all select format('migration %s', applied) from mnemosyne.mnemosyne_migrations applied
    order by 1
"""
"""Describes everything in a database except for the rows of our tables."""


@contextmanager
def _served_from_a_thread(data_dir: Path) -> Iterator[str]:
    with in_a_thread(partial(open_embedded, data_dir), "postgres for the tests") as server:
        yield server.dsn
