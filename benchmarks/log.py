"""The log's space for a long session, and its appends a second.

Measured in the benchmark's own process, on the database of the running server.
"""

import random
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, LiteralString

import trio

from benchmarks.harness import Group, Row, Server, ratio, single, spread
from benchmarks.history import History, history, kind_of
from benchmarks.inside import TENANT, open_log, record
from benchmarks.variants import OURS, choose
from mnemosyne.domain.ports import Append, Content, Envelope, Journal, StreamSizes
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import TurnFinished

SIZE_GOAL = 1.3

CONTENT_BYTES = 2_000
"""New content of one append, similar to a turn of a recorded session."""


def space(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Bytes of the log for each byte of unique content."""
    whole = history(kind_of(quick))
    taken, tables, wal = trio.run(_store, servers[0].data_dir, whole)
    unique, title = whole.unique_bytes(whole.turns), f"{whole.turns} turns"
    sizes = {
        "as stored": taken.event_bytes + taken.stored_bytes,
        "uncompressed": taken.event_bytes + taken.raw_bytes,
        "tables on disk": tables,
    }
    return [
        single(f"unique content, {title}", "client", "MB", unique / 1e6),
        single(f"events, {title}", "as stored", "MB", taken.event_bytes / 1e6),
        *(single(f"log, {title}", name, "MB", size / 1e6) for name, size in sizes.items()),
        single(f"log, {title}", "write-ahead log", "MB", wal / 1e6),
        *(single(f"log ÷ unique content, {title}", name, "ratio", n / unique, SIZE_GOAL) for name, n in sizes.items()),
    ]


_TABLES: LiteralString = (
    "select pg_total_relation_size('mnemosyne.stored_events') + pg_total_relation_size('mnemosyne.content'),"
    " (pg_current_wal_lsn() - '0/0')::bigint"
)


async def _store(directory: Path, whole: History) -> tuple[StreamSizes, int, int]:
    """Record a history; the bytes of its values, and the growth of the tables and of the write-ahead log."""
    async with open_log(directory) as (database, storage):
        before = await database.run(lambda connection: connection.execute(_TABLES).fetchall()[0])
        await record(storage, whole, "whole", whole.turns)
        after = await database.run(lambda connection: connection.execute(_TABLES).fetchall()[0])
        stream = stream_of(TENANT, "whole")
        sizes = (await storage.events.sizes(stream))[stream]
    return sizes, after[0] - before[0], after[1] - before[1]


def appends(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Appends a second through the journal, each session waiting until one is durable before the next."""
    counts, seconds, rounds = ((1, 8), 0.3, 1) if quick else ((1, 8, 64), 3.0, 5)
    rates: dict[str, list[float]] = {}
    rows: list[Row] = []
    for count in counts:
        named = f"{count} session{'s' if count > 1 else ''}"
        rates[named], waits = trio.run(_append, servers[0].data_dir, count, seconds, rounds)
        rows.append(spread(f"appends, {named}", "journal", "1/s", rates[named]))
        rows.append(spread(f"until an append is durable, {named}", "journal", "ms", waits))
    return [*rows, ratio("appends", named, "1 session", rates)]


async def _append(directory: Path, count: int, seconds: float, rounds: int) -> tuple[list[float], list[float]]:
    """Appends per second in each round, and the milliseconds of each append, with this many sessions at once."""
    rates, waits = list[float](), list[float]()
    async with open_log(directory) as (_, storage):
        for number in range(rounds):
            done: list[float] = []
            started = trio.current_time()
            async with trio.open_nursery() as nursery:
                for session in range(count):
                    name = f"appends-{number}-{count}-{session}"
                    nursery.start_soon(append_repeatedly, storage.journal, name, started + seconds, done)
            rates.append(len(done) / (trio.current_time() - started))
            waits += done
    return rates, waits


async def append_repeatedly(journal: Journal, session: str, until: float, done: list[float]) -> None:
    """Append one event with new content after the other; note how many milliseconds each took."""
    stream = stream_of(TENANT, session)
    rng = random.Random(session)
    version = 0
    while trio.current_time() < until:
        data = "".join(rng.choices("etaoin shrdlu cmfwyp", k=CONTENT_BYTES)).encode()
        content = Content(sha256(data).digest(), data)
        told: dict[str, Any] = {"at": version, "branch": "main", "turn": version + 1, "attempt": 1, "status": 200}
        told |= {"reply": content.digest * 4, "message_id": "msg_benchmark", "model": "benchmark"}
        told |= {"stop_reason": "end_turn", "error_type": None, "usage": {"input_tokens": 12, "output_tokens": 9}}
        started = trio.current_time()
        version = await journal.append(Append(stream, version, (Envelope(TurnFinished(**told), session),), (content,)))
        done.append((trio.current_time() - started) * 1000)


GROUP = Group("log", choose(OURS), {"space": space, "appends": appends})
