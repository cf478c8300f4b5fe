"""A log of a year: recorded events many times over, as sessions of their own, and what commands take as it grows.

One session is recorded by our own code; its events and contents are copied in the database under other streams, in
the order in which sessions that run beside each other write.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
import trio

from benchmarks.harness import Group, Part, Row, Server, cpu_seconds_of_all, single
from benchmarks.history import QUICK_KIND, SYNTHETIC_KIND, history
from benchmarks.inside import open_log, record
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.projections.catalog import ALL
from mnemosyne.projections.object_index import OBJECT_INDEX

TURNS, QUICK_TURNS = 250, 20
"""Turns of the session that is copied."""

AT_ONCE = 20
"""Sessions that write beside each other, and are copied at once."""

MOST_INDEXED = 100_000
"""Beyond so many events the index of objects is left out, which takes half an hour for a million."""

MOST_SECONDS = 900.0
"""A command that has not ended by then is ended, and its row says so: the whole takes a known time at most."""

EVENTS = """
insert into mnemosyne.stored_events (originator_id, originator_version, topic, state, notification_id)
select md5(originator_id::text || n)::uuid, originator_version, topic, state,
    nextval('mnemosyne.stored_events_notification_id_seq')
from mnemosyne.stored_events, generate_series(%(first)s::bigint, %(last)s::bigint) as n
where originator_id = %(source)s order by originator_version, n
"""
CONTENTS = """
insert into mnemosyne.content (stream, size, encoding, digest, data)
select md5(stream::text || n)::uuid, size, encoding, digest, data
from mnemosyne.content, generate_series(%(first)s::bigint, %(last)s::bigint) as n where stream = %(source)s
"""


def _grow(events: int, _: Sequence[Server], quick: bool) -> list[Row]:
    """What commands take with so many events."""
    return trio.run(_measure, 4_000 if quick else events, QUICK_KIND if quick else SYNTHETIC_KIND)


async def _measure(events: int, kind: str) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder:
        data = Path(folder) / "data"
        turns = QUICK_TURNS if kind == QUICK_KIND else TURNS
        async with open_log(data) as log:
            await record(log, history(kind), "recorded", 1, turns)
        async with open_embedded(data) as server:
            named = f"{events:,} events"
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                rows = [single("filled in", named, "s", _fill(connection, events))]
                (stream,) = connection.execute(
                    "select originator_id from mnemosyne.stored_events order by notification_id desc limit 1"
                ).fetchall()[0]
                (size,) = connection.execute("select pg_database_size(current_database())").fetchall()[0]
            rows.append(single("on disk", named, "MB", int(str(size)) / 1e6))
            # By its environment: a server of the default directory would take the commands, and their time with them.
            environ = {**os.environ, "MNEMOSYNE_DSN": server.dsn, "MNEMOSYNE_DATA_DIR": str(Path(folder) / "own")}
            is_indexed = events <= MOST_INDEXED
            read_models = () if is_indexed else [each.name for each in ALL if each is not OBJECT_INDEX]
            for words in (
                ("rebuild", *read_models),
                ("sessions", "--limit", "20"),
                ("context", str(stream), "--json"),
                ("verify", str(stream)),
                *([("search", str(stream), "parser", "--json")] if is_indexed else []),
                ("du", "--json"),
                ("usage", "--json"),
                ("retain", "--retain-days", "1", "--dry-run"),
                ("backup", str(Path(folder) / "backup")),
                ("archive", str(stream), "--to", str(Path(folder) / "old"), "--quick"),
                ("unarchive", str(stream)),
                ("forget", str(stream), "--yes", "--quick"),
                ("forget", str(stream), "--yes"),
            ):
                rows += _run(words, environ, server.pid, named)
            return rows


def _fill(connection: "psycopg.Connection[tuple[object, ...]]", events: int) -> float:
    """Copy the one session until there are so many events; seconds."""
    began = time.perf_counter()
    ((source, held),) = connection.execute(
        "select originator_id, count(*) from mnemosyne.stored_events group by 1 order by 2 desc limit 1"
    ).fetchall()
    copies = max(1, events // int(str(held)) - 1)
    for first in range(0, copies, AT_ONCE):
        place = {"first": first, "last": min(first + AT_ONCE, copies) - 1, "source": source}
        for statement in (EVENTS, CONTENTS):
            connection.execute(statement.encode(), place)
    connection.execute("vacuum analyze")
    return time.perf_counter() - began


def _run(words: Sequence[str], environ: Mapping[str, str], database: int, variant: str) -> list[Row]:
    """Wall seconds of a command, and processor seconds of itself and of the ``database`` processes."""
    called = " ".join((words[0], *(each for each in words if each == "--quick")))
    children, own, began = (
        resource.getrusage(resource.RUSAGE_CHILDREN),
        cpu_seconds_of_all(database),
        time.perf_counter(),
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mnemosyne", *words],
            capture_output=True,
            text=True,
            env=environ,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        called += ", which was ended"
    else:
        if done.returncode:
            raise RuntimeError(f"{words} ended with {done.returncode}: {done.stderr}")
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    return [
        single(called, variant, "s", seconds),
        single(f"{called}, processor time of the command", variant, "s", cpu),
        single(f"{called}, processor time of PostgreSQL", variant, "s", cpu_seconds_of_all(database) - own),
    ]


SIZES = {"100k": 100_000, "1m": 1_000_000, "3m": 3_000_000, "10m": 10_000_000}


def _part(name: str, events: int) -> Part:
    return Part(name, lambda servers, quick: _grow(events, servers, quick))


GROUP = Group(name="growth", variants=(), parts=tuple(_part(*each) for each in SIZES.items()), by_default=False)
