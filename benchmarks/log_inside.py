"""The log's space for a long session, and its appends a second.

Measured in the benchmark's own process, on the database of the running server.
"""

import random
import statistics
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import LiteralString

import attrs
import trio

from benchmarks.harness import Row, Server, single, spread
from benchmarks.history import History, history, kind_of
from benchmarks.inside import Log, open_log, record
from benchmarks.variants import OURS, data_dir
from mnemosyne.domain.ports import Append, Content, Envelope, StreamSizes
from mnemosyne.domain.session.events import TurnFinished

SIZE_GOAL = 1.3

CONTENT_BYTES = 2_000
"""New content of one append, similar to a turn of a recorded session."""

STORED, RAW, TABLES, WAL = "as stored", "uncompressed", "tables on disk", "write-ahead log"


def space(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Bytes of the log for each byte of unique content."""
    whole = history(kind_of(quick))
    directory = data_dir(next(server.own for server in servers if server.name == OURS))
    taken = trio.run(_taken, directory, whole)
    unique = whole.unique_bytes(whole.turns)
    title = f"{whole.turns} turns"
    sizes = {
        STORED: taken.sizes.event_bytes + taken.sizes.stored_bytes,
        RAW: taken.sizes.event_bytes + taken.sizes.raw_bytes,
        TABLES: taken.tables,
        WAL: taken.wal,
    }
    rows = [single(f"unique content, {title}", "client", "MB", unique / 1e6)]
    rows += [single(f"events, {title}", STORED, "MB", taken.sizes.event_bytes / 1e6)]
    rows += [single(f"log, {title}", name, "MB", size / 1e6) for name, size in sizes.items()]
    rows += [
        single(f"log ÷ unique content, {title}", name, "ratio", size / unique, None if name == WAL else SIZE_GOAL)
        for name, size in sizes.items()
    ]
    return rows


@attrs.frozen
class _Taken:
    """The space of a session: the bytes of its values, and the growth of the database."""

    sizes: StreamSizes
    tables: int
    wal: int


_TABLES: LiteralString = (
    "select pg_total_relation_size('mnemosyne.stored_events') + pg_total_relation_size('mnemosyne.content'),"
    " (pg_current_wal_lsn() - '0/0')::bigint"
)


async def _taken(directory: Path, whole: History) -> _Taken:
    async with open_log(directory) as log:
        before = await log.database.run(lambda connection: connection.execute(_TABLES).fetchone())
        await record(log, whole, "whole", 1, whole.turns)
        after = await log.database.run(lambda connection: connection.execute(_TABLES).fetchone())
        stream = log.identity("whole").stream
        sizes = (await log.events.sizes(stream))[stream]
    assert before is not None
    assert after is not None
    return _Taken(sizes, after[0] - before[0], after[1] - before[1])


def appends(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Appends a second through the journal, each session waiting until one is durable before the next."""
    seconds, rounds = (0.3, 1) if quick else (3.0, 5)
    directory = data_dir(next(server.own for server in servers if server.name == OURS))
    counts = (1, 8) if quick else (1, 8, 64)
    taken = trio.run(_appends, directory, counts, seconds, rounds)
    rows: list[Row] = []
    for sessions, (rates, waits) in taken.items():
        named = f"{sessions} session{'s' if sessions > 1 else ''}"
        rows.append(spread(f"appends, {named}", "journal", "1/s", rates))
        rows.append(spread(f"until an append is durable, {named}", "journal", "ms", waits))
    single_rate = statistics.median(taken[1][0])
    most = max(counts)
    gain = statistics.median(taken[most][0]) / single_rate
    return [*rows, single(f"appends, {most} sessions ÷ 1 session", "journal", "ratio", gain)]


Taken = dict[int, tuple[list[float], list[float]]]


async def _appends(directory: Path, counts: Sequence[int], seconds: float, rounds: int) -> Taken:
    taken: Taken = {count: ([], []) for count in counts}
    async with open_log(directory) as log:
        for number in range(rounds):
            for count, (rates, waits) in taken.items():
                done: list[float] = []
                started = trio.current_time()
                async with trio.open_nursery() as nursery:
                    for session in range(count):
                        name = f"appends-{number}-{count}-{session}"
                        nursery.start_soon(append_repeatedly, log, name, started + seconds, done)
                rates.append(len(done) / (trio.current_time() - started))
                waits += done
    return taken


async def append_repeatedly(log: Log, session: str, until: float, done: list[float]) -> None:
    """Append one event with new content after the other; note how many milliseconds each took."""
    stream = log.identity(session).stream
    rng = random.Random(session)
    version = 0
    while trio.current_time() < until:
        data = "".join(rng.choices("etaoin shrdlu cmfwyp", k=CONTENT_BYTES)).encode()
        content = Content(sha256(data).digest(), data)
        event = TurnFinished(
            at=version,
            branch="main",
            turn=version + 1,
            attempt=1,
            status=200,
            reply=content.digest * 4,
            message_id="msg_benchmark",
            model="benchmark",
            stop_reason="end_turn",
            error_type=None,
            usage={"input_tokens": 12, "output_tokens": 9},
        )
        started = trio.current_time()
        version = await log.journal.append(Append(stream, version, (Envelope(event, session),), (content,)))
        done.append((trio.current_time() - started) * 1000)
