"""The index of objects in PostgreSQL: search results, damaged objects, forgetting, and rebuilding."""

import gc
import random
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.adapters.postgres import object_index_rows, object_index_search, object_indexer
from mnemosyne.adapters.postgres.database import Connection
from mnemosyne.adapters.postgres.journal import LogProgress
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.adapters.postgres.object_index_rows import WORDS
from mnemosyne.adapters.postgres.object_index_search import IndexQuery
from mnemosyne.adapters.postgres.object_indexer import (
    ObjectIndexer,
    threads_at,
)
from mnemosyne.app.storage import storage_of
from mnemosyne.domain.history.time_travel import digests_in
from mnemosyne.domain.objects.aggregate import is_searched
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.recall.object_search import Filter, text_in_index
from mnemosyne.domain.recall.retrieval import Embedder
from mnemosyne.domain.session.events import SessionForgotten
from mnemosyne.domain.wire import recipe
from mnemosyne.services import memories
from tests.adapters.counting import asked_of_the_database
from tests.adapters.indexing import DIMENSION, HashedWords, Indexed, indexing
from tests.adapters.log_support import query, until
from tests.projections.support import killed_at
from tests.waiting import DEADLINE

PARSER = "def parse_header(raw: bytes) -> Header:\n    raise ParseFailed(ERR_HEADER_2041)\n" * 10
POOL = "class ConnectionPool:\n    max_connections = 20  # of the database\n    def acquire(self): ...\n" * 10
FILES = (("src/parser.py", PARSER), ("src/pool.py", POOL))

ANY = Filter()

TABLES = {
    "object_texts": "stream, object, passages, length, kind, tags, first_turn, last_turn",
    "object_passages": "stream, object, passage, first, beyond, encode(hash, 'hex')",
    "object_words": "stream, object, passage, length, words::text",
    "object_vectors": "stream, embedder, encode(hash, 'hex'), vector::text",
}


def rows(dsn: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        table: query(dsn, f"select {columns} from mnemosyne.{table} order by {columns}")
        for table, columns in TABLES.items()
    }


async def texts_found(world: Indexed, stream: Any, question: str) -> list[str]:
    """The passages that a search finds."""
    result = await world.search(stream, question)
    memory = await world.memory(stream)
    found = []
    for hit in result.hits:
        each = memory.objects[hit.object]
        text = text_in_index(each, await memories.content_of(storage_of(world.database), stream, each))
        found.append(text[hit.passage.start : hit.passage.end])
    return found


def explained(connection: Connection, statement: bytes, stream: UUID) -> str:
    """The plan of a statement if sequential scans are disabled."""
    vector = f"[{','.join(['0.1'] * DIMENSION)}]"
    fits = {"kind": None, "tag": None, "first": 0, "last": 9}
    texts_seen = {
        **fits,
        "stream": stream,
        "streams": [stream],
        "embedder": HashedWords().name,
        "vector": vector,
        "among": ["a"],
    }
    connection.execute("set local enable_seqscan = off; set local enable_sort = off")
    limits = {"most": 5, "passages": 5, "about": 5, "near": 5, "matches": 5}
    asked = {"of": [stream], "queries": ["'a'"], "words": [0]}
    rows = connection.execute(b"explain " + statement, {**texts_seen, **limits, **asked})
    return "\n".join(str(row[0]) for row in rows)


ANSWERS = {
    "what raises ERR_HEADER_2041?": "ERR_HEADER_2041",
    "was wirft ERR_HEADER_2041?": "ERR_HEADER_2041",
    "parseHeader": "parse_header",
    "src/pool.py": "src/pool.py",
    "how many connections to the database": "max_connections = 20",
}


async def test_an_object_is_found_by_its_words_and_the_passage_is_quoted(dsn: str) -> None:
    async with indexing(dsn) as world:
        stream = await world.add("s", *FILES)
        await world.catch_up()
        for question, answer in ANSWERS.items():
            assert answer in (await texts_found(world, stream, question))[0], question
        assert await texts_found(world, stream, "watercolour exhibitions in Lisbon last summer") == []
        for question in ("", "…", "x" * 100_000, "' \\ & | !"):
            await world.search(stream, question)


