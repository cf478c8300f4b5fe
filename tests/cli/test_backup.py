"""A backup is the whole log at one moment, and becomes the same log again, in any empty database and in no other."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import trio

from mnemosyne.adapters.embedded import cluster
from mnemosyne.adapters.embedded.programs import FOLDERS, NEWEST
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.backup import FORMAT
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.session.events import TurnFinished
from tests.adapters.log_support import query
from tests.app.home import at_home
from tests.cli.running import run
from tests.fixtures import PostgresServer
from tests.golden.sessions import LOGS, append_all, appends
from tests.http.managing import Client
from tests.projections.support import POSTGRES, open_world

LOG = "select originator_id, originator_version, topic, state, notification_id from mnemosyne.stored_events order by 5"
CONTENT = "select stream, size, encoding, digest, data from mnemosyne.content order by 1, 4"


@pytest.fixture
def filled(dsn: str) -> str:
    """The DSN of a database with sessions of two tenants, one of them with a content that was erased."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for folder in ("one-of-everything", "observed"):
                await append_all(world.journal, appends(LOGS / folder))

    trio.run(fill)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into mnemosyne.content values (gen_random_uuid(), 3, 0, sha256('abc'), null)")
        connection.execute("select nextval('mnemosyne.stored_events_notification_id_seq')")  # as of a failed append
    return dsn


@contextmanager
def emptied(server: PostgresServer) -> Iterator[str]:
    with server.fresh_database() as dsn:
        yield dsn


