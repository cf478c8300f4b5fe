"""What is in the trash is hidden, comes back whole, and is erased after thirty days."""

import pytest

from mnemosyne.domain.knowledge.kinds import Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import SessionStarted
from mnemosyne.domain.session.retention import DAY, TRASH_DAYS
from mnemosyne.errors import NotFound
from mnemosyne.projections.projection import fold
from mnemosyne.projections.timeline import TIMELINE
from mnemosyne.services import overviews, trash
from mnemosyne.services.forgetting import choose_old, forget
from mnemosyne.services.knowledge import KnowledgeService, WriteStamp
from mnemosyne.services.sessions import read_trashed
from mnemosyne.services.verifying import verify
from tests.domain.knowledge.support import draft
from tests.domain.session_events import began, opened_branch
from tests.services.talking import Plain, Talk, body, plain, talking, user

TENANT = "local"
KEPT = TRASH_DAYS * DAY


def knowledge_in(archive: Plain) -> KnowledgeService:
    return KnowledgeService(KnowledgeStore(archive.log, archive.journal), TENANT)


async def throw(talk: Talk, at: int = 9) -> None:
    await trash.put_away(talk.archive, TENANT, str(talk.stream), WriteStamp(at, f"w{at}"))


async def test_search_skips_a_session_in_the_trash_until_it_is_restored_whole() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Paint the shed.")]))
        await throw(talk)
        await throw(talk, 10)
        (held,) = await trash.list_trash(talk.archive, TENANT)
        assert (held.kind, held.id, held.text, held.at) == ("session", str(talk.stream), "Paint the shed.", 9)
        assert await overviews.sessions_in(talk.archive, None) == []
        await trash.take_out(talk.archive, TENANT, str(talk.stream), WriteStamp(11, "w"))
        assert await overviews.sessions_in(talk.archive, None) == [talk.stream]
        assert (await verify(talk.archive, talk.stream)).verdict == "ok"
        with pytest.raises(NotFound, match="is not in the trash"):
            await trash.take_out(talk.archive, TENANT, str(talk.stream), WriteStamp(12, "w"))


async def test_a_session_leaves_the_trash_with_its_next_turn() -> None:
    archive, stream = plain(), stream_of(TENANT, "s")
    started = SessionStarted(at=1, tenant=TENANT, external_id="s", client="c", client_version=None, salt=b"s")
    for expected, events in ((0, (started, opened_branch(), began(1, "m", at=2))), (4, (began(2, "m", at=20),))):
        await archive.journal.append(Append(stream, expected, tuple(Envelope(each, "c") for each in events)))
        trashed = await read_trashed(archive)
        (row,) = fold(TIMELINE, await archive.log.read(stream)).rows["sessions"].values()
        assert (trashed, row["trashed_at"]) == ({}, None)
        await trash.put_away(archive, TENANT, "s", WriteStamp(10 + expected, "w"))
        assert await read_trashed(archive) == {stream: 10 + expected}


async def test_a_forgotten_session_leaves_the_trash_and_cannot_come_back_to_it() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Paint the shed.")]))
        await throw(talk)
        await forget(talk.archive, talk.stream, lambda: 11, "c")
        (row,) = fold(TIMELINE, await talk.archive.log.read(talk.stream)).rows["sessions"].values()
        assert row["trashed_at"] is None
        with pytest.raises(NotFound, match="is forgotten: there is nothing to restore"):
            await throw(talk, 12)
        assert await trash.list_trash(talk.archive, TENANT) == []


async def test_retention_erases_a_session_after_its_time_in_the_trash_and_not_before() -> None:
    async with talking() as talk:
        await talk.ask(body([user("Paint the shed.")]))
        await throw(talk)
        for at, chosen in ((9 + KEPT, 0), (10 + KEPT, 1)):
            victims = await choose_old(talk.archive, now=at, days=None, stored_bytes=None)
            assert len(victims) == chosen


async def test_an_entry_in_the_trash_is_in_no_list_and_in_no_new_session_until_it_is_restored() -> None:
    archive = plain()
    known = knowledge_in(archive)
    done = await known.remember(Scope.USER, draft("We use pnpm"), WriteStamp(1, "a"))
    assert done.entry is not None
    id_ = done.entry.id
    assert (await trash.put_away(archive, TENANT, id_, WriteStamp(5, "b"))).kind == "entry"
    for shown in (
        await known.list_entries(6),
        await known.list_entries(2),
        await known.list_history(),
        await known.recall("pnpm", 6, ended=True),
        [line async for line in known.export(6)],
    ):
        assert shown == []
    assert await known.compose_block("Use pnpm", 6, str) is None
    assert [each.id for each in await trash.list_trash(archive, TENANT)] == [id_]
    assert await trash.list_trash(archive, "another") == []
    await trash.take_out(archive, TENANT, id_, WriteStamp(7, "c"))
    assert [each.entry.content for each in await known.list_entries(8)] == ["We use pnpm"]


async def test_an_entry_is_erased_after_its_time_in_the_trash_and_cannot_be_restored_then() -> None:
    archive = plain()
    known = knowledge_in(archive)
    for number, text in enumerate(("We use pnpm", "We use make")):
        await known.remember(Scope.USER, draft(text), WriteStamp(1, f"a{number}"))
    pnpm, _ = [each.entry.id for each in await known.list_entries(1)]
    await trash.put_away(archive, TENANT, pnpm, WriteStamp(5, "b"))
    assert await trash.erase_expired_entries(archive, TENANT, WriteStamp(5 + KEPT, "c")) == 0
    late = WriteStamp(6 + KEPT, "d")
    assert await trash.erase_expired_entries(archive, TENANT, late, dry_run=True) == 1
    assert await trash.erase_expired_entries(archive, TENANT, late) == 1
    assert await trash.list_trash(archive, TENANT) == []
    with pytest.raises(NotFound):
        await trash.take_out(archive, TENANT, pnpm, WriteStamp(late.at, "e"))
    assert [each.entry.content for each in await known.list_entries(late.at)] == ["We use make"]