async def test_the_stub_of_each_object_is_embedded_but_is_never_a_result(dsn: str) -> None:
    async with indexing(dsn, embedder := HashedWords()) as world:
        stream = await world.add("s", *FILES)
        await world.catch_up()
        objects = (await world.memory(stream)).objects
        assert {each.stub for each in objects.values() if is_searched(each)} <= set(embedder.texts_seen)
        hits = (await world.index.search(stream, "max_connections", [*objects], 50, 0.0)).passages
        assert {hit.object for hit in hits} == {key for key, each in objects.items() if is_searched(each)}
        assert all(hit.passage.end for hit in hits)


async def test_an_index_without_stubs_gets_them_and_keeps_the_other_vectors(dsn: str) -> None:
    async with indexing(dsn, embedder := HashedWords()) as world:
        stream = await world.add("s", *FILES)
        await world.catch_up()
        live, stubs = rows(dsn), {each.stub for each in (await world.memory(stream)).objects.values()}
        query(dsn, "update mnemosyne.object_index_cursors set name = 'words/2' where name = '" + WORDS + "'")
        query(dsn, "delete from mnemosyne.object_passages where beyond = 0")
        query(
            dsn,
            "delete from mnemosyne.object_vectors v where not exists"
            " (select from mnemosyne.object_passages p where p.stream = v.stream and p.hash = v.hash)",
        )
        embedder.texts_seen.clear()
        await world.catch_up()
        assert rows(dsn) == live
        assert set(embedder.texts_seen) <= stubs


async def test_indexing_leaves_no_pending_words_in_the_index(dsn: str) -> None:
    async with indexing(dsn) as world:
        await world.add("s", *FILES)
        await world.catch_up()
    for left in (0, 1):
        assert query(dsn, "select gin_clean_pending_list('mnemosyne.object_words_words_idx')") == [(left,)]
        query(dsn, "update mnemosyne.object_words set passage = passage + 1000")  # leaves some, without the merge


async def test_a_search_never_returns_an_object_of_another_session(dsn: str) -> None:
    async with indexing(dsn) as world:
        streams = [await world.add(name, *FILES) for name in ("one", "two", "three")]
        await world.catch_up()
        own = [set((await world.memory(stream)).objects) for stream in streams]
        assert not own[0] & (own[1] | own[2])
        for stream, objects in zip(streams, own, strict=True):
            hits = (await world.search(stream, "ERR_HEADER_2041 max_connections")).hits
            assert hits
            assert {hit.object for hit in hits} <= objects
        # Not even if the caller names them.
        others = [each for objects in own[1:] for each in objects]
        asked = await world.index.search(streams[0], "ERR_HEADER_2041", others, 10)
        assert {hit.object for hit in asked.hits} <= own[0]
        assert not (await world.index.search(streams[0], "ERR_HEADER_2041", [], 10)).hits


