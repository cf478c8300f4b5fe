"""A backup is a snapshot of the whole log; it is restored unchanged, and only into an empty database."""

import json
import os
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import psycopg
import pytest
import trio

from mnemosyne.adapters.embedded import cluster
from mnemosyne.adapters.embedded.programs import FOLDERS, NEWEST
from mnemosyne.adapters.postgres.backup import FORMAT
from mnemosyne.domain.session.events import TurnFinished
from tests.adapters.log_support import query
from tests.app.home import at_home
from tests.cli.logs import GOLDEN, OBSERVED_LOG, put_golden
from tests.cli.running import run, run_json
from tests.fixtures import PostgresServer
from tests.http.managing import Client

LOG = "select originator_id, originator_version, topic, state, notification_id from mnemosyne.stored_events order by 5"
CONTENT = "select stream, size, encoding, digest, data from mnemosyne.content order by 1, 4"


IDENTITY = "select id from mnemosyne.log_identity"


@pytest.fixture
def filled(dsn: str) -> str:
    """The DSN of a database with sessions of two tenants, and an erased content."""
    put_golden(dsn, GOLDEN, OBSERVED_LOG)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into mnemosyne.content values (gen_random_uuid(), 3, 0, sha256('abc'), null)")
        connection.execute("select nextval('mnemosyne.stored_events_notification_id_seq')")  # as of a failed append
    return dsn


@pytest.fixture
def backup(filled: str, tmp_path: Path) -> Path:
    run("backup", str(tmp_path / "log.backup"), "--dsn", filled)
    return tmp_path / "log.backup"


@pytest.fixture
def target(postgres_server: PostgresServer) -> Iterator[str]:
    """The DSN of an empty database."""
    with postgres_server.fresh_database() as dsn:
        yield dsn


def restore(file: Path, dsn: str, code: int = 0) -> str:
    return run("restore", str(file), "--dsn", dsn, code=code).output


def test_restored_log_is_identical_and_continues_with_the_next_position(
    filled: str, target: str, tmp_path: Path
) -> None:
    file = tmp_path / "b"
    written = run_json("backup", str(file), "--dsn", filled)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_size == written["bytes"]
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute("create extension vector with schema public")  # instead of our own schema
    done = run_json("restore", str(file), "--dsn", target)
    assert (done["events"], done["contents"], done["differing"]) == (written["events"], written["contents"], [])
    assert done["sessions"] == 2
    for rows in (LOG, CONTENT):
        assert query(target, rows) == query(filled, rows)
    (last,) = query(target, "select max(notification_id) from mnemosyne.stored_events")[0]
    (next_,) = query(target, "select nextval('mnemosyne.stored_events_notification_id_seq')")[0]
    assert next_ == last + 1
    assert query(target, IDENTITY) != query(filled, IDENTITY), "a copy has an identity of its own"
    assert "already has a log" in restore(file, filled, code=1)


def test_existing_and_unwritable_files_are_refused(filled: str, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    for file, problem in (
        ("b", "b already exists; nothing was written."),
        ("no/b", "cannot be written: No such file"),
        *([("/dev/full", "/dev/full cannot be written: No space left on device.")] if FULL.exists() else []),
    ):
        assert problem in run("backup", str(tmp_path / file), "--dsn", filled, code=1).output
    assert (tmp_path / "b").read_text() == "mine"
    assert "it is not a regular file" in restore(tmp_path / "pipe", filled, code=1)


FULL = Path("/dev/full")


def heading(**changed: object) -> bytes:
    return json.dumps({"mnemosyne_backup": {"format": FORMAT, "version": "9.9", "at": 1, **changed}}).encode() + b"\n"


CHANGES: tuple[tuple[Callable[[bytes], bytes], str], ...] = (
    (lambda whole: whole[:-1], "it is incomplete"),
    (lambda whole: whole[: len(whole) // 2], "it is incomplete"),
    (lambda whole: whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:], "it is damaged"),
    (lambda whole: heading(format=FORMAT + 1) + whole.partition(b"\n")[2], "written by Mnemosyne 9.9"),
    (lambda whole: heading(more=1) + whole, "is not a backup"),
    (lambda whole: b"PGDMP" + whole, "is not a backup"),
    (lambda whole: b"", "is not a backup"),
)


def test_incomplete_or_foreign_file_changes_nothing(backup: Path, target: str) -> None:
    whole = backup.read_bytes()
    for change, problem in CHANGES:
        backup.write_bytes(change(whole))
        assert problem in restore(backup, target, code=1)
        assert query(target, "select to_regclass('mnemosyne.stored_events') is null") == [(True,)]


@pytest.mark.release
async def test_backup_during_a_turn_is_a_log_that_verifies(tmp_path: Path) -> None:
    file = tmp_path / "b"
    async with at_home(tmp_path) as home, home.served("manage") as served:
        client = Client(served.url, session="s")
        await client.work("Where is it?")
        await home.until_recorded("s", TurnFinished)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.work, "And now?")
            await trio.to_thread.run_sync(lambda: run("backup", str(file), "--data-dir", str(home.config.data_dir)))
        other = tmp_path / "restored"
        output = await trio.to_thread.run_sync(lambda: run("restore", str(file), "--data-dir", str(other)).output)
        assert "all as they were recorded." in output
        assert "of 1 session checked" in output
    assert (tmp_path / "restored/postgres").is_dir()


@pytest.mark.release
def test_log_of_an_older_postgresql_is_restored_into_a_newer_one(
    filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, where = tmp_path / "first", ("--data-dir", str(tmp_path / "data"))
    held = run_json("backup", str(first), "--dsn", filled)
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "NEWEST", min(FOLDERS))
        patched.setattr(cluster, "INITDB_OPTIONS", ("--encoding=UTF8", "--locale=C", "--auth=peer"))
        run("restore", str(first), *where)
    again = run_json("backup", str(tmp_path / "again"), *where)
    (tmp_path / "data/postgres").rename(tmp_path / "data/postgres.old")
    assert "all as they were recorded." in run("restore", str(tmp_path / "again"), *where).output
    assert (tmp_path / "data/postgres/PG_VERSION").read_text().strip() == str(NEWEST)
    last = run_json("backup", str(tmp_path / "last"), *where)
    for name in ("events", "contents"):
        assert last[name] == again[name] == held[name]


FILES = (
    "/home/me/.ssh/id_ed25519",
    "/archive/{other}-4.jsonl",
    "/archive/{stream}-4.jsonl.d/notes.txt",
    "/archive/{stream}-4.jsonl\n",
    "{stream}-4.jsonl",
)
"""No archive, that of another session, in a folder of that name, with a newline, and without a folder."""


def test_backup_that_refers_to_another_file_than_the_session_s_archive_is_refused(
    filled: str, target: str, tmp_path: Path
) -> None:
    ((stream, digest, log),) = query(
        filled, "select stream, digest, log.id from mnemosyne.content, mnemosyne.log_identity log limit 1"
    )
    change = "update mnemosyne.content set encoding = 2, data = %s where stream = %s and digest = %s"
    for number, (file, with_log) in enumerate(product(FILES, (True, False))):
        reference = [file.format(stream=stream, other=log), 0, 8, *([str(log)] if with_log else [])]
        with psycopg.connect(filled, autocommit=True) as connection:
            connection.execute(change, (json.dumps(reference).encode(), stream, digest))
        run("backup", str(tmp_path / f"{number}"), "--dsn", filled)
        assert f"which is not an archive of session {stream}" in restore(tmp_path / f"{number}", target, code=1)
        assert query(target, "select count(*) from mnemosyne.stored_events") == [(0,)]
