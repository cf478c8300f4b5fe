"""Entries are read and written in one order with concurrent writers, and are the same from the log alone."""

import os
from uuid import UUID

import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.knowledge.decide import Place, RememberEntry, UpdateEntry
from mnemosyne.domain.knowledge.kinds import EntrySource, Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore, knowledge_stream
from mnemosyne.domain.knowledge.state import fold
from mnemosyne.domain.ports import Append
from tests.domain.knowledge.support import FIRST, HERE, draft
from tests.golden.sessions import LOGS, opened
from tests.plain.log import PlainLog


def remember(content: str, write: str = "w1") -> RememberEntry:
    return RememberEntry(at=FIRST, write=write, draft=draft(content))


async def test_other_and_later_processes_read_the_writes_of_one() -> None:
    log = PlainLog(event_codec())
    one, other = KnowledgeStore(log, log), KnowledgeStore(log, log)
    await one.write(HERE, remember("we use npm"), "c")
    assert [each.content for each in (await other.read(HERE)).valid(FIRST)] == ["we use npm"]
    command = UpdateEntry(at=FIRST + 1, write="w2", wanted="npm", content="we use pnpm", source=EntrySource.USER)
    await other.write(HERE, command, "c")
    known = await one.read(HERE)
    assert [each.content for each in known.valid(FIRST + 1)] == ["we use pnpm"]
    assert await KnowledgeStore(log, log).read(HERE) == known == fold(await one.read_events(HERE))


async def test_two_concurrent_writes_are_both_kept() -> None:
    log = _Interfering(PlainLog(event_codec()))
    store = KnowledgeStore(log, log)
    await store.write(HERE, remember("mine"), "c")
    assert sorted(each.content for each in (await store.read(HERE)).valid(FIRST)) == ["mine", "theirs"]


async def test_two_equal_concurrent_writes_are_written_once() -> None:
    log = PlainLog(event_codec())
    books = [KnowledgeStore(log, log) for _ in range(5)]
    async with trio.open_nursery() as nursery:
        for number, store in enumerate(books):
            nursery.start_soon(store.write, HERE, remember("we use npm", f"w{number}"), "c")
    assert [each.content for each in (await books[0].read(HERE)).entries.values()] == ["we use npm"]


@pytest.mark.parametrize("folder", [os.fsdecode(b"/w/\xff"), os.fsdecode(b"/w/caf\xe9/\x80"), "/w/\ud83d"])
async def test_a_folder_whose_name_is_not_utf_8_has_entries_of_its_own(folder: str) -> None:
    log = PlainLog(event_codec())
    here, beside = (Place(HERE.tenant, Scope.PROJECT, key) for key in (folder, f"{folder[:-1]}\udcfe"))
    await KnowledgeStore(log, log).write(here, remember("we use npm"), "c")
    store = KnowledgeStore(log, log)
    assert [each.content for each in (await store.read(here)).valid(FIRST)] == ["we use npm"]
    assert list((await store.read(beside)).valid(FIRST)) == []
    assert await store.list_places(HERE.tenant) == [here]


async def test_the_index_is_rebuilt_only_after_a_change() -> None:
    log = PlainLog(event_codec())
    store = KnowledgeStore(log, log)
    await store.write(HERE, remember("we use npm"), "c")
    first = await store.index([HERE])
    assert await store.index([HERE]) is first
    await KnowledgeStore(log, log).write(HERE, remember("we use trio", "w2"), "c")
    assert await store.index([HERE]) is not first


class _Interfering(PlainLog):
    """A log with a concurrent write just before the first append."""

    def __init__(self, log: PlainLog) -> None:
        super().__init__(event_codec())
        self._waiting = True

    async def append(self, append: Append) -> int:
        if self._waiting:
            self._waiting = False
            await KnowledgeStore(self, self).write(HERE, remember("theirs", "w9"), "c")
        return await super().append(append)


def test_stream_ids_never_change() -> None:
    assert knowledge_stream(HERE) == UUID("5e99255f-a3d8-5232-8c25-587d8989328f")


async def test_events_of_earlier_versions_stay_readable() -> None:
    log = opened(LOGS / "known").log
    store = KnowledgeStore(log, log)
    known = await store.read(HERE)
    assert [each.content for each in known.valid(LATER)] == [
        "We use pnpm",
        "The lock file is pnpm-lock.yaml",
        "Never commit without running the tests.",
    ]
    assert [each.content for each in known.valid(1_790_000_000_000_000)] == ["We use npm"]
    assert (await store.read(Place("local", Scope.USER))).valid(LATER) == []


LATER = 1_790_000_100_000_000
