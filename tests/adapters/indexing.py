"""A session of the real actor in PostgreSQL, with an index of its objects."""

import math
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID
from zlib import crc32

import attrs

from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.object_indexer import ObjectIndexer
from mnemosyne.adapters.postgres.projection_store import PostgresProjections
from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.aggregate import is_searched
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.ports import Append, Content
from mnemosyne.domain.recall.object_search import SearchResult
from mnemosyne.domain.recall.retrieval import Calibration, Embedder
from mnemosyne.domain.text.words import count_words
from mnemosyne.projections.object_index import OBJECT_INDEX
from mnemosyne.projections.projector import Projector
from mnemosyne.services import memories
from tests.adapters.log_support import open_database, running
from tests.plain.log import PlainLog
from tests.services.talking import body, talking

DIMENSION = 384


class HashedWords:
    """An embedder that needs no model: texts that share words, or parts of words, are near (feature hashing)."""

    dimension = DIMENSION
    calibration = Calibration(nearness=12.8, coverage=10.6, base=-7.2)
    texts_at_once = 256

    def __init__(self, name: str = "hashed-words") -> None:
        self.name = name
        self.texts_seen: list[str] = []

    async def embed(self, texts: Sequence[str]) -> "list[array[float]]":
        self.texts_seen += texts
        return [_hash_words(text) for text in texts]


def _hash_words(text: str) -> "array[float]":
    sums = [0.0] * DIMENSION
    for word, count in count_words(text).items():
        parts = [f"#^{word}$"[start : start + 4] for start in range(len(word))]
        for feature, weight in [(f"^{word}$", 1.0), *((part, 0.3) for part in parts)]:
            digest = crc32(feature.encode("utf-8", "surrogatepass"))
            sums[digest % DIMENSION] += (1 + math.log(count)) * (weight if digest & 0x80000000 else -weight)
    length = math.hypot(*sums)
    return array("f", [value / length for value in sums] if length else [1.0, *[0.0] * (DIMENSION - 1)])


def always(embedder: Embedder | None) -> Callable[[], Awaitable[Embedder | None]]:
    """The source of an embedder for an index."""

    async def get() -> Embedder | None:
        return embedder

    return get


@attrs.define
class Indexed:
    """A log in a database, and its index."""

    database: Database
    events: PostgresEventLog
    contents: PostgresContentStore
    journal: GroupJournal
    index: PostgresObjectIndex
    indexer: ObjectIndexer

    async def project(self) -> None:
        """Update the projection, but not the index."""
        standing = await Projector(OBJECT_INDEX, self.events, PostgresProjections(self.database)).catch_up()
        assert standing.error is None

    async def catch_up(self) -> None:
        """Update both."""
        await self.project()
        await self.indexer.catch_up()

    async def memory(self, stream: UUID) -> Memory:
        return memories.fold(await self.events.read(stream)).memory

    async def search(self, stream: UUID, question: str, limit: int = 5) -> SearchResult:
        """Search among all objects of a session."""
        objects = (await self.memory(stream)).objects
        return await self.index.search(stream, question, [k for k, each in objects.items() if is_searched(each)], limit)

    async def add(self, name: str, *files: tuple[str, str], **members: Any) -> UUID:
        """Add a session that reads files, each a (name, text); ``members`` are further members of its request."""
        return await self.add_bodies(name, [_reading(name, files, **members)])

    async def add_bodies(self, name: str, bodies: Sequence[bytes]) -> UUID:
        """Add a session of these requests."""
        async with talking(name=name) as talk:
            for each in bodies:
                await talk.ask(each)
        await self.copy(talk.archive.log, talk.stream)
        return talk.stream

    async def copy(self, log: PlainLog, stream: UUID) -> None:
        envelopes = tuple(each.envelope for each in await log.read(stream))
        contents = [Content(digest, data) for digest, data in log._contents[stream].items() if data is not None]
        await self.journal.append(Append(stream, 0, envelopes, tuple(contents)))


def _reading(name: str, files: Sequence[tuple[str, str]], **members: Any) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Please look at these files of {name}."}]
    for number, (path, text) in enumerate(files):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": path}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return body(
        [*messages, {"role": "assistant", "content": "Read."}, {"role": "user", "content": "Go on."}], **members
    )


@asynccontextmanager
async def indexing(dsn: str, embedder: Embedder | None = None) -> AsyncIterator[Indexed]:
    """Open an empty log with an index, by default with ``HashedWords``."""
    codec = event_codec()
    async with open_database(dsn) as database:
        log = PostgresEventLog(database, codec)
        contents = PostgresContentStore(database)
        index = PostgresObjectIndex(database, always(embedder or HashedWords()))
        async with running(GroupJournal(log, codec)) as journal:
            yield Indexed(database, log, contents, journal, index, ObjectIndexer(index, log, contents))
