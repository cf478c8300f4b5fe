"""The index of objects in PostgreSQL: their words and the vectors of their passages.

``object_index_search.py`` asks it, ``object_index_rows.py`` keeps it.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres import object_index_rows as rows
from mnemosyne.adapters.postgres import object_index_search as searching
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.object_index_rows import (
    Cursor,
    IndexedObject,
    IndexEntry,
    IndexStanding,
    IndexWork,
    SkippedObject,
)
from mnemosyne.adapters.postgres.object_index_search import IndexQuery
from mnemosyne.domain.recall.object_search import AcrossResult, ByMeaning, Filter, PassageHit, SearchResult, combine
from mnemosyne.domain.recall.retrieval import Embedder

BUILD_SECONDS = 3_600.0
"""How long making the index for approximate search may take; 300,000 vectors take two minutes."""


class PostgresObjectIndex:
    """The index in a prepared ``Database`` (domain.object_search.ObjectIndex).

    ``embedders`` are those at hand, the wanted one first; of those that have come furthest the first is searched with.
    """

    def __init__(self, database: Database, embedders: Sequence[Embedder]) -> None:
        self.embedders = embedders
        self._database = database

    async def search(self, stream: UUID, question: str, among: Collection[str], limit: int) -> SearchResult:
        """See domain.object_search.ObjectIndex."""
        embedder, asked = await self._make_query(question)
        found = await self._database.run(searching.search, stream, asked, among)
        near = _by_meaning(embedder, found.near)
        return attrs.evolve(
            combine(found.words, near, limit),
            missing=len(set(among)) - found.objects,
            unembedded=found.unembedded,
            skipped=found.skipped,
        )

    async def search_across(
        self, question: str, chosen: Filter, streams: Collection[UUID] | None, limit: int
    ) -> AcrossResult:
        """The best objects that fit, of these sessions or of all. A filter by branch has no meaning here."""
        embedder, asked = await self._make_query(question)
        found = await self._database.run(searching.search_across, asked, chosen, streams)
        result = combine(found.words, _by_meaning(embedder, found.near), limit)
        hits = [(*searching.place_of(hit.object), hit) for hit in result.hits]
        return AcrossResult(
            hits=[(stream, attrs.evolve(hit, object=name)) for stream, name, hit in hits],
            embedder=result.embedder,
        )

    async def build_near_index(self) -> None:
        """Make an index for approximate search, which only a search of everything uses: it is faster then, and may
        miss some. Every vector that is added later costs a millisecond more.
        """
        await self._database.run(searching.build_near_index, self.embedders[0].name, deadline=BUILD_SECONDS)

    async def drop_near_index(self) -> bool:
        """Take it away again; whether it was there."""
        return await self._database.run(searching.drop_near_index)

    async def _make_query(self, question: str) -> tuple[Embedder | None, IndexQuery]:
        embedder = await self._furthest()
        if embedder is None:
            return None, IndexQuery(question=question)
        (vector,) = await embedder.embed([question])
        return embedder, IndexQuery(question=question, embedder=embedder.name, vector=vector)

    async def standing(self) -> IndexStanding:
        """How far the index has come with what the projection knows."""
        return await self._database.run(rows.standing, self.embedders[0].name)

    async def _furthest(self) -> Embedder | None:
        reached = await self._database.run(rows.cursors)
        there = [each for each in self.embedders if reached.get(each.name)]
        return max(there, key=lambda each: reached[each.name], default=None)  # the first of equals

    # Filling, for object_indexer.py

    async def clear(self) -> None:
        """Nothing is in the index, but vectors stay: the same passage gets the same one."""
        await self._database.run(rows.clear)

    async def tidy(self) -> int:
        """Take out what was forgotten, and what another way of cutting left; how far the projection has come that tells
        which objects there are.
        """
        return await self._database.run(rows.tidy)

    async def next_work(self, limit: int) -> IndexWork | None:
        """What is to be done next, for up to so many objects: words, then vectors. None where all is done."""
        return await self._database.run(rows.next_work, [each.name for each in self.embedders], limit)

    async def put_words(
        self, after: Cursor, made: Sequence[IndexedObject], entries: Sequence[IndexEntry | SkippedObject | None]
    ) -> None:
        """The words of objects (None: it was forgotten), and the cursor to the last of them."""
        await self._database.run(rows.put_words, after, made, entries)

    async def put_vectors(self, embedder: str, vectors: Mapping[tuple[UUID, bytes], Sequence[float]]) -> None:
        """Vectors of passages, by session and hash."""
        await self._database.run(rows.put_vectors, embedder, vectors)

    async def move(self, after: Cursor, made: IndexedObject) -> None:
        """The cursor to an object, unless somebody else has moved it."""
        await self._database.run(rows.move, after, made)


def _by_meaning(embedder: Embedder | None, near: Sequence[PassageHit]) -> ByMeaning | None:
    if embedder is None:
        return None
    return ByMeaning(embedder=embedder.name, calibration=embedder.calibration, passages=near)
