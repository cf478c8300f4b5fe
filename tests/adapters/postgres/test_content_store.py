"""The contract of the content store, with plain objects and PostgreSQL; compression and damage with PostgreSQL."""

import hashlib

import pytest

from mnemosyne.domain.ports import Append, Content
from mnemosyne.errors import ContentForgotten, ContentMissing, LogFailed
from tests.adapters.log_support import World, content, hushed, make_append, open_postgres, query, stream, texts

PIECES = [content(b""), content(b"short"), content(b"long and dull " * 1_000), content(bytes(range(256)) * 4)]
SECRET = content(b"secret " * 100)


class TestContentStore:
    """The rules of every content store."""

    async def test_contents_are_fetched_by_hash(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", contents=PIECES))
        asked = [piece.digest for piece in reversed(PIECES)]
        assert await world.contents.fetch(stream(1), asked) == {piece.digest: piece.data for piece in PIECES}
        assert await world.contents.fetch(stream(1), []) == {}
        assert await world.contents.fetch(stream(1), [PIECES[1].digest] * 3) == {PIECES[1].digest: b"short"}

    async def test_unknown_content_is_missing(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", contents=PIECES))
        with pytest.raises(ContentMissing, match=SECRET.digest.hex()):
            await world.contents.fetch(stream(1), [PIECES[0].digest, SECRET.digest])

    async def test_content_is_not_shared_across_sessions(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", contents=[SECRET]))
        with pytest.raises(ContentMissing):
            await world.contents.fetch(stream(2), [SECRET.digest])

    async def test_the_same_content_is_stored_once(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", contents=[SECRET, SECRET]))
        await world.journal.append(make_append(stream(1), 1, "b", contents=[SECRET, *PIECES]))
        assert (await world.log.sizes(stream(1)))[stream(1)].contents == 1 + len(PIECES)

    async def test_only_the_append_with_a_wrong_hash_fails(self, world: World) -> None:
        liar = Content(SECRET.digest, b"something else")
        wrong = world.journal.submit(make_append(stream(1), 0, "a", contents=[liar]))
        right = world.journal.submit(make_append(stream(2), 0, "b", contents=[SECRET]))
        with pytest.raises(LogFailed, match="does not have that hash"):
            await wrong.durable()
        assert await right.durable() == 1
        assert texts(await world.log.tail(after=0, limit=9)) == ["b"]

    async def test_forgetting_erases_the_bytes_and_keeps_the_events(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", contents=PIECES))
        await world.journal.append(make_append(stream(2), 0, "b", contents=PIECES))
        assert [await world.log.forget(stream(1), hushed) for _ in range(2)] == [len(PIECES), 0]
        with pytest.raises(ContentForgotten, match=PIECES[1].digest.hex()):
            await world.contents.fetch(stream(1), [PIECES[1].digest])
        assert texts(await world.log.read(stream(1))) == ["a"]
        assert await world.contents.fetch(stream(2), [PIECES[1].digest]) == {PIECES[1].digest: b"short"}

    async def test_content_sent_after_forgetting_is_stored_again(self, world: World) -> None:
        await world.journal.append(make_append(stream(1), 0, "a", contents=[SECRET, PIECES[0]]))
        await world.log.forget(stream(1), hushed)
        await world.journal.append(make_append(stream(1), 1, "b", contents=[SECRET]))
        assert await world.contents.fetch(stream(1), [SECRET.digest]) == {SECRET.digest: SECRET.data}
        with pytest.raises(ContentForgotten):
            await world.contents.fetch(stream(1), [PIECES[0].digest])

    async def test_an_append_without_an_event_is_refused(self, world: World) -> None:
        with pytest.raises(ValueError, match="at least one event"):
            world.journal.submit(Append(stream(1), 0, (), (SECRET,)))


class TestPostgresContentStore:
    async def test_only_compressible_content_is_compressed(self, dsn: str) -> None:
        noise = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(64))
        async with open_postgres(dsn) as world:
            await world.journal.append(make_append(stream(1), 0, "a", contents=[content(noise), PIECES[2]]))
        rows = dict(query(dsn, "select size, octet_length(data) from mnemosyne.content"))
        assert rows[len(noise)] == len(noise)
        assert rows[len(PIECES[2].data)] < len(PIECES[2].data) / 20

    @pytest.mark.parametrize(
        "damage",
        [
            "data = set_byte(data, octet_length(data) - 1, 255 - get_byte(data, octet_length(data) - 1))",
            "data = substr(data, 1, octet_length(data) - 1)",
            "data = ''",
            "encoding = 9",
        ],
    )
    async def test_damaged_content_is_reported_and_never_returned(self, dsn: str, damage: str) -> None:
        async with open_postgres(dsn) as world:
            raw, compressed = PIECES[1:3]
            await world.journal.append(make_append(stream(1), 0, "a", contents=[raw, compressed]))
            query(dsn, f"update mnemosyne.content set {damage}")
            for piece in (raw, compressed):
                with pytest.raises(ContentMissing, match=r"is damaged|packed in a way"):
                    await world.contents.fetch(stream(1), [piece.digest])
