"""What was said leaves the database for a file that is whole, is read from there as before, and comes back."""

import json
from pathlib import Path

import psycopg
import pytest

from mnemosyne.adapters.postgres.migrations import list_migrations
from tests.adapters.log_support import query
from tests.cli.running import run
from tests.fixtures import PostgresServer

CONTENT = "select digest, size, encoding, data from mnemosyne.content order by 1"
IN_FILES = "select count(*) from mnemosyne.content where encoding = 2"


@pytest.fixture
def archived(conversation: str, tmp_path: Path) -> Path:
    """The file of the session, which was archived."""
    (told,) = json.loads(run("archive", conversation, "--to", str(tmp_path / "old"), "--json").stdout)["sessions"]
    return Path(told["file"])


def whole(session: str) -> list[bytes]:
    """Everything that commands which need the words say of a session."""
    asked = (
        ("verify", session, "--json"),
        ("context", session, "--turn", "1"),
        ("search", session, "parser", "--json"),
    )
    return [run(*each).stdout_bytes for each in asked]


def test_an_archived_session_is_read_as_before_and_comes_back_to_the_byte(
    conversation: str, dsn: str, tmp_path: Path
) -> None:
    before, said = query(dsn, CONTENT), whole(conversation)
    done = json.loads(run("archive", conversation, "--to", str(tmp_path / "old"), "--json").stdout)
    (told,) = done["sessions"]
    assert (told["id"], done["files"]) == (conversation, "rewritten")
    assert told["pieces"] == query(dsn, IN_FILES)[0][0] > 0
    assert told["freed_bytes"] > 0
    assert Path(told["file"]).stat().st_mode & 0o777 == 0o600
    assert whole(conversation) == said
    (sizes,) = json.loads(run("du", "--json").stdout)["sessions"]
    assert sizes["archived"] == told["pieces"]

    (back,) = json.loads(run("unarchive", conversation, "--json").stdout)
    assert (back["pieces"], back["files"]) == (told["pieces"], [told["file"]])
    Path(told["file"]).unlink()
    assert whole(conversation) == said
    assert [row[:2] for row in query(dsn, CONTENT)] == [row[:2] for row in before]
    assert f"session {conversation} is not archived" in run("unarchive", conversation).output


def test_to_archive_again_changes_nothing_and_to_another_folder_moves_the_file(
    archived: Path, conversation: str, dsn: str, tmp_path: Path
) -> None:
    held = query(dsn, CONTENT)
    run("archive", conversation, "--to", str(archived.parent), "--quick")
    assert query(dsn, CONTENT) == held
    run("archive", conversation, "--to", str(tmp_path / "new"), "--quick")
    assert not archived.exists()
    assert (tmp_path / "new" / archived.name).exists()
    assert json.loads(run("verify", conversation, "--json").stdout)[0]["verdict"] == "ok"


def test_forget_deletes_the_file_and_refuses_where_it_does_not_find_its_folder(
    archived: Path, conversation: str, dsn: str
) -> None:
    hidden = archived.parent.rename(archived.parent.with_name("hidden"))
    assert "a folder that is not there; nothing was erased" in run("forget", conversation, "--yes", code=1).output
    assert query(dsn, IN_FILES)[0][0] > 0
    hidden.rename(archived.parent)
    run("forget", conversation, "--yes")
    assert not archived.exists()
    assert query(dsn, "select count(data) from mnemosyne.content") == [(0,)]


def test_a_file_that_is_gone_or_damaged_is_told_with_its_name_and_the_rest_is_shown(
    archived: Path, conversation: str
) -> None:
    moved = archived.rename(archived.with_suffix(".away"))
    for command in (("context", conversation, "--turn", "1"), ("unarchive", conversation)):
        said = run(*command, code=1).output
        assert f"is archived in {archived}" in said
        assert "which cannot be read: No such file or directory" in said
    assert conversation[:8] in run("sessions").output
    archived.write_bytes(moved.read_bytes()[::-1])
    assert run("unarchive", conversation, code=1).exit_code == 1
    moved.replace(archived)
    run("unarchive", conversation)


