"""Managed requests that were larger than their window are found by rows, and told by events."""

from pathlib import Path

import pytest

from mnemosyne.app.read_models import no_bars, open_read_models
from mnemosyne.config import load
from mnemosyne.domain.history.excess import excesses
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.services.excesses import read_excesses
from mnemosyne.services.session_list import find_oversized
from mnemosyne.services.sessions import read_history
from tests.golden.sessions import CODEC, FOLDERS, append_all, appends
from tests.projections.support import POSTGRES, open_world


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_no_session_with_a_request_above_its_window_is_overlooked(folder: Path, dsn: str, tmp_path: Path) -> None:
    async with open_world(POSTGRES, dsn, CODEC) as world:
        await append_all(world.journal, appends(folder))
    async with open_read_models(load({"dsn": dsn, "data_dir": str(tmp_path)}, {}), print, no_bars) as models:
        streams = await models.archive.events.streams()
        for window in (1, 1_000, 10_000, 10_000_000):
            found = await read_excesses(models.archive, await find_oversized(models, streams, window), window)
            for stream in streams:
                _, history = await read_history(models.archive, str(stream))
                assert found.get(stream, []) == list(excesses(history, window))
                managed = any(each.mode is Mode.MANAGE for each in history.modes.values())
                assert window > 1 or bool(found) == managed
