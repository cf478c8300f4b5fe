"""How fast projections are rebuilt, against reading the same rows and nothing else, and how far they lag under load.

All in one process, on a database of its own. The log holds copies of one session, recorded by the real actor from the
history of ``history.py``; contents are left out, since no projection reads them.
"""

import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median
from uuid import UUID

import attrs
import orjson
import trio

from benchmarks.harness import Group, Part, Row, Server, single, spread
from benchmarks.history import History, history, kind_of
from benchmarks.load import CLAUDE_CODE, Address
from benchmarks.replies import reply_of
from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, Finish, Identity
from mnemosyne.actors.session import SessionActor
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.database import Connection, Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.rebuilding import PAGE, rebuild
from tests.plain.log import PlainLog

CODEC = event_codec()

TURNS, COPIES = 300, 60
QUICK_TURNS, QUICK_COPIES = 30, 2
ROUNDS, QUICK_ROUNDS = 5, 1

LONGEST = 2.0
"""How many times as long as reading the rows a rebuild may take: half as many events a second."""


RAW, TYPED = "select, decode JSON", "the log's own reading"
"""The rows and their JSON, by nothing but the driver and orjson; and as everybody else reads the log: typed events."""

SELECT = b"""select originator_id, originator_version, topic, state, notification_id from mnemosyne.stored_events
where notification_id > %s order by notification_id limit %s"""


@attrs.frozen
class Bench:
    """A log in a database of its own, and the events of which it holds copies."""

    database: Database
    log: PostgresEventLog
    events: PostgresEventLog
    journal: GroupJournal
    session: Sequence[Envelope[Event]]

    @property
    def ours(self) -> Server:
        """This process."""
        return Server("ours", Address("", 0), os.getpid(), Path())


async def _session(whole: History, turns: int) -> list[Envelope[Event]]:
    """The events of a session of so many turns."""
    log = PlainLog(CODEC)
    identity = Identity(stream=UUID(int=0), tenant="local", external_id="a session")
    actor = SessionActor(identity, event_log=log, contents=log, journal=log, new_salt=lambda: b"s" * 16)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor.run)
        for turn in range(1, turns + 1):
            headers = (("user-agent", CLAUDE_CODE),)
            request = ArrivedRequest(
                at=turn * 10**6, headers=headers, raw=whole.body(turn), correlation_id=f"turn {turn}", dialect=MESSAGES
            )
            begun = await actor.mailbox.post(Begin(request=request)).wait()
            assert isinstance(begun, Begun)
            reply = reply_of(whole.reply(turn), turn)
            finish = Finish(at=turn * 10**6, address=begun.address, status=200, reply=reply, correlation_id="")
            await actor.mailbox.post(finish).wait()
        actor.stop()
    return [recorded.envelope for recorded in await log.tail(after=0, limit=10**6)]


@asynccontextmanager
async def _opened(quick: bool) -> AsyncIterator[Bench]:
    session = await _session(history(kind_of(quick)), QUICK_TURNS if quick else TURNS)
    with tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder:
        async with open_embedded(Path(folder)) as server, trio.open_nursery() as nursery:
            database = Database(server.dsn)
            await database.prepare()
            events = PostgresEventLog(database, CODEC)
            journal = GroupJournal(events, CODEC)
            await nursery.start(journal.run)
            yield Bench(database, events, events, journal, session)
            await journal.close(10)
            database.close()


def _rebuild(_: Sequence[Server], quick: bool) -> list[Row]:
    return trio.run(_measure_rebuild, quick)


async def _measure_rebuild(quick: bool) -> list[Row]:
    async with _opened(quick) as bench:
        copies = QUICK_COPIES if quick else COPIES
        for copy in range(copies):
            await bench.journal.append(Append(UUID(int=copy + 1), 0, tuple(bench.session)))
        await bench.database.run(_analyze)
        store = PostgresProjections(bench.database)
        variants: dict[str, Callable[[], Awaitable[object]]] = {
            RAW: partial(bench.database.run, _read_raw),
            TYPED: partial(_read_typed, bench),
        }
        for projection in ALL:
            variants[f"rebuild {projection.name}"] = partial(rebuild, projection, bench.log, store)
        bench.ours.forget_peak()
        seconds = await _timed(variants, QUICK_ROUNDS if quick else ROUNDS)
        now, peak = bench.ours.memory_mb()
    events = copies * len(bench.session)
    name = f"events a second, of {events}"
    rows = [spread(name, variant, "1/s", [events / each for each in taken]) for variant, taken in seconds.items()]
    raw, typed = median(seconds.pop(RAW)), median(seconds.pop(TYPED))
    for variant, taken in seconds.items():
        rows.append(single(f"time ÷ {RAW}", variant, "ratio", median(taken) / raw, LONGEST))
        rows.append(single(f"time ÷ {TYPED}", variant, "ratio", median(taken) / typed))
    return [*rows, single("RSS, highest", "rebuild", "MB", peak), single("RSS, afterwards", "rebuild", "MB", now)]


async def _timed(variants: dict[str, Callable[[], Awaitable[object]]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each, in turns; the first round warms caches and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, work in variants.items():
            started = time.perf_counter()
            await work()
            if number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def _analyze(connection: Connection) -> None:
    connection.execute("analyze mnemosyne.stored_events")


def _read_raw(connection: Connection) -> None:
    """What cannot be spared: the rows, in the same portions, and their JSON."""
    position = 0
    while rows := connection.execute(SELECT, (position, PAGE), binary=True).fetchall():
        for row in rows:
            orjson.loads(row[3])
        position = rows[-1][4]


async def _read_typed(bench: Bench) -> None:
    position = 0
    while events := await bench.events.tail(after=position, limit=PAGE):
        position = events[-1].position


GROUP = Group("projections", (), (Part("rebuild", _rebuild),))
