"""Searches sessions' objects: the best matches for a question, each with its passage."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall.answering import quote, quote_sources
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.named import current_first, find_named
from mnemosyne.domain.recall.object_search import (
    AcrossResult,
    Filter,
    ObjectIndex,
    PassageHit,
    count_unindexed,
    text_in_index,
)
from mnemosyne.domain.recall.sources import Source
from mnemosyne.domain.text.passages import Passage
from mnemosyne.errors import ContentForgotten, ContentMissing, NotFound
from mnemosyne.services import memories, overviews
from mnemosyne.services.sessions import Archive

QUOTED_TOKENS = 200
"""Maximum number of quoted tokens per object."""

NAMED = 1.0
"""The score of an object whose source the question names."""


class CrossSessionIndex(ObjectIndex, Protocol):
    """An index that also searches the objects of all sessions."""

    async def search_across(
        self, question: str, chosen: Filter, streams: Collection[UUID] | None, limit: int
    ) -> AcrossResult:
        """The best matching objects of these sessions, or of all. Raises LogFailed."""


@attrs.frozen
class SearchHit:
    """An object of a session and its best passage."""

    stream: UUID
    hit: PassageHit
    object: MemoryObject
    quote: Quote


@attrs.frozen(kw_only=True)
class Findings:
    """The objects that match a question, best first. ``missing`` and ``skipped`` as in
    ``SearchResult``; ``searched`` counts the searched objects, for a single session. ``outside`` counts unindexed
    objects, of the session or of all sessions with a match.
    """

    embedder: str | None
    found: Sequence[SearchHit]
    searched: int | None = None
    missing: int = 0
    skipped: int = 0
    outside: int = 0


async def search(
    archive: Archive, index: CrossSessionIndex, stream: UUID, question: str, chosen: Filter, limit: int
) -> Findings:
    """The best objects of one session. Raises NotFound for an unknown branch, ContentForgotten."""
    _, fitting, searched = await memories.read_chosen(archive, stream, chosen)
    result = await index.search(stream, question, searched, limit)
    hits = [(stream, hit) for hit in result.hits]
    found, skipped = await _quotes(archive, question, hits, {stream: fitting}, limit)
    return Findings(
        embedder=result.embedder,
        found=found,
        searched=len(searched),
        missing=result.missing,
        skipped=result.skipped + skipped,
        outside=count_unindexed(fitting.values()),
    )


async def search_sessions(
    archive: Archive, index: CrossSessionIndex, question: str, chosen: Filter, limit: int, *, folder: str | None = None
) -> Findings:
    """The best objects of every session outside the trash, or of those that worked in a folder. Raises NotFound if none
    did.
    """
    streams = await overviews.sessions_in(archive, folder)
    if folder is not None and not streams:
        raise NotFound(f"No recorded session worked in {folder}.")
    result = await index.search_across(question, chosen, streams, limit)
    found_in = {stream for stream, _ in result.hits}
    remembered = {stream: chosen.fitting((await memories.read_objects(archive, stream))[0]) for stream in found_in}
    hits = [(stream, hit) for stream, hit in result.hits if hit.object in remembered[stream]]
    found, skipped = await _quotes(archive, question, hits, remembered, limit)
    outside = sum(count_unindexed(each.values()) for each in remembered.values())
    return Findings(embedder=result.embedder, found=found, skipped=skipped, outside=outside)


async def _quotes(
    archive: Archive,
    question: str,
    hits: Sequence[tuple[UUID, PassageHit]],
    objects: Mapping[UUID, Mapping[str, MemoryObject]],
    limit: int,
) -> tuple[list[SearchHit], int]:
    """The quotes of hits, best first, and the number of unreadable ones: deleted since the index was
    searched, or lost.
    """
    found: list[SearchHit] = []
    skipped = 0
    for stream, hit in _across(question, hits, objects):
        if len(found) == limit:
            break
        try:
            found.append(await _quote(archive, stream, hit, objects[stream][hit.object], question))
        except (ContentForgotten, ContentMissing, ValueError):
            skipped += 1
    return found, skipped


def _by_name(question: str, objects: Mapping[str, MemoryObject]) -> list[PassageHit]:
    """Each whole object whose source the question names."""
    return [PassageHit(each.id, Passage(0, each.size), NAMED) for each in find_named(question, objects.values())]


def _current_first(hits: Sequence[PassageHit], objects: Mapping[str, MemoryObject]) -> list[PassageHit]:
    """The hits of one session with outdated objects last; each rank keeps its score."""
    by_id = {hit.object: hit for hit in hits}
    order = current_first(by_id, objects)
    return [attrs.evolve(by_id[key], score=hit.score) for key, hit in zip(order, hits, strict=True)]


def _across(
    question: str, hits: Sequence[tuple[UUID, PassageHit]], objects: Mapping[UUID, Mapping[str, MemoryObject]]
) -> list[tuple[UUID, PassageHit]]:
    """The objects that the question names in any of these sessions, then the hits, each session keeping its ranks."""
    named = [(stream, hit) for stream, some in objects.items() for hit in _by_name(question, some)]
    known = {(stream, hit.object) for stream, hit in named}
    of_session = {stream: [hit for of, hit in hits if of == stream] for stream in objects}
    ordered = {stream: iter(_current_first(some, objects[stream])) for stream, some in of_session.items()}
    others = [(stream, next(ordered[stream])) for stream, _ in hits]
    return [*named, *((stream, hit) for stream, hit in others if (stream, hit.object) not in known)]


async def _quote(archive: Archive, stream: UUID, hit: PassageHit, each: MemoryObject, question: str) -> SearchHit:
    """The best lines of a passage, verbatim from the object's text."""
    text = text_in_index(each, await memories.content_of(archive, stream, each))
    estimator = Estimator.of(None)
    span = hit.passage.start, hit.passage.end
    source = Source(id=each.id, text=text, spans=[span])
    quotes = quote_sources(question, [source], QUOTED_TOKENS, lambda line: estimator.tokens(features_of_text(line)))
    return SearchHit(stream, hit, each, quotes[0][0] if quotes else quote(each.id, text, span))
