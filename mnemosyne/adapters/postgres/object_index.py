"""The index of objects in PostgreSQL: their words and the vectors of their passages."""

from collections.abc import Awaitable, Callable, Collection
from uuid import UUID

import attrs

from mnemosyne.adapters.postgres import object_index_rows as rows
from mnemosyne.adapters.postgres import object_index_search as searching
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.object_index_rows import IndexStanding
from mnemosyne.adapters.postgres.object_index_search import IndexAnswer, IndexQuery
from mnemosyne.domain.recall.object_search import AcrossResult, ByMeaning, Filter, SearchResult, combine
from mnemosyne.domain.recall.retrieval import RELEVANT, Embedder
from mnemosyne.errors import BadConfiguration

BUILD_SECONDS = 3_600.0
"""The time limit to build the approximate index; 300,000 vectors take two minutes."""


class PostgresObjectIndex:
    """The index in a prepared ``Database`` (domain.object_search.ObjectIndex).

    ``embedder`` returns the one to use, None while there is none: then the index has words only.
    """

    def __init__(self, database: Database, embedder: Callable[[], Awaitable[Embedder | None]]) -> None:
        self.embedder = embedder
        self.database = database

    async def search(
        self, stream: UUID, question: str, among: Collection[str], limit: int, least: float = RELEVANT
    ) -> SearchResult:
        embedder, asked = await self._make_query(question)
        found = await self.database.run(searching.search, stream, asked, among)
        near = _by_meaning(embedder, found)
        return attrs.evolve(
            combine(found.words, near, limit, least),
            missing=len(set(among)) - found.objects,
            skipped=found.skipped,
        )

    async def search_across(
        self, question: str, chosen: Filter, streams: Collection[UUID] | None, limit: int
    ) -> AcrossResult:
        """The best objects of these sessions, or of all, that pass the filter."""
        embedder, asked = await self._make_query(question)
        found = await self.database.run(searching.search_across, asked, chosen, streams)
        result = combine(found.words, _by_meaning(embedder, found), limit)
        hits = [(*searching.place_of(hit.object), hit) for hit in result.hits]
        return AcrossResult(
            hits=[(stream, attrs.evolve(hit, object=name)) for stream, name, hit in hits],
            embedder=result.embedder,
        )

    async def build_near_index(self) -> None:
        """Build the approximate index: a search of all sessions becomes faster and less exact, and an insert takes a
        millisecond longer.
        """
        embedder = await self.embedder()
        if embedder is None:
            raise BadConfiguration("Vectors need the embedding model: run `mnemosyne model install`.")
        await self.database.run(searching.build_near_index, embedder.name, deadline=BUILD_SECONDS)

    async def drop_near_index(self) -> bool:
        """Drop the approximate index; return whether it existed."""
        return await self.database.run(searching.drop_near_index)

    async def _make_query(self, question: str) -> tuple[Embedder | None, IndexQuery]:
        embedder = await self.embedder()
        if embedder is None or not (await self.database.run(rows.cursors)).get(embedder.name):
            return None, IndexQuery(question=question)
        (vector,) = await embedder.embed([question])
        return embedder, IndexQuery(question=question, embedder=embedder.name, vector=vector)

    async def standing(self) -> IndexStanding:
        """The progress of the index."""
        embedder = await self.embedder()
        return await self.database.run(rows.standing, None if embedder is None else embedder.name)

    async def clear(self) -> None:
        """Empty the index, but keep the vectors, which belong to passages."""
        await self.database.run(rows.clear)


def _by_meaning(embedder: Embedder | None, found: IndexAnswer) -> ByMeaning | None:
    if embedder is None:
        return None
    return ByMeaning(embedder=embedder.name, calibration=embedder.calibration, passages=found.near, stubs=found.stubs)
