"""Logs with turns in the ledger, in a database that commands read."""

from pathlib import Path
from typing import Any

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from tests.domain.session_events import accounted, epoch
from tests.projections.support import POSTGRES, open_world
from tests.projections.test_savings import STREAM


def assessed(turn: int) -> TurnAssessed:
    return TurnAssessed(
        at=turn * 10,
        branch="main",
        turn=turn,
        model="claude-opus-4-5",
        open_from=0,
        typed=(),
        content=(0, 0),
        head=(500_000, 0),
        tokens=1_000,
        usable=100_000,
        zone="normal" if turn < 3 else "caution",
    )


STARTED = SessionStarted(at=1, tenant="local", external_id="a session\x1b", client="c", client_version=None, salt=b"s")
MANAGED = [
    STARTED,
    assessed(1),
    accounted(1, 10_000, 30_000),
    assessed(2),
    EpochBegan(
        at=20, branch="main", turn=2, epoch=1, messages=3, reason="cold", freed=9, price=5_000, payback=4, hour=False
    ),
    epoch(2, 1),
    accounted(2, 40_000, 35_000, compacted=True),
    assessed(3),
    accounted(3, 20_000, 90_000, assumed=True),
]
OBSERVED = [STARTED, accounted(1, 10_000, 12_000, Mode.OBSERVE)]


def recorded(dsn: str, folder: Path, monkeypatch: pytest.MonkeyPatch, events: list[Any]) -> None:
    """A database that holds these events, and an environment in which the commands find it."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            await world.journal.append(Append(STREAM, 0, tuple(Envelope(event, "c") for event in events)))

    trio.run(fill)
    for name, value in {"MNEMOSYNE_DSN": dsn, "MNEMOSYNE_DATA_DIR": str(folder)}.items():
        monkeypatch.setenv(name, value)
