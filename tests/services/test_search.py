"""Index results are quoted from the session itself, without what was deleted since."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.recall.object_search import AcrossResult, Filter, PassageHit, SearchResult, text_in_index
from mnemosyne.domain.text.passages import Passage
from mnemosyne.errors import ContentForgotten, NotFound
from mnemosyne.services import memories
from mnemosyne.services.forgetting import forget
from mnemosyne.services.overviews import sessions_in
from mnemosyne.services.search import search, search_sessions
from tests.plain.log import PlainLog
from tests.services.talking import Plain, Talk, assistant, body, rich_session, talking, user


@attrs.define
class Everything:
    """An index that finds the beginning of every object that it is asked for."""

    talk: Talk
    among: Collection[str] = ()
    streams: Collection[UUID] | None = None

    async def search(
        self, stream: UUID, question: str, among: Collection[str], limit: int, least: float = 0.2
    ) -> SearchResult:
        self.among = sorted(among)
        hits = [PassageHit(name, Passage(0, 20), 1.0) for name in self.among[:limit]]
        return SearchResult(passages=hits, embedder="e", missing=1)

    async def search_across(
        self, question: str, chosen: Filter, streams: Collection[UUID] | None, limit: int
    ) -> AcrossResult:
        self.streams = streams
        found = await self.search(self.talk.stream, question, await all_objects(self.talk), limit)
        return AcrossResult(hits=[(self.talk.stream, hit) for hit in found.hits], embedder="e")


async def all_objects(talk: Talk) -> list[str]:
    state = memories.fold(await talk.archive.events.read(talk.stream))
    return list(Filter().choose(state.memory))


async def talked() -> Talk:
    async with talking() as talk:
        await rich_session(talk)
    return talk


async def test_quote_is_part_of_its_object_s_text() -> None:
    talk = await talked()
    index = Everything(talk)
    found = await search(talk.archive, index, talk.stream, "the parser", Filter(), 5)
    assert found.found
    assert (found.searched, found.missing, found.embedder) == (len(index.among), 1, "e")
    for each in found.found:
        text = text_in_index(each.object, await memories.content_of(talk.archive, talk.stream, each.object)).encode()
        assert text[each.quote.start : each.quote.end].decode() == each.quote.text


async def test_only_objects_that_match_the_filter_are_searched() -> None:
    talk = await talked()
    index = Everything(talk)
    found = await search(talk.archive, index, talk.stream, "x", Filter(kind=ObjectKind.PLAN), 5)
    assert (index.among, found.searched, list(found.found)) == ([], 0, [])
    with pytest.raises(NotFound, match="has no branch 'nowhere'"):
        await search(talk.archive, index, talk.stream, "x", Filter(branch="nowhere"), 5)


def read(number: int, path: str, said: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": path}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": said}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


async def twice_read() -> Talk:
    """A file that was read twice, and another of its name, once."""
    one, two = "max_connections = 20\n" * 100, "max_connections = 25\n" * 100
    messages = [user("Look."), *read(1, "src/pool.py", one), *read(2, "lib/pool.py", one), *read(3, "src/pool.py", two)]
    async with talking() as talk:
        await talk.ask(body([*messages, assistant("Seen."), user("Go on.")]))
    return talk


@pytest.mark.parametrize("several", [False, True])
async def test_a_path_finds_its_newest_version_and_outdated_objects_come_last(
    several: bool,
) -> None:
    talk = await twice_read()
    index = Everything(talk)
    objects = memories.fold(await talk.archive.events.read(talk.stream)).memory.objects
    (old,) = [each.id for each in objects.values() if each.stale]
    (new,) = [each.id for each in objects.values() if each.source_key == "src/pool.py" and not each.stale]
    (other,) = [each.id for each in objects.values() if each.source_key == "lib/pool.py"]

    async def found(question: str) -> list[str]:
        asked = (talk.archive, index, question, Filter(), 9)
        if several:
            findings = await search_sessions(*asked)
        else:
            findings = await search(talk.archive, index, talk.stream, question, Filter(), 9)
        scores = [each.hit.score for each in findings.found]
        assert scores == sorted(scores, reverse=True)
        return [each.object.id for each in findings.found]

    assert (await found("src/pool.py"))[0] == new
    assert (await found("pool.py"))[:2] == [new, other]
    anything = await found("how many connections?")
    assert anything.index(new) < anything.index(old)


async def test_last_sessions_of_a_folder_are_found_without_reading_older_ones() -> None:
    read = list[UUID]()

    class Noting(PlainLog):
        async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Any]]:
            read.append(stream)
            return await super().read(stream, after=after, upto=upto)

    archive, streams = Plain(Noting(event_codec())), []
    for number, folder in enumerate(("/a", "/a", "/b", "/a/deep", "/b")):
        async with talking(archive, f"s{number}") as talk:
            await talk.ask(body([user("x")], system=f"Working directory: {folder}"))
            streams.append(talk.stream)
    assert await sessions_in(archive, "/a") == [streams[0], streams[1], streams[3]]
    read.clear()
    assert await sessions_in(archive, "/a", 1) == [streams[3]]
    assert read == [streams[4], streams[3]]


async def test_a_folder_selects_the_sessions_to_search() -> None:
    talk = await talked()
    index = Everything(talk)
    found = await search_sessions(talk.archive, index, "the parser", Filter(), 5)
    assert (index.streams, {each.stream for each in found.found}) == ([talk.stream], {talk.stream})
    with pytest.raises(NotFound, match="No recorded session worked in /nowhere"):
        await search_sessions(talk.archive, index, "x", Filter(), 5, folder="/nowhere")


async def test_a_deleted_session_is_not_searched() -> None:
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