@pytest.mark.parametrize("how", ["cleared", "of another log", "in small portions"])
async def test_a_rebuilt_index_equals_the_live_one(dsn: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with indexing(dsn) as world:
        for number in range(3):
            await world.add(f"s{number}", *FILES, (f"{number}.md", f"Number {number} is one of {number + 1}."))
            await world.catch_up()
        live = rows(dsn)
        assert all(live.values())
        if how == "of another log":
            query(dsn, "update mnemosyne.object_index_cursors set stream = gen_random_uuid()")
            query(dsn, "delete from mnemosyne.object_texts")
        else:
            await world.index.clear()
            query(dsn, "delete from mnemosyne.object_vectors")
        if how == "in small portions":
            monkeypatch.setattr(object_indexer, "MOST_TOGETHER", len(PARSER))
        with asked_of_the_database() as asked:
            await world.catch_up()
        assert len(asked.of("select digest, size")) > 4 or how != "in small portions"
        assert rows(dsn) == live


@pytest.mark.parametrize("embedder", [None, HashedWords()], ids=["words", "words and vectors"])
async def test_up_to_date_index_keeps_no_text_in_memory(dsn: str, embedder: HashedWords | None) -> None:
    async with indexing(dsn, embedder) as world:
        await world.add("s", *FILES)
        await world.catch_up()
        gc.collect()
        assert "_ObjectText" not in {type(each).__name__ for each in gc.get_objects()}


@pytest.mark.parametrize("seed", range(2))
async def test_an_indexer_that_is_killed_resumes_and_embeds_each_passage_once(dsn: str, seed: int) -> None:
    steps = random.Random(seed)
    embedder = HashedWords()
    async with indexing(dsn, embedder) as world:
        await world.add("s", *FILES, *FILES, ("long.py", "\n".join(f"value_{n} = {n}" for n in range(400))))
        await world.project()
        while await killed_at(steps.randrange(1, 80), world.indexer.catch_up):
            pass
        await world.catch_up()
        assert len(query(dsn, "select 1 from mnemosyne.object_vectors")) == len(set(embedder.texts_seen))
        live = rows(dsn)
        again = len(embedder.texts_seen)
        await world.index.clear()
        await world.catch_up()
        assert rows(dsn) == live
        assert len(embedder.texts_seen) == again, "vectors are kept where the index is made anew"


async def test_an_idle_machine_embeds_in_two_threads_and_a_busy_one_in_one(dsn: str) -> None:
    assert [threads_at(load, 2) for load in (0.0, 2.0, 2.4, 2.6, 9.0)] == [2, 2, 2, 1, 1]
    assert threads_at(0.0, 1) == 1
    sizes: list[int] = []

    class Sized(HashedWords):
        texts_at_once = 4

        async def embed(self, texts: Sequence[str]) -> "list[array[float]]":
            sizes.append(len(texts))
            return await super().embed(texts)

    async with indexing(dsn, embedder := Sized()) as world:
        await world.add("s", ("long.py", "\n".join(f"value_{n} = {n * n}" for n in range(2_000))))
        await world.project()
        await ObjectIndexer(world.index, world.events, world.contents, threads=lambda: 2).catch_up()
        assert max(sizes) == 2 * embedder.texts_at_once
        assert len(embedder.texts_seen) == len(set(embedder.texts_seen))


async def test_missing_objects_are_counted(dsn: str) -> None:
    async with indexing(dsn) as world:
        stream = await world.add("s", *FILES)
        searched = [each for each in (await world.memory(stream)).objects.values() if is_searched(each)]
        result = await world.search(stream, "ERR_HEADER_2041")
        assert (result.missing, list(result.hits)) == (len(searched), [])
        await world.project()
        assert (await world.index.standing()).missing == len(searched)
        await world.catch_up()
        assert (await world.search(stream, "ERR_HEADER_2041")).missing == 0
        assert (await world.index.standing()).missing == 0


async def test_words_are_indexed_before_vectors(dsn: str) -> None:
    class Stuck(HashedWords):
        async def embed(self, texts: Sequence[str]) -> "list[array[float]]":
            await trio.sleep_forever()
            raise AssertionError

    async with indexing(dsn, Stuck("slow/1")) as world:
        stream = await world.add("s", *FILES)
        await world.project()
        with trio.fail_after(DEADLINE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.indexer.catch_up)
                cursor = "select 1 from mnemosyne.object_index_cursors where name = %s"
                await until(lambda: bool(query(dsn, cursor, WORDS)))
                result = await world.search(stream, "ERR_HEADER_2041")
                nursery.cancel_scope.cancel()
        assert result.hits
        assert result.embedder is None
        assert (await world.index.standing()).unembedded > 0


async def test_an_embedder_that_comes_later_replaces_the_vectors_of_another_in_the_background(dsn: str) -> None:
    async with indexing(dsn) as world:
        stream = await world.add("s", *FILES)
        await world.catch_up()
        present: list[Embedder] = []

        async def embedder() -> Embedder | None:
            return present[0] if present else None

        index = PostgresObjectIndex(world.database, embedder)
        indexer = ObjectIndexer(index, world.events, world.contents)
        searched = [name for name, each in (await world.memory(stream)).objects.items() if is_searched(each)]
        await indexer.catch_up()
        found = await index.search(stream, "ERR_HEADER_2041", searched, 1)
        assert (found.embedder, bool(found.hits), (await index.standing()).unembedded) == (None, True, 0)
        present.append(new := HashedWords("new/1"))
        assert (await index.search(stream, "ERR_HEADER_2041", searched, 1)).embedder is None, "it has no vectors yet"
        await indexer.catch_up(vector_seconds=0)
        assert (await index.standing()).sentence == f"vectors for 0 of {len(searched)} objects"
        await indexer.catch_up()
        assert (await index.standing()).sentence == f"vectors for all {len(searched)} objects"
        assert (await index.search(stream, "ERR_HEADER_2041", searched, 1)).embedder == new.name
        assert query(dsn, "select distinct embedder from mnemosyne.object_vectors") == [(new.name,)]


async def test_an_idle_indexer_notices_an_embedder(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_indexer, "EMBEDDER_SECONDS", 0.01)
    async with indexing(dsn) as world, trio.open_nursery() as nursery:
        await world.add("s", *FILES)
        await world.project()
        looked, come = trio.Event(), trio.Event()

        async def embedder() -> Embedder | None:
            looked.set()
            return HashedWords() if come.is_set() else None

        index = PostgresObjectIndex(world.database, embedder)
        nursery.start_soon(ObjectIndexer(index, world.events, world.contents).run, LogProgress())
        await looked.wait()
        come.set()
        await until(lambda: bool(query(dsn, "select 1 from mnemosyne.object_vectors")))
        nursery.cancel_scope.cancel()


async def test_a_forgotten_session_is_removed_for_good(dsn: str) -> None:
    async with indexing(dsn) as world:
        gone, kept = await world.add("gone", *FILES), await world.add("kept", *FILES)
        await world.catch_up()
        await world.events.forget(gone, lambda event: event)
        assert not (await world.index.search(gone, "ERR_HEADER_2041", (await world.memory(gone)).objects, 5)).hits
        remaining = rows(dsn)
        assert {row[0] for table in remaining.values() for row in table} == {kept}
        version = len(await world.events.read(gone))
        await world.journal.append(Append(gone, version, (Envelope(SessionForgotten(at=1), "c"),)))
        await world.index.clear()
        await world.catch_up()
        assert rows(dsn) == remaining


async def test_rows_written_while_a_session_was_forgotten_are_removed(dsn: str) -> None:
    async with indexing(dsn) as world:
        gone = await world.add("gone", *FILES)
        await world.catch_up()  # like an indexer that read everything just before
        version = len(await world.events.read(gone))
        await world.journal.append(Append(gone, version, (Envelope(SessionForgotten(at=1), "c"),)))
        await world.catch_up()
        assert rows(dsn) == {table: [] for table in TABLES}


class ForgettingIndexer(ObjectIndexer):
    """An indexer whose session is forgotten before it stores words."""

    forget: Callable[[], Awaitable[object]]

    async def _put(self, *words: Any) -> None:
        await self.forget()
        await super()._put(*words)


async def test_objects_read_before_forgetting_are_not_indexed_afterwards(dsn: str) -> None:
    async with indexing(dsn) as world:
        gone, kept = await world.add("gone", *FILES), await world.add("kept", *FILES)
        await world.project()
        indexer = ForgettingIndexer(world.index, world.events, world.contents)
        indexer.forget = lambda: world.events.forget(gone, lambda event: event)
        await indexer.catch_up()
        assert {row[0] for table in rows(dsn).values() for row in table} == {kept}


async def created_event(world: Indexed, stream: UUID, text: str) -> tuple[int, ObjectCreated]:
    """The version and the event of the object that holds a text."""
    for recorded in await world.events.read(stream):
        event = recorded.envelope.event
        if isinstance(event, ObjectCreated) and is_searched(event):
            each = (await world.memory(stream)).objects[event.object]
            if text in text_in_index(each, await memories.content_of(storage_of(world.database), stream, each)):
                return recorded.version, event
    raise AssertionError(text)


async def lose_event(world: Indexed, dsn: str, stream: UUID) -> None:
    version, _ = await created_event(world, stream, "ERR_HEADER_2041")
    gone = "delete from mnemosyne.stored_events where originator_id = %s and originator_version = %s"
    query(dsn, gone, stream, version)


async def make_event_unknown(world: Indexed, dsn: str, stream: UUID) -> None:
    version, _ = await created_event(world, stream, "ERR_HEADER_2041")
    named = "update mnemosyne.stored_events set topic = 'x.y.v9' where originator_id = %s and originator_version = %s"
    query(dsn, named, stream, version)


async def erase_content(world: Indexed, dsn: str, stream: UUID) -> None:
    _, event = await created_event(world, stream, "ERR_HEADER_2041")
    digests = [*digests_in(recipe.apply(recipe.Recipe(), recipe.decode(event.content)).pieces)]
    erased = "update mnemosyne.content set data = null, encoding = 0 where stream = %s and digest = any(%s)"
    query(dsn, erased, stream, digests)


async def add_object_without_content(world: Indexed, dsn: str, stream: UUID) -> None:
    _, event = await created_event(world, stream, "ERR_HEADER_2041")
    await _append(world, stream, attrs.evolve(event, object="nocontent", content=b"\x80"))


async def add_object_that_the_database_refuses(world: Indexed, dsn: str, stream: UUID) -> None:
    _, event = await created_event(world, stream, "ERR_HEADER_2041")
    await _append(world, stream, attrs.evolve(event, object="refused", tags=("a\0b",)))


async def _append(world: Indexed, stream: UUID, event: ObjectCreated) -> None:
    version = len(await world.events.read(stream))
    await world.journal.append(Append(stream, version, (Envelope(event, "c"),)))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lose_event, "no event"),
        (make_event_unknown, "x.y.v9"),
        (erase_content, "was forgotten"),
        (add_object_without_content, "ValueError"),
        (add_object_that_the_database_refuses, "refused"),
    ],
)
async def test_an_unreadable_object_is_skipped_with_the_reason(
    dsn: str, damage: Callable[[Indexed, str, UUID], Awaitable[None]], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with indexing(dsn) as world:
        broken = await world.add("broken", *FILES)
        whole = await world.add("whole", *FILES)
        names = [name for name, each in (await world.memory(broken)).objects.items() if is_searched(each)]
        await world.project()
        await damage(world, dsn, broken)
        await world.project()
        for _ in range(2):
            await world.indexer.catch_up()
        skipped = await world.database.run(object_index_rows.list_skipped)
        assert skipped
        assert all(reason in why for _, why in skipped)
        assert len([each for each in caplog.messages if "cannot be searched" in each]) == len(skipped)
        standing = await world.index.standing()
        assert (standing.missing, standing.unembedded) == (0, 0)
        assert (await world.search(whole, "ERR_HEADER_2041")).hits
        names += [name for name, _ in skipped if name not in names]
        found = await world.index.search(broken, "max_connections ERR_HEADER_2041", names, 5)
        assert (found.missing, found.skipped) == (0, len(skipped))
        assert found.hits or len(skipped) == len(names), "its other objects are searched"


async def test_a_text_that_cannot_be_embedded_is_found_by_its_words(dsn: str) -> None:
    class Picky(HashedWords):
        async def embed(self, texts: Sequence[str]) -> "list[array[float]]":
            if any("ERR_HEADER_2041" in each for each in texts):
                raise ZeroDivisionError
            return await super().embed(texts)

    async with indexing(dsn, Picky()) as world:
        await world.add("s", ("long.py", "\n".join(f"value_{n} = ERR_HEADER_2041" for n in range(400))), *FILES)
        await world.catch_up()
        assert (await world.index.standing()).unembedded == 0
        assert query(dsn, "select 1 from mnemosyne.object_vectors")
        words = await world.database.run(
            lambda connection: object_index_search.search_across(
                connection, IndexQuery(question="ERR_HEADER_2041"), ANY, None
            )
        )
        assert words.words.whole


async def test_vectors_stay_pending_if_the_embedder_is_broken(dsn: str) -> None:
    class Broken(HashedWords):
        async def embed(self, texts: Sequence[str]) -> "list[array[float]]":
            raise ZeroDivisionError

    async with indexing(dsn, Broken()) as world:
        await world.add("s", *FILES)
        await world.project()
        with pytest.raises(ZeroDivisionError):
            await world.indexer.catch_up()
        standing = await world.index.standing()
        assert standing.missing == 0
        assert standing.unembedded > 0


ODD = {
    "=" * 500 + "\n" + "— … ?!" * 100: "?!",
    "": "anything",
    "x" * 60_000 + " needle_in_one_line " + "y" * 60_000: "needle_in_one_line",
    "服务器在启动时读取配置文件。" * 20: "配置文件",
    "Сервер читает настройки при запуске. " * 20: "настройки",
    "it's a \\'quoted\\' C:\\path\\name: 'a' & b | !c <-> d:*": "path\\name 'a' & !c:*",
    "word " * 5_000: "word",
}


async def test_unusual_texts_and_questions_are_accepted(dsn: str) -> None:
    async with indexing(dsn) as world:
        stream = await world.add("s", *((f"{number}.txt", text) for number, text in enumerate(ODD)), *FILES)
        await world.catch_up()
        for text, question in ODD.items():
            assert (await world.search(stream, question)).missing == 0
            if any(each.isalpha() for each in text):
                text_found = await texts_found(world, stream, question)
                assert question.split()[0] in text_found[0], question


async def test_a_search_across_sessions_names_the_session_of_each_object(dsn: str) -> None:
    async with indexing(dsn) as world:
        parser, pool = await world.add("one", FILES[0]), await world.add("two", FILES[1])
        await world.catch_up()

        async def streams(question: str, chosen: Filter = ANY, among: Sequence[UUID] | None = None) -> list[UUID]:
            found = await world.index.search_across(question, chosen, among, 5)
            for stream, hit in found.hits:
                assert hit.object in (await world.memory(stream)).objects
            return [stream for stream, _ in found.hits]

        assert (await streams("what raises ERR_HEADER_2041?"))[0] == parser
        assert set(await streams("ERR_HEADER_2041 ConnectionPool max_connections")) == {parser, pool}
        assert set(await streams("ERR_HEADER_2041 ConnectionPool max_connections", among=[pool])) == {pool}
        assert await streams("ERR_HEADER_2041", among=[]) == []
        assert await streams("watercolour exhibitions in Lisbon last summer") == []
        for fits in (Filter(kind=ObjectKind.FILE_CONTEXT), Filter(tag="read"), Filter(turns=(1, 1))):
            assert (await streams("ERR_HEADER_2041", fits))[0] == parser
        for other in (Filter(kind=ObjectKind.PLAN), Filter(tag="nothing"), Filter(turns=(7, 9))):
            assert await streams("ERR_HEADER_2041", other) == []


async def test_only_a_search_of_everything_uses_the_approximate_index(dsn: str) -> None:
    async with indexing(dsn) as world:
        stream = await world.add("s", *FILES)
        await world.catch_up()
        found = await world.search(stream, "ERR_HEADER_2041")
        across = await world.index.search_across("ERR_HEADER_2041", ANY, None, 5)
        assert not await world.database.run(object_index_search.near_index)
        for _ in range(2):  # a rebuilt one is the same
            await world.index.build_near_index()
        assert await world.database.run(object_index_search.near_index)
        assert await world.search(stream, "ERR_HEADER_2041") == found
        assert await world.index.search_across("ERR_HEADER_2041", ANY, None, 5) == across
        plans = [
            (object_index_search.EVERYWHERE.by_both, True),
            (object_index_search.IN_SESSION.by_both, False),
            (object_index_search.IN_SESSIONS.by_both, False),
        ]
        for statement, uses_it in plans:
            plan = await world.database.run(explained, statement, stream)
            assert (object_index_search.NEAR_INDEX in plan) == uses_it
        assert await world.index.drop_near_index()
        assert not await world.index.drop_near_index()
        query(dsn, "create index theirs on mnemosyne.object_vectors using hnsw (vector mnemosyne.halfvec_ip_ops)")
        assert "theirs" not in await world.database.run(explained, object_index_search.IN_SESSION.by_both, stream)


async def test_the_number_of_statements_does_not_depend_on_the_number_of_objects(dsn: str) -> None:
    counts = []
    async with indexing(dsn) as world:
        for name, files in (("one", 1), ("many", 9)):
            await world.add(
                name, *((f"src/{name}{number}.py", f"the {number}th parser\n" * 60) for number in range(files))
            )
            await world.project()
            with asked_of_the_database() as asked:
                await world.indexer.catch_up()
            counts.append({kind: len(asked.of(kind)) for kind in READINGS})
        with asked_of_the_database() as idle:
            await world.indexer.catch_up()
    assert counts == [dict.fromkeys(READINGS, 1)] * 2
    assert len(idle.of("begin")) == 2


READINGS = (
    "select originator_id, originator_version",
    "select digest, size",
    "delete from mnemosyne.object_texts",
    "delete from mnemosyne.object_words",
    "select place from unnest",
    "insert into mnemosyne.object_texts",
    "with cut as materialized",
    "insert into mnemosyne.object_vectors",
)
"""The statements that run once for all objects of a portion."""