def test_what_is_restored_is_the_same_to_the_byte_and_goes_on_from_there(
    filled: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    file = tmp_path / "log.backup"
    told = json.loads(run("backup", str(file), "--dsn", filled, "--json").stdout)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_size == told["bytes"]
    with emptied(postgres_server) as other:
        found = json.loads(run("restore", str(file), "--dsn", other, "--json").stdout)
        assert (found["events"], found["contents"], found["differing"]) == (told["events"], told["contents"], [])
        assert found["sessions"] == 2
        for rows in (LOG, CONTENT):
            assert query(other, rows) == query(filled, rows)
        (last,) = query(other, "select max(notification_id) from mnemosyne.stored_events")[0]
        (next_,) = query(other, "select nextval('mnemosyne.stored_events_notification_id_seq')")[0]
        assert next_ == last + 1


def test_a_database_whose_pgvector_lies_elsewhere_takes_it_too(
    filled: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    run("backup", str(tmp_path / "b"), "--dsn", filled)
    with emptied(postgres_server) as other:
        with psycopg.connect(other, autocommit=True) as connection:
            connection.execute("create extension vector with schema public")
        run("restore", str(tmp_path / "b"), "--dsn", other)
        assert query(other, LOG) == query(filled, LOG)


def test_a_log_is_never_written_over(filled: str, tmp_path: Path) -> None:
    file = tmp_path / "b"
    run("backup", str(file), "--dsn", filled)
    before = query(filled, LOG)
    assert "holds a log already" in run("restore", str(file), "--dsn", filled, code=1).output
    assert query(filled, LOG) == before


def test_a_file_that_is_there_stays_and_one_that_cannot_be_written_leaves_nothing(filled: str, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    assert run("backup", str(tmp_path / "b"), "--dsn", filled, code=1).output == (
        f"Error: {tmp_path}/b already exists; nothing was written.\n"
    )
    assert (tmp_path / "b").read_text() == "mine"
    assert "cannot be written: No such file" in run("backup", str(tmp_path / "no/b"), "--dsn", filled, code=1).output


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert (
        "it is not a regular file" in run("restore", str(tmp_path / "pipe"), "--data-dir", str(tmp_path), code=1).output
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_told_in_a_sentence(filled: str) -> None:
    said = run("backup", "/dev/full", "--dsn", filled, code=1).output
    assert said == "Error: /dev/full cannot be written: No space left on device.\n"


def heading(**changed: object) -> bytes:
    return json.dumps({"mnemosyne_backup": {"format": FORMAT, "version": "9.9", "at": 1, **changed}}).encode() + b"\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda whole: whole[:-1], "it is cut off"),
        (lambda whole: whole[: len(whole) // 2], "it is cut off"),
        (lambda whole: whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:], "it is damaged"),
        (lambda whole: heading(format=FORMAT + 1) + whole.partition(b"\n")[2], "written by Mnemosyne 9.9"),
        (lambda whole: heading(more=1) + whole, "does not begin as a backup"),
        (lambda whole: b"PGDMP" + whole, "does not begin as a backup"),
        (lambda whole: b"", "does not begin as a backup"),
    ],
)
def test_a_file_that_is_not_whole_or_not_ours_changes_nothing(
    change: object, why: str, filled: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    assert callable(change)
    file = tmp_path / "b"
    run("backup", str(file), "--dsn", filled)
    file.write_bytes(change(file.read_bytes()))
    with emptied(postgres_server) as other:
        assert why in run("restore", str(file), "--dsn", other, code=1).output
        assert query(other, "select to_regclass('mnemosyne.stored_events') is null") == [(True,)]


async def test_a_backup_while_a_server_serves_is_a_log_that_verifies_and_that_another_server_goes_on_with(
    tmp_path: Path,
) -> None:
    file = tmp_path / "b"
    async with at_home(tmp_path) as home, home.served("manage") as served:
        client = Client(served.url, session="s")
        await client.work("Where is it?")
        await home.until_recorded("s", TurnFinished)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.work, "And now?")
            await trio.to_thread.run_sync(lambda: run("backup", str(file), "--data-dir", str(home.config.data_dir)))
        other = tmp_path / "restored"
        said = await trio.to_thread.run_sync(lambda: run("restore", str(file), "--data-dir", str(other)).output)
        assert "all as they were recorded." in said
        assert "of 1 session checked" in said
    assert (tmp_path / "restored/postgres").is_dir()


def test_an_upgrade_carries_the_log_into_another_database_and_no_further_than_that(
    filled: str, postgres_server: PostgresServer
) -> None:
    with emptied(postgres_server) as other:
        told = json.loads(run("upgrade-database", "--dsn", filled, "--to-dsn", other, "--json").stdout)
        assert (told["sessions"], told["kept"]) == (2, None)
        for rows in (LOG, CONTENT):
            assert query(other, rows) == query(filled, rows)
        again = run("upgrade-database", "--dsn", filled, "--to-dsn", other, code=1).output
        assert "holds a log already" in again


def test_the_log_of_an_older_postgresql_is_carried_to_a_newer_one_by_dsn_and_in_place(
    filled: str, postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("--data-dir", str(tmp_path / "data"))
    held = json.loads(run("backup", str(tmp_path / "b"), "--dsn", filled, "--json").stdout)
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "NEWEST", min(FOLDERS))
        patched.setattr(cluster, "INITDB_OPTIONS", ("--encoding=UTF8", "--locale=C", "--auth=peer"))
        run("restore", str(tmp_path / "b"), *where)

    async def carry_by_dsn(newer: str) -> None:
        async with open_embedded(tmp_path / "data") as older:
            before, after = (int(query(each, "show server_version_num")[0][0]) // 10_000 for each in (older.dsn, newer))
            assert min(FOLDERS) == before < after
            to = ("upgrade-database", "--dsn", older.dsn, "--to-dsn", newer, "--json")
            carried = json.loads((await trio.to_thread.run_sync(run, *to)).stdout)
        assert (carried["sessions"], query(newer, LOG), query(newer, CONTENT)) == (
            2,
            query(filled, LOG),
            query(filled, CONTENT),
        )

    with emptied(postgres_server) as newer:
        trio.run(carry_by_dsn, newer)
    told = json.loads(run("upgrade-database", *where, "--json").stdout)
    assert (told["before"], told["after"], told["sessions"]) == (min(FOLDERS), NEWEST, 2)
    again = json.loads(run("backup", str(tmp_path / "again"), *where, "--json").stdout)
    for each in ("events", "contents"):
        assert again[each] == told[each] == held[each]
    assert "nothing was changed" in run("upgrade-database", *where).stdout


def test_an_upgrade_says_who_uses_the_old_database(filled: str, postgres_server: PostgresServer) -> None:
    with emptied(postgres_server) as other, psycopg.connect(filled, application_name="mnemosyne server 4711 one"):
        assert "server 4711 on one" in run("upgrade-database", "--dsn", filled, "--to-dsn", other, code=1).output
        assert query(other, "select count(*) from pg_tables where schemaname = 'mnemosyne'") == [(0,)]


@pytest.mark.parametrize("options", [["--to-dsn", "postgresql://h/new"], ["--dsn", "postgresql://h/old"]])
def test_an_upgrade_needs_the_new_database_s_name_where_the_old_one_is_the_user_s_own(
    options: list[str], tmp_path: Path
) -> None:
    (tmp_path / "postgres").mkdir()
    assert "--to-dsn" in run("upgrade-database", "--data-dir", str(tmp_path), *options, code=1).output


IDENTITY = "select id from mnemosyne.log_identity"


def test_a_restored_log_has_an_identity_of_its_own_and_an_upgraded_one_keeps_it(
    filled: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    run("backup", str(tmp_path / "b"), "--dsn", filled)
    with emptied(postgres_server) as other:
        run("restore", str(tmp_path / "b"), "--dsn", other)
        assert query(other, IDENTITY) != query(filled, IDENTITY)
    with emptied(postgres_server) as other:
        run("upgrade-database", "--dsn", filled, "--to-dsn", other)
        assert query(other, IDENTITY) == query(filled, IDENTITY)


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/.ssh/id_ed25519",
        "/archive/{other}-4.jsonl",
        "/archive/{stream}-4.jsonl.d/notes.txt",
        "/archive/{stream}-4.jsonl\n",
        "{stream}-4.jsonl",
    ],
)
@pytest.mark.parametrize("with_log", [False, True])
def test_a_backup_that_refers_to_a_file_that_is_no_archive_of_the_session_is_refused(
    file: str, with_log: bool, filled: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    ((stream, digest, log),) = query(
        filled, "select stream, digest, log.id from mnemosyne.content, mnemosyne.log_identity log limit 1"
    )
    named = file.format(stream=stream, other=log)
    reference = json.dumps([named, 0, 8, *([str(log)] if with_log else [])]).encode()
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute(
            "update mnemosyne.content set encoding = 2, data = %s where stream = %s and digest = %s",
            (reference, stream, digest),
        )
    run("backup", str(tmp_path / "b"), "--dsn", filled)
    with emptied(postgres_server) as other:
        said = run("restore", str(tmp_path / "b"), "--dsn", other, code=1).output
        assert f"which is no archive of session {stream}" in said
        assert query(other, "select count(*) from mnemosyne.stored_events") == [(0,)]
