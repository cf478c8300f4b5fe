"""The log behind PgBouncer, which may lend a connection to another client after each transaction."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import trio
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mnemosyne.adapters.embedded.programs import account_for
from mnemosyne.adapters.postgres import leading
from mnemosyne.adapters.postgres.database import Database, is_shared
from mnemosyne.adapters.postgres.leading import lag, list_nodes, name_of
from mnemosyne.adapters.postgres.object_index_search import build_near_index, near_index
from mnemosyne.adapters.postgres.vacuum import rewrite_content
from mnemosyne.errors import LogUnavailable
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.projector import Projector
from mnemosyne.services.footprints import ignore_news
from tests.adapters.log_support import query, until
from tests.adapters.postgres.test_leading import following
from tests.fixtures import PostgresServer, _served_from_a_thread
from tests.projections.support import POSTGRES, World, open_world
from tests.waiting import DEADLINE

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
CONNECTIONS = 4
"""Connections of the pool to the server: fewer than the clients have."""

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="there is no pgbouncer here")


@contextmanager
def pool(server: str, folder: Path) -> Iterator[str]:
    """The DSN of a database of ``server``, through a pool."""
    assert PGBOUNCER is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = conninfo_to_dict(server)
    inner = " ".join(f"{key}={known[key]}" for key in ("host", "port", "user", "dbname"))
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\npooled = {inner}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {CONNECTIONS}\n"
    )
    config.chmod(0o644)
    another_user = ["-u", account_for(None).name] if os.geteuid() == 0 else []
    with subprocess.Popen([PGBOUNCER, "-q", *another_user, str(config)], stderr=subprocess.DEVNULL) as process:
        try:
            yield make_conninfo(host="127.0.0.1", port=port, user="mnemosyne", dbname="pooled")
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A separate server that trusts the pool."""
    with tempfile.TemporaryDirectory(prefix="mnemosyne-tests-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with _served_from_a_thread(folder / "data") as dsn:
            (folder / "data").chmod(0o711)
            (folder / "data/postgres/pg_hba.conf").write_text("local all all trust\n")
            PostgresServer(dsn).forget_durability()  # this reloads the rules
            yield dsn


@pytest.fixture
def pooled(server: str) -> Iterator[str]:
    """The DSN of a new database with the schema, through the pool."""
    with PostgresServer(server).fresh_database() as dsn, tempfile.TemporaryDirectory(prefix="mnemosyne-tests-") as name:
        Path(name).chmod(0o711)
        with pool(dsn, Path(name)) as through:
            trio.run(prepare, through)
            yield through


async def prepare(dsn: str) -> None:
    database = Database(dsn)
    with trio.fail_after(DEADLINE):
        while True:
            try:
                await database.prepare()
                break
            except LogUnavailable:  # the pool does not listen yet
                await trio.sleep(0.05)
    database.close()


async def project_all(world: World) -> None:
    for each in ALL:
        await Projector(each, world.tail, world.store).catch_up()


async def test_many_clients_share_connections_and_no_setting_stays_behind(pooled: str) -> None:
    async with open_world(POSTGRES, pooled) as one, open_world(POSTGRES, pooled) as two:
        assert one.database is not None
        assert await one.database.run(is_shared)
        for each in range(3):
            await one.say(each, "a", "b")
            await two.say(each + 10, "c")
        await project_all(two)
        assert (await lag(one.database)).events == 0
        await one.database.run(build_near_index, "an embedder's")
        assert await one.database.run(near_index)
        await rewrite_content(one.database, ours_alone=False, report=ignore_news)
        await one.say(1, "d")
    with psycopg.connect(pooled, autocommit=True) as other:
        other.prepare_threshold = None
        for name in ("search_path", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
            held = other.execute("select setting = reset_val from pg_settings where name = %s", (name,)).fetchall()
            assert (name, held) == (name, [(True,)])
        assert other.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)


async def test_one_process_leads_and_the_log_can_be_rewritten(pooled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(leading, "LOOK_SECONDS", 0.01)
    async with open_world(POSTGRES, pooled) as world, following(pooled) as one, following(pooled) as other:
        await until(lambda: one.leader.leads or other.leader.leads)
        first, second = (one, other) if one.leader.leads else (other, one)
        await world.say(1, "a")
        await until(lambda: first.positions[-1:] == [1])
        await rewrite_content(world.database, ours_alone=False, report=ignore_news)
        assert second.times == 0
        assert (await lag(world.database)).led
        query(pooled, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted")
        await until(lambda: len(one.positions + other.positions) > 1)


async def test_a_node_is_listed_by_its_name(pooled: str) -> None:
    database = Database(pooled, name=name_of("server"))
    assert [node.what for node in await list_nodes(database)] == ["server"]
    database.close()
