"""An upgrade moves the embedded database to the newest PostgreSQL completely, or changes nothing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import trio

from mnemosyne.adapters.embedded import cluster as clusters
from mnemosyne.adapters.embedded import upgrading
from mnemosyne.adapters.embedded.programs import FOLDERS, NEWEST
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.embedded.upgrading import upgrade
from mnemosyne.errors import LogUnavailable

pytestmark = pytest.mark.release

OLDER = min(FOLDERS)


@pytest.fixture
def data_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory with a database of an older PostgreSQL, with one row."""

    async def make(folder: Path) -> None:
        async with open_embedded(folder) as server:
            _execute(server.dsn, "create table kept as select 7 as number")

    with tempfile.TemporaryDirectory(prefix="mnemosyne-test-") as folder:
        with monkeypatch.context() as patched:
            patched.setattr(clusters, "NEWEST", OLDER)
            patched.setattr(clusters, "INITDB_OPTIONS", ("--encoding=UTF8", "--locale=C", "--auth=peer"))
            trio.run(make, Path(folder) / "data")
        yield Path(folder) / "data"


def _execute(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def list_folders(data_dir: Path) -> list[str]:
    return sorted(each.name for each in data_dir.iterdir() if each.is_dir())


async def carry(old: str, new: str, folder: Path) -> None:
    """Copy the row."""
    assert folder.name == "postgres.upgrade"
    (row,) = _execute(old, "select number from kept")
    _execute(new, f"create table kept as select {row[0]} as number")


async def read_back(data_dir: Path) -> tuple[int, list[tuple[object, ...]]]:
    """The version of the server, and the rows."""
    async with open_embedded(data_dir) as server:
        (version,) = _execute(server.dsn, "show server_version_num")
        return int(str(version[0])) // 10_000, _execute(server.dsn, "select number from kept")


async def test_an_upgrade_keeps_all_data_and_the_old_files(data_dir: Path) -> None:
    assert (await read_back(data_dir))[0] == OLDER
    done = await upgrade(data_dir, carry)
    assert done is not None
    assert (done.before, done.after) == (OLDER, NEWEST)
    assert (done.kept / "PG_VERSION").read_text().strip() == str(OLDER)
    assert await read_back(data_dir) == (NEWEST, [(7,)])
    assert list_folders(data_dir) == ["postgres", done.kept.name]
    assert await upgrade(data_dir, carry) is None


async def test_a_failed_upgrade_changes_nothing_and_can_be_repeated(data_dir: Path) -> None:
    async def fail(old: str, new: str, folder: Path) -> None:
        await carry(old, new, folder)
        raise LogUnavailable("the disk is full")

    with pytest.raises(LogUnavailable, match="the disk is full"):
        await upgrade(data_dir, fail)
    assert await read_back(data_dir) == (OLDER, [(7,)])
    assert await upgrade(data_dir, carry) is not None
    assert (await read_back(data_dir))[0] == NEWEST


async def test_an_upgrade_excludes_all_other_users(data_dir: Path) -> None:
    async with open_embedded(data_dir) as server:
        with pytest.raises(LogUnavailable, match="is in use"):
            await upgrade(data_dir, carry)
        assert _execute(server.dsn, "select number from kept") == [(7,)]

    async def carry_while_another_opens(old: str, new: str, folder: Path) -> None:
        nursery.start_soon(open_late)
        await open_and_close(folder)  # as long as another process would need
        await carry(old, new, folder)
        assert not seen

    async def open_and_close(folder: Path) -> None:
        async with open_embedded(folder):
            await trio.lowlevel.checkpoint()

    async def open_late() -> None:
        seen.append((await read_back(data_dir))[0])

    seen: list[int] = []
    async with trio.open_nursery() as nursery:
        await upgrade(data_dir, carry_while_another_opens)
    assert seen == [NEWEST]


@pytest.mark.parametrize("step", [1, 2, 3])
async def test_a_killed_upgrade_keeps_a_whole_database(
    data_dir: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    rename = Path.rename

    def die_at(self: Path, target: Path) -> Path:
        nonlocal steps
        if self.name.startswith("postgres") and not self.name.startswith("postgres.new"):
            steps += 1
            if steps == step:
                raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(upgrading, "NEWEST", NEWEST)
        patched.setattr(Path, "rename", die_at)
        with pytest.raises(KeyboardInterrupt):
            await upgrade(data_dir, carry)
    assert await read_back(data_dir) == ((NEWEST if step == 3 else OLDER), [(7,)])
    await upgrade(data_dir, carry)
    assert await read_back(data_dir) == (NEWEST, [(7,)])
