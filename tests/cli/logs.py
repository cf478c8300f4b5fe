"""Logs that commands read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.events import ObjectCreated, TurnAssessed
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.projections.catalog import ALL
from tests.adapters.indexing import indexing
from tests.domain.session_events import billed, epoch, opened_branch
from tests.golden.sessions import LOGS, append_all, appends
from tests.projections.support import POSTGRES, dump_of, open_world
from tests.projections.test_savings import STREAM
from tests.services.talking import body

GOLDEN, OBSERVED_LOG, SMALL_LOG = LOGS / "one-of-everything", LOGS / "observed", LOGS / "by-model"

OBJECT = next(
    envelope.event.object
    for append in appends(OBSERVED_LOG)
    for envelope in append.envelopes
    if isinstance(envelope.event, ObjectCreated)
)
"""An object of the observed session."""

PARSER = "def parse_header(raw):\n    raise ParseFailed(ERR_HEADER_2041)  # größer\n" * 4
READ_PARSER = ("src/parser.py", PARSER)
POOL = ("src/pool.py", "class ConnectionPool:\n    max_connections = 20\n    def acquire(self): ...\n" * 4)
WORKPLACE = "You are an agent.\nWorking directory: /home/ada/app\n"


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
    opened_branch(),
    assessed(1),
    *billed(1, 10_000, 30_000, assumed=True),
    assessed(2),
    EpochBegan(
        at=20, branch="main", turn=2, epoch=1, messages=3, reason="cold", freed=9, price=5_000, payback=4, hour=False
    ),
    epoch(2, 1),
    *billed(2, 40_000, 35_000, compacted=True),
    assessed(3),
    *billed(3, 20_000, 90_000),
]
OBSERVED = [STARTED, opened_branch(), *billed(1, 10_000, 12_000, Mode.OBSERVE)]


def put_golden(dsn: str, *folders: Path) -> None:
    """Append golden logs."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for folder in folders:
                await append_all(world.journal, appends(folder))

    trio.run(fill)


def dump_all(dsn: str) -> dict[str, str]:
    """Bring the read models up to date; return the rows of each as JSON lines."""

    async def dump() -> dict[str, str]:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            for each in ALL:
                await world.projector(each).catch_up()
            return {each.name: "".join(f"{row}\n" for row in await dump_of(world.store, each)) for each in ALL}

    return trio.run(dump)


def put_events(dsn: str, events: Sequence[Any]) -> None:
    """Append the events of one session."""

    async def fill() -> None:
        async with open_world(POSTGRES, dsn, event_codec()) as world:
            await world.journal.append(Append(STREAM, 0, tuple(Envelope(event, "c") for event in events)))

    trio.run(fill)


def put_left_open(dsn: str) -> str:
    """Record a session that leaves a plan open and a later one in its folder; return the id of the first."""
    todos = [{"content": "Write it", "status": "completed"}, {"content": "Test it", "status": "pending"}]
    call = {"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": todos}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    async def fill() -> str:
        async with indexing(dsn) as world:
            stream = await world.add_bodies("planned", [body(messages, system=WORKPLACE)])
            await world.add("next", POOL, system=WORKPLACE)
            return str(stream)

    return trio.run(fill)


def put_readings(dsn: str) -> None:
    """Record two sessions that read files; only the first reads the parser."""

    async def fill() -> None:
        async with indexing(dsn) as world:
            await world.add("mine", READ_PARSER, POOL, system=WORKPLACE)
            await world.add("other", POOL)

    trio.run(fill)
