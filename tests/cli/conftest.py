"""Databases that commands read."""

from pathlib import Path

import pytest
import trio

from mnemosyne.app.storage import event_codec
from tests.cli.ledgers import MANAGED, OBSERVED, recorded
from tests.cli.readings import store
from tests.golden.sessions import LOGS, append_all, appends, stored
from tests.projections.support import POSTGRES, open_world

GOLDEN, OBSERVED_LOG, SMALL_LOG = LOGS / "one-of-everything", LOGS / "observed", LOGS / "by-model"


@pytest.fixture
def golden(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A database whose log holds the golden session, and an environment in which the commands find it."""
    _fill(GOLDEN, dsn, tmp_path, monkeypatch)
    return dsn


@pytest.fixture
def conversation(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The same for a session that is kept with its contents; its id."""
    _fill(OBSERVED_LOG, dsn, tmp_path, monkeypatch)
    return str(stored(OBSERVED_LOG)[0].stream)


@pytest.fixture
def small_conversation(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The same for one of few turns."""
    _fill(SMALL_LOG, dsn, tmp_path, monkeypatch)
    return str(stored(SMALL_LOG)[0].stream)


def _fill(folder: Path, dsn: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            await append_all(world.journal, appends(folder))

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(data_dir), "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MNEMOSYNE_TENANT", stored(folder)[0].state["data"]["tenant"])


@pytest.fixture
def managed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(dsn, tmp_path, monkeypatch, MANAGED)


@pytest.fixture
def observed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(dsn, tmp_path, monkeypatch, OBSERVED)


@pytest.fixture
def read_files(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A database with two sessions that read files."""
    trio.run(store, dsn)
    monkeypatch.setenv("MNEMOSYNE_DSN", dsn)
    monkeypatch.setenv("MNEMOSYNE_DATA_DIR", str(tmp_path))
    return dsn
