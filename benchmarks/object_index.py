"""The object index in PostgreSQL: search time in a session of many passages.

The words are from recorded agent sessions, or made up without them; the vectors are random, which
takes as long to compare. Questions are the agents' texts in these sessions.
"""

import itertools
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import attrs
import numpy as np
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.harness import Row, percentile, single, spread
from mnemosyne.adapters.embedded.server import open_embedded
from mnemosyne.adapters.postgres.database import Connection
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.object_index_rows import WORDS, cut
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.projections.object_index import OBJECT_INDEX
from tests.adapters.indexing import DIMENSION, HashedWords, always
from tests.adapters.log_support import open_database

SIZES, QUICK_SIZES = (1_000, 10_000, 100_000), (50, 100)
"""Passages of the sessions that are searched. They are written in turns, as sessions at the same time are."""

OTHERS, QUICK_OTHERS = 9, 1
"""Sessions beside these, of 10,000 passages each (quick: 50)."""

QUESTIONS, QUICK_QUESTIONS = 100, 5
LONGEST_QUESTION = 200
SEARCH_MS = 50.0
"""How long a search of 10,000 passages may take."""

FILL_SECONDS = 600.0

NO_SESSION = UUID(int=0)
_MARK = re.compile(r"(?:^|(?<= ))'000000")
"""The beginning of a stored word of ``NO_SESSION``."""


@attrs.define
class Filling:
    """A session that is being written."""

    stream: UUID
    wanted: int
    objects: list[str] = attrs.field(factory=list)
    passages: int = 0


async def measure(texts: Sequence[str], questions: Sequence[str], quick: bool) -> list[Row]:
    """The time of searches, by the size of the session."""
    asked = [each[:LONGEST_QUESTION] for each in questions][: QUICK_QUESTIONS if quick else QUESTIONS]
    with tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder:
        async with open_embedded(Path(folder)) as server, open_database(server.dsn) as database:
            index = PostgresObjectIndex(database, always(HashedWords()))
            await PostgresProjections(database).create(OBJECT_INDEX)
            sizes = QUICK_SIZES if quick else SIZES
            beside = [50] * QUICK_OTHERS if quick else [10_000] * OTHERS
            sessions = [
                Filling(UUID(int=number * 7919 << 96), size) for number, size in enumerate((*sizes, *beside), 1)
            ]
            await database.run(_fill, sessions, texts, deadline=FILL_SECONDS)
            await database.run(_vacuumed, deadline=FILL_SECONDS)
            stored = sum(each.passages for each in sessions)
            rows = []
            for each in sessions[: len(sizes)]:
                await index.search(each.stream, asked[0], each.objects, 10)
                taken = []
                for question in asked:
                    started = time.perf_counter()
                    await index.search(each.stream, question, each.objects, 10)
                    taken.append(1e3 * (time.perf_counter() - started))
                goal = SEARCH_MS if each.wanted == 10_000 else None
                name = f"search, {each.wanted:,} passages in the session of {stored:,}"
                rows.append(spread(name, "random vectors", "ms", taken))
                rows.append(single(f"{name}, p95", "random vectors", "ms", percentile(taken, 95), goal))
            return rows


def _fill(connection: Connection, sessions: Sequence[Filling], texts: Sequence[str]) -> None:
    """Write all rows at once. Of the words, the index is made afterwards, since that is faster."""
    cuts = [cut(NO_SESSION, text, text[:80]) for text in texts]
    made = list(_objects(sessions, [len(each) for each in cuts]))
    chance, name = np.random.default_rng(1), HashedWords().name
    passages = [
        (session, key, number, each, chance.bytes(16))
        for session, key, text in made
        for number, each in enumerate(cuts[text])
    ]
    (definition,) = connection.execute(
        "select pg_get_indexdef('mnemosyne.object_words_words_idx'::regclass)"
    ).fetchone() or ("",)
    connection.execute("drop index mnemosyne.object_words_words_idx")
    with connection.cursor().copy("copy mnemosyne.object_texts from stdin") as rows:
        for session, key, text in made:
            length = sum(each.length for each in cuts[text])
            rows.write_row((session.stream, key, len(cuts[text]), length, "tool_result", [], 1, 1, None))
    with connection.cursor().copy("copy mnemosyne.object_words from stdin") as rows:
        for session, key, number, each, _ in passages:
            words = _MARK.sub(f"'{session.stream.hex[:6]}", each.words)
            rows.write_row((session.stream, key, number, each.length, words))
    with connection.cursor().copy("copy mnemosyne.object_passages from stdin") as rows:
        for session, key, number, each, hash_ in passages:
            rows.write_row((session.stream, key, number, each.passage.start, each.passage.end, hash_))
    register_vector(connection)
    with connection.cursor().copy("copy mnemosyne.object_vectors from stdin (format binary)") as rows:
        rows.set_types(["uuid", "text", "bytea", "halfvec"])
        for session, _, _, _, hash_ in passages:
            vector = chance.standard_normal(DIMENSION)
            rows.write_row((session.stream, name, hash_, HalfVector(vector / np.linalg.norm(vector))))
    connection.execute("set local statement_timeout = 0; set local maintenance_work_mem = '512MB'")
    connection.execute(definition.encode())
    connection.execute(
        "insert into mnemosyne.object_index_cursors values (%s, 1, null, null), (%s, 1, null, null)", (WORDS, name)
    )


def _objects(sessions: Sequence[Filling], sizes: Sequence[int]) -> Iterator[tuple[Filling, str, int]]:
    """Which session reads which text, in turns: the larger ones have more, so that all are done at the same time."""
    for number, (text, size) in enumerate(itertools.cycle(enumerate(sizes))):
        left = [each for each in sessions if each.passages < each.wanted]
        if not left:
            return
        session = max(left, key=lambda each: 1 - each.passages / each.wanted)
        session.objects.append(f"object{number}")
        session.passages += size
        yield session, f"object{number}", text


def _vacuumed(connection: Connection) -> None:
    connection.commit()
    connection.execute("set statement_timeout = 0")
    connection.execute("vacuum (analyze)")