def test_nothing_leaves_the_database_for_a_file_that_is_not_whole_or_of_another_session(
    archived: Path, conversation: str, dsn: str, tmp_path: Path
) -> None:
    run("unarchive", conversation)
    held = query(dsn, CONTENT)
    whole = archived.read_bytes()
    for changed in (whole[:-20], whole.replace(b'"event": 1,', b'"event": 9,', 1) + b"x"):
        archived.write_bytes(changed)
        said = run("archive", conversation, "--to", str(archived.parent), code=1).output
        assert "is not whole, so nothing left the database. Move it away." in said
    assert query(dsn, CONTENT) == held
    said = run("archive", conversation, "--to", "/proc/none", code=1).output
    assert "cannot be written" in said


def test_an_archived_file_is_imported_elsewhere(
    archived: Path, conversation: str, postgres_server: PostgresServer
) -> None:
    with postgres_server.fresh_database() as other:
        run("import", str(archived), "--dsn", other)
        assert json.loads(run("verify", conversation, "--dsn", other, "--json").stdout)[0]["verdict"] == "ok"


def restored(dsn: str, other: str, folder: Path) -> None:
    """Put a backup of one database into the other."""
    run("backup", str(folder / "log.backup"), "--dsn", dsn)
    run("restore", str(folder / "log.backup"), "--dsn", other)


def test_a_restored_copy_reads_the_archive_of_its_original_and_never_deletes_it(
    archived: Path, conversation: str, dsn: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with postgres_server.fresh_database() as other:
        restored(dsn, other, tmp_path)
        assert json.loads(run("verify", conversation, "--dsn", other, "--json").stdout)[0]["verdict"] == "ok"
        said = run("archive", conversation, "--to", str(archived.parent), "--dsn", other, code=1).output
        assert "was written by another log, so nothing left the database. Use another folder." in said
        run("archive", conversation, "--to", str(tmp_path / "copy"), "--dsn", other)
        assert archived.exists()
        (own,) = (tmp_path / "copy").iterdir()
        run("forget", conversation, "--yes", "--dsn", other)
        assert not own.exists()
    assert json.loads(run("verify", conversation, "--json").stdout)[0]["verdict"] == "ok"


@pytest.mark.parametrize("everything", [False, True])
def test_forget_in_a_restored_copy_names_the_archive_that_stays(
    archived: Path, conversation: str, dsn: str, postgres_server: PostgresServer, tmp_path: Path, everything: bool
) -> None:
    wanted = "--all" if everything else conversation
    with postgres_server.fresh_database() as other:
        restored(dsn, other, tmp_path)
        done = json.loads(run("forget", wanted, "--yes", "--dsn", other, "--json").stdout)
        assert done["archives_left"] == [str(archived)]
        assert query(other, "select count(data) from mnemosyne.content") == [(0,)]
    assert json.loads(run("verify", conversation, "--json").stdout)[0]["verdict"] == "ok"


def test_unarchive_in_a_restored_copy_does_not_offer_the_file_of_its_original_for_deletion(
    archived: Path, conversation: str, dsn: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with postgres_server.fresh_database() as other:
        restored(dsn, other, tmp_path)
        (back,) = json.loads(run("unarchive", conversation, "--dsn", other, "--json").stdout)
        assert back["pieces"] > 0
        assert back["files"] == []
    assert archived.exists()


def test_forget_leaves_a_file_that_is_not_the_archive_its_reference_names(archived: Path, conversation: str) -> None:
    header, _, rest = archived.read_bytes().partition(b"\n")
    log = json.loads(header)["log"].encode()
    archived.write_bytes(header.replace(log, b"00000000-0000-0000-0000-000000000000") + b"\n" + rest)
    assert f"{archived} was kept because another log wrote it." in run("forget", conversation, "--yes").output
    assert archived.exists()


def test_an_archive_of_an_earlier_version_is_read_and_deleted_by_the_log_that_was_migrated(
    archived: Path, conversation: str, dsn: str
) -> None:
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
    assert json.loads(run("verify", conversation, "--json").stdout)[0]["verdict"] == "ok"
    run("archive", conversation, "--to", str(archived.parent), "--quick")
    run("forget", conversation, "--yes")
    assert not archived.exists()
