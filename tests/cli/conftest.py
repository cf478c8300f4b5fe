"""Databases that commands read."""

from pathlib import Path

import pytest
import trio

from mnemosyne.app.storage import event_codec
from tests.cli.ledgers import MANAGED, OBSERVED, recorded
from tests.golden.sessions import LOGS, appends
from tests.projections.support import POSTGRES, open_world

GOLDEN = LOGS / "one-of-everything"


@pytest.fixture
def golden(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A database whose log holds the golden session, and an environment in which the commands find it."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for append in appends(GOLDEN):
                await world.journal.append(append)

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(tmp_path), "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    return dsn


@pytest.fixture
def managed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(dsn, tmp_path, monkeypatch, MANAGED)


@pytest.fixture
def observed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(dsn, tmp_path, monkeypatch, OBSERVED)
