"""What sessions remember about a question: the objects that say most, each with the passage that does."""

from collections.abc import Collection, Sequence
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.cost.tokens import Estimator, features_of_text
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.recall.memory_results import Quote
from mnemosyne.domain.recall.object_search import AcrossResult, Filter, ObjectIndex, PassageHit, text_in_index
from mnemosyne.domain.recall.quoting import Quotable, Where, quote
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services import memories, projects
from mnemosyne.services.sessions import Archive

QUOTED_TOKENS = 400
"""How much of an object is quoted."""


class CrossSessionIndex(ObjectIndex, Protocol):
    """Where the objects of all sessions are searched, too."""

    async def search_across(
        self, question: str, chosen: Filter, streams: Collection[UUID] | None, limit: int
    ) -> AcrossResult:
        """The best objects that fit, of these sessions or of all. Raises LogFailed."""
        ...


@attrs.frozen
class SearchHit:
    """An object of a session, and the part of it that says most."""

    stream: UUID
    hit: PassageHit
    object: MemoryObject
    quote: Quote


@attrs.frozen(kw_only=True)
class Findings:
    """What objects say to a question, the best first. ``missing``, ``unembedded`` and ``skipped`` as in
    ``SearchResult``; ``searched`` counts the objects that were asked for, where these are one session's.
    """

    embedder: str | None
    found: Sequence[SearchHit]
    searched: int | None = None
    missing: int = 0
    unembedded: int = 0
    skipped: int = 0


async def search(
    archive: Archive, index: CrossSessionIndex, stream: UUID, question: str, chosen: Filter, limit: int
) -> Findings:
    """The best objects of one session. Raises NotFound for a branch that it has not, ContentForgotten."""
    state = memories.folded(await archive.events.read(stream))
    if chosen.branch is not None and chosen.branch not in state.branches:
        raise NotFound(f"Session {stream} has no branch {chosen.branch!r}; `mnemosyne branches {stream}` lists them.")
    objects = chosen.chosen(state.memory)
    if state.memory.objects and all(each.forgotten for each in state.memory.objects.values()):
        raise ContentForgotten(f"Session {stream} was forgotten: what its objects held is erased.")
    result = await index.search(stream, question, objects.keys(), limit)
    return Findings(
        embedder=result.embedder,
        found=[await _quoted(archive, stream, hit, objects[hit.object], question) for hit in result.hits],
        searched=len(objects),
        missing=result.missing,
        unembedded=result.unembedded,
        skipped=result.skipped,
    )


async def search_sessions(
    archive: Archive, index: CrossSessionIndex, question: str, chosen: Filter, limit: int, *, folder: str | None = None
) -> Findings:
    """The best objects of every session, or of those that worked in a folder. Raises NotFound where none did."""
    streams = None if folder is None else await projects.sessions_in(archive, folder)
    if streams is not None and not streams:
        raise NotFound(f"No session worked in {folder}; --all-sessions searches every session.")
    result = await index.search_across(question, chosen, streams, limit)
    found_in = {stream for stream, _ in result.hits}
    remembered = {stream: memories.folded(await archive.events.read(stream)).memory.objects for stream in found_in}
    found, skipped = [], 0
    for stream, hit in result.hits:
        each = remembered[stream][hit.object]
        try:
            found += [] if each.forgotten else [await _quoted(archive, stream, hit, each, question)]
        except ContentForgotten:  # since the index was asked
            skipped += 1
    return Findings(embedder=result.embedder, found=found, skipped=skipped)


async def _quoted(archive: Archive, stream: UUID, hit: PassageHit, each: MemoryObject, question: str) -> SearchHit:
    """The lines of a passage that say most, as they stand in the object's text."""
    text = text_in_index(each, await memories.content_of(archive, stream, each))
    estimator = Estimator.of(None)
    start, end = hit.passage.start, hit.passage.end
    quotes = Quotable({each.id: text}).quotes_at(
        question,
        [Where(each.id, start, end)],
        QUOTED_TOKENS,
        lambda said: estimator.tokens(features_of_text(said)),
    )
    return SearchHit(stream, hit, each, quotes[0][0] if quotes else quote(each.id, text, start, end))
