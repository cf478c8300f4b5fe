"""What an index finds is quoted from the session itself, and what is gone since then is not."""

from collections.abc import Collection
from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.recall.object_search import AcrossResult, Filter, PassageHit, SearchResult, text_in_index
from mnemosyne.domain.text.passages import Passage
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services import memories
from mnemosyne.services.forgetting import forget
from mnemosyne.services.search import search, search_sessions
from tests.services.talking import Talk, rich_session, talking


@attrs.define
class Everything:
    """An index that finds the beginning of every object that it is asked for."""

    talk: Talk
    among: Collection[str] = ()
    streams: Collection[UUID] | None = None

    async def search(self, stream: UUID, question: str, among: Collection[str], limit: int) -> SearchResult:
        self.among = sorted(among)
        hits = [PassageHit(name, Passage(0, 20), 1.0) for name in self.among[:limit]]
        return SearchResult(hits=hits, embedder="e", missing=1)

    async def search_across(
        self, question: str, chosen: Filter, streams: Collection[UUID] | None, limit: int
    ) -> AcrossResult:
        self.streams = streams
        found = await self.search(self.talk.stream, question, await all_objects(self.talk), limit)
        return AcrossResult(hits=[(self.talk.stream, hit) for hit in found.hits], embedder="e")


async def all_objects(talk: Talk) -> list[str]:
    state = memories.folded(await talk.archive.events.read(talk.stream))
    return list(Filter().chosen(state.memory))


async def talked() -> Talk:
    async with talking() as talk:
        await rich_session(talk)
    return talk


async def test_a_quote_stands_in_the_text_of_its_object() -> None:
    talk = await talked()
    index = Everything(talk)
    found = await search(talk.archive, index, talk.stream, "the parser", Filter(), 5)
    assert found.found
    assert (found.searched, found.missing, found.embedder) == (len(index.among), 1, "e")
    for each in found.found:
        text = text_in_index(each.object, await memories.content_of(talk.archive, talk.stream, each.object)).encode()
        assert text[each.quote.start : each.quote.end].decode() == each.quote.text


async def test_only_objects_that_fit_are_asked_for() -> None:
    talk = await talked()
    index = Everything(talk)
    found = await search(talk.archive, index, talk.stream, "x", Filter(kind=ObjectKind.PLAN), 5)
    assert (index.among, found.searched, list(found.found)) == ([], 0, [])
    with pytest.raises(NotFound, match="has no branch 'nowhere'"):
        await search(talk.archive, index, talk.stream, "x", Filter(branch="nowhere"), 5)


async def test_across_sessions_the_folder_chooses_them() -> None:
    talk = await talked()
    index = Everything(talk)
    found = await search_sessions(talk.archive, index, "the parser", Filter(), 5)
    assert (index.streams, {each.stream for each in found.found}) == (None, {talk.stream})
    with pytest.raises(NotFound, match="No session worked in /nowhere"):
        await search_sessions(talk.archive, index, "x", Filter(), 5, folder="/nowhere")


async def test_a_forgotten_session_is_refused_and_left_out_of_others() -> None:
    talk = await talked()
    index = Everything(talk)
    names = await all_objects(talk)
    await forget(talk.archive, talk.stream, lambda: 1, "c")
    with pytest.raises(ContentForgotten):
        await search(talk.archive, index, talk.stream, "x", Filter(), 5)

    class Late(Everything):
        """It was asked before the session was forgotten."""

        async def search_across(
            self, question: str, chosen: Filter, streams: Collection[UUID] | None, limit: int
        ) -> AcrossResult:
            hits = [PassageHit(name, Passage(0, 9), 1.0) for name in names]
            return AcrossResult(hits=[(talk.stream, hit) for hit in hits], embedder="e")

    assert list((await search_sessions(talk.archive, Late(talk), "x", Filter(), 5)).found) == []
