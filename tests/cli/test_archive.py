"""Archiving moves the content of a session to a file; reading, forgetting and restoring work as before."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mnemosyne.adapters.postgres.migrations import list_migrations
from tests.adapters.log_support import query
from tests.cli.running import run, run_json
from tests.fixtures import PostgresServer

CONTENT = "select digest, size, encoding, data from mnemosyne.content order by 1"
IN_FILES = "select count(*) from mnemosyne.content where encoding = 2"
WITH_DATA = "select count(data) from mnemosyne.content"


@pytest.fixture
def session(own_conversation: str) -> str:
    return own_conversation


@pytest.fixture
def archived(session: str, tmp_path: Path) -> Path:
    (row,) = run_json("archive", session, "--to", str(tmp_path / "old"))["sessions"]
    return Path(row["file"])


@pytest.fixture
def restored(archived: Path, dsn: str, postgres_server: PostgresServer, tmp_path: Path) -> Iterator[str]:
    """A copy of the database, restored from a backup; its DSN."""
    with postgres_server.fresh_database() as other:
        run("backup", str(tmp_path / "log.backup"), "--dsn", dsn)
        run("restore", str(tmp_path / "log.backup"), "--dsn", other)
        yield other


def read(session: str) -> list[bytes]:
    """The output of commands that need the content."""
    commands = (
        ("verify", session, "--json"),
        ("context", session, "--turn", "1"),
        ("search", session, "parser", "--json"),
    )
    return [run(*command).stdout_bytes for command in commands]


def verdict(session: str, *options: str) -> str:
    return str(run_json("verify", session, *options)[0]["verdict"])


def test_archived_session_reads_as_before_and_returns_to_the_byte(session: str, dsn: str, tmp_path: Path) -> None:
    before, output = query(dsn, CONTENT), read(session)
    done = run_json("archive", session, "--to", str(tmp_path / "old"))
    (row,) = done["sessions"]
    assert (row["id"], done["files"]) == (session, "rewritten")
    assert row["pieces"] == query(dsn, IN_FILES)[0][0] > 0
    assert row["freed_bytes"] > 0
    assert Path(row["file"]).stat().st_mode & 0o777 == 0o600
    assert read(session) == output
    (sizes,) = run_json("du")["sessions"]
    assert sizes["archived"] == row["pieces"]

    (back,) = run_json("unarchive", session)
    assert (back["pieces"], back["files"]) == (row["pieces"], [row["file"]])
    Path(row["file"]).unlink()
    assert read(session) == output
    assert [row[:2] for row in query(dsn, CONTENT)] == [row[:2] for row in before]
    assert f"session {session} is not archived" in run("unarchive", session).output


def test_archiving_again_changes_nothing_and_another_folder_moves_the_file(
    archived: Path, session: str, dsn: str, tmp_path: Path
) -> None:
    held = query(dsn, CONTENT)
    again = run("archive", session, "--to", str(archived.parent)).output
    assert again.startswith(f"session {session}: nothing left to move to {archived} (")
    assert "Rewriting" not in again
    assert query(dsn, CONTENT) == held
    elsewhere = run("archive", session, "--to", str(tmp_path / "new"), "--quick").output
    assert f"pieces of content moved to {tmp_path / 'new' / archived.name} (" in elsewhere
    assert not archived.exists()
    assert (tmp_path / "new" / archived.name).exists()
    assert verdict(session) == "ok"


def test_forget_deletes_the_file_and_is_refused_if_its_folder_is_missing(
    archived: Path, session: str, dsn: str
) -> None:
    hidden = archived.parent.rename(archived.parent.with_name("hidden"))
    assert "nothing was erased" in run("forget", session, "--yes", code=1).output
    assert query(dsn, IN_FILES)[0][0] > 0
    hidden.rename(archived.parent)
    run("forget", session, "--yes")
    assert not archived.exists()
    assert query(dsn, WITH_DATA) == [(0,)]


def test_missing_or_damaged_file_is_named(archived: Path, session: str) -> None:
    moved = archived.rename(archived.with_suffix(".away"))
    for command in (("context", session, "--turn", "1"), ("unarchive", session)):
        output = run(*command, code=1).output
        assert f"is archived in {archived}" in output
        assert "which cannot be read: No such file or directory" in output
    assert session[:8] in run("sessions").output
    archived.write_bytes(moved.read_bytes()[::-1])
    run("unarchive", session, code=1)
    moved.replace(archived)
    run("unarchive", session)


def test_content_stays_in_the_database_if_the_file_is_incomplete_or_unwritable(
    archived: Path, session: str, dsn: str
) -> None:
    run("unarchive", session)
    held = query(dsn, CONTENT)
    whole = archived.read_bytes()
    for changed in (whole[:-20], whole.replace(b'"event": 1,', b'"event": 9,', 1) + b"x"):
        archived.write_bytes(changed)
        output = run("archive", session, "--to", str(archived.parent), code=1).output
        assert "is damaged or incomplete, so nothing was moved. Remove the file and try again." in output
    assert query(dsn, CONTENT) == held
    assert "cannot be written" in run("archive", session, "--to", "/proc/none", code=1).output


def test_archived_file_can_be_imported_elsewhere(archived: Path, session: str, postgres_server: PostgresServer) -> None:
    with postgres_server.fresh_database() as other:
        run("import", str(archived), "--dsn", other)
        assert verdict(session, "--dsn", other) == "ok"


def test_restored_copy_reads_the_original_archive_and_never_deletes_it(
    restored: str, archived: Path, session: str, tmp_path: Path
) -> None:
    assert verdict(session, "--dsn", restored) == "ok"
    output = run("archive", session, "--to", str(archived.parent), "--dsn", restored, code=1).output
    assert "was written by another log, so nothing was moved. Use another folder." in output
    run("archive", session, "--to", str(tmp_path / "copy"), "--dsn", restored)
    (own,) = (tmp_path / "copy").iterdir()
    run("forget", session, "--yes", "--dsn", restored)
    assert not own.exists()
    assert verdict(session) == "ok"


def test_forget_in_a_restored_copy_names_the_remaining_archive(restored: str, archived: Path, session: str) -> None:
    assert run_json("forget", session, "--yes", "--dsn", restored)["archives_left"] == [str(archived)]
    assert query(restored, WITH_DATA) == [(0,)]
    assert verdict(session) == "ok"


def test_unarchive_in_a_restored_copy_does_not_offer_the_original_file_for_deletion(
    restored: str, archived: Path, session: str
) -> None:
    (back,) = run_json("unarchive", session, "--dsn", restored)
    assert (back["pieces"] > 0, back["files"], archived.exists()) == (True, [], True)


def test_forget_keeps_a_file_that_another_log_wrote(archived: Path, session: str) -> None:
    header, _, rest = archived.read_bytes().partition(b"\n")
    log = json.loads(header)["log"].encode()
    archived.write_bytes(header.replace(log, b"00000000-0000-0000-0000-000000000000") + b"\n" + rest)
    assert f"{archived} was kept because another log wrote it." in run("forget", session, "--yes").output
    assert archived.exists()


def test_archive_of_an_earlier_version_belongs_to_the_migrated_log(archived: Path, session: str, dsn: str) -> None:
    header, _, rest = archived.read_bytes().partition(b"\n")
    old = {name: value for name, value in json.loads(header).items() if name != "log"}
    padding = len(header) - len(json.dumps(old).encode())
    archived.write_bytes(json.dumps(old).encode() + b" " * padding + b"\n" + rest)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "update mnemosyne.content set data ="
            " convert_to((convert_from(data, 'UTF8')::jsonb - 3)::text, 'UTF8') where encoding = 2"
        )
        (migration,) = [each for each in list_migrations() if each.name == "log_identity"]
        connection.execute("drop table mnemosyne.log_identity")
        connection.execute(migration.sql)
    assert verdict(session) == "ok"
    run("archive", session, "--to", str(archived.parent), "--quick")
    run("forget", session, "--yes")
    assert not archived.exists()
