"""The index of objects in PostgreSQL: how fast a session of many passages is searched, and what filling it costs.

The words are those of recorded agent sessions, or of a page of ours where there are none; the vectors are of chance,
since it takes as long to compare those. Questions are what agents said in these sessions.
"""

import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import attrs
import numpy as np

from benchmarks.harness import Row, single, spread
from mnemosyne.adapters.embedded_postgres import open_embedded
from mnemosyne.adapters.embedder import HashedLexical, Vectors
from mnemosyne.adapters.object_index import WORDS, Cursor, Cut, Made, PostgresObjectIndex, cut
from mnemosyne.adapters.postgres import Connection, Database
from mnemosyne.adapters.projection_store import PostgresProjections
from mnemosyne.domain.lexical_vector import DIMENSION
from mnemosyne.projections.object_index import OBJECT_INDEX
from tests.adapters.indexing import indexing

SIZES, QUICK_SIZES = (1_000, 10_000, 100_000), (50, 100)
"""Passages of the sessions that are searched. They are written in turns, as sessions at the same time are."""

QUESTIONS, QUICK_QUESTIONS = 100, 5
LONGEST_QUESTION = 200
FILLED_MB, QUICK_FILLED_MB = 2.0, 0.05
SEARCH_MS = 50.0
"""How long a search of 10,000 passages may take."""


@attrs.define
class Filling:
    """A session that is being written."""

    stream: UUID
    wanted: int
    objects: list[str] = attrs.field(factory=list)
    passages: int = 0


class Counted(HashedLexical):
    """Counts what it was asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.given += texts
        return await super().embed(texts)


async def measure(texts: Sequence[str], questions: Sequence[str], quick: bool) -> list[Row]:
    """All rows."""
    asked = [each[:LONGEST_QUESTION] for each in questions][: QUICK_QUESTIONS if quick else QUESTIONS]
    async with _database() as database:
        rows = await _latency(database, texts, asked, quick)
    async with _database() as database:
        return rows + await _cost(database, texts, quick)


@asynccontextmanager
async def _database() -> AsyncIterator[Database]:
    with tempfile.TemporaryDirectory(prefix="mnemosyne-benchmark-") as folder:
        async with open_embedded(Path(folder)) as server:
            database = Database(server.dsn)
            await database.prepare()
            yield database
            database.close()


async def _latency(database: Database, texts: Sequence[str], questions: Sequence[str], quick: bool) -> list[Row]:
    index = PostgresObjectIndex(database, [HashedLexical()])
    await PostgresProjections(database).create(OBJECT_INDEX)
    sizes = QUICK_SIZES if quick else SIZES
    sessions = [Filling(UUID(int=number * 7919 << 96), size) for number, size in enumerate(sizes, 1)]
    await _fill(index, sessions, texts)
    await database.run(_vacuumed)
    stored = sum(each.passages for each in sessions)
    rows = []
    for each in sessions:
        await index.search(each.stream, questions[0], each.objects, 10)
        taken = []
        for question in questions:
            started = time.perf_counter()
            await index.search(each.stream, question, each.objects, 10)
            taken.append(1e3 * (time.perf_counter() - started))
        goal = SEARCH_MS if each.wanted == 10_000 else None
        name = f"search, {each.wanted:,} passages in the session of {stored:,}"
        rows.append(spread(name, "without a model", "ms", taken))
        rows.append(single(f"{name}, p95", "without a model", "ms", sorted(taken)[int(len(taken) * 0.95) - 1], goal))
    return rows


async def _fill(index: PostgresObjectIndex, sessions: Sequence[Filling], texts: Sequence[str]) -> None:
    chance = np.random.default_rng(1)
    for position, text in enumerate(itertools.cycle(texts)):
        left = [each for each in sessions if each.passages < each.wanted]
        if not left:
            return
        # The larger ones have more of the turns, so that all are done at the same time.
        session = max(left, key=lambda each: 1 - each.passages / each.wanted)
        cuts = [attrs.evolve(each, hash=chance.bytes(16)) for each in cut(session.stream, text)]
        made = Made(position + 1, session.stream, f"object{position}", 1, forgotten=False)
        await index.put_words(Cursor(WORDS, position), [made], [cuts])
        await index.put_vectors(HashedLexical.name, session.stream, dict(_vectors(cuts, chance)))
        await index.move(Cursor(HashedLexical.name, position), made)
        session.objects.append(made.object)
        session.passages += len(cuts)


def _vectors(cuts: Sequence[Cut], chance: np.random.Generator) -> Iterator[tuple[bytes, list[float]]]:
    for each in cuts:
        vector = chance.standard_normal(DIMENSION)
        yield each.hash, (vector / np.linalg.norm(vector)).tolist()


def _vacuumed(connection: Connection) -> None:
    connection.commit()
    connection.execute("vacuum (analyze)")


async def _cost(database: Database, texts: Sequence[str], quick: bool) -> list[Row]:
    """A session through the real actor, and the real indexer after it."""
    embedder = Counted()
    most = (QUICK_FILLED_MB if quick else FILLED_MB) * 1e6
    sizes = itertools.accumulate(len(text.encode()) for text in texts)
    files = [(f"{n}.txt", text) for n, (text, size) in enumerate(zip(texts, sizes, strict=True)) if size <= most]
    async with indexing(database._dsn, embedder) as world:
        await world.add("a session", *files)
        await world.project()
        started = time.perf_counter()
        await world.indexer.catch_up()
        seconds = time.perf_counter() - started
        distinct = await world.database.run(_count_distinct)
    megabytes = sum(len(text.encode()) for _, text in files) / 1e6
    return [
        single(f"fill the index, of {megabytes:.1f} MB", "without a model", "s/MB", seconds / megabytes),
        single("embeddings made ÷ distinct passages", "the indexer", "ratio", len(embedder.given) / distinct, 1.0),
    ]


def _count_distinct(connection: Connection) -> int:
    row = connection.execute("select count(distinct (stream, hash)) from mnemosyne.object_passages").fetchone()
    assert row is not None
    return int(row[0])
