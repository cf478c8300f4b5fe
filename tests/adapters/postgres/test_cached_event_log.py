"""What was read of a stream stays in memory, for as long as it is what the log holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.adapters.postgres.event_log import CachedEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.events import SessionForgotten
from tests.adapters.log_support import Said, hushed, open_database, query, running, said, stream, texts


class CountingCodec(EventCodec):
    """Counts what is decoded."""

    decoded = 0

    def decode(self, name: str, state: bytes) -> Envelope[object]:
        self.decoded += 1
        return super().decode(name, state)


@attrs.frozen
class Cached:
    log: CachedEventLog
    journal: GroupJournal
    codec: CountingCodec


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Cached]:
    codec = CountingCodec({"thing.said.v1": Said, "session.forgotten.v1": SessionForgotten})
    async with open_database(dsn) as database:
        log = CachedEventLog(database, codec)
        async with running(GroupJournal(log, codec)) as journal:
            yield Cached(log, journal, codec)


async def test_of_a_stream_that_was_read_only_what_came_since_is_decoded(dsn: str) -> None:
    async with opened(dsn) as world:
        await world.journal.append(said(stream(1), 0, *"abcdefgh"))
        first = await world.log.read(stream(1))
        for again, letters in enumerate(("ij", "k", "")):
            if letters:
                await world.journal.append(said(stream(1), len(await world.log.read(stream(1))), *letters))
            before = world.codec.decoded
            read = await world.log.read(stream(1))
            assert world.codec.decoded - before == 1 + len(letters), again
        assert texts(read) == [*"abcdefghijk"]
        assert list(read[: len(first)]) == list(first)
        assert [each.version for each in read] == list(range(1, 12))
        assert texts(await world.log.read(stream(1), after=9)) == ["j", "k"]
        assert texts(await world.log.read(stream(2))) == []


async def test_what_was_forgotten_is_read_as_it_is_now_and_held_no_more(dsn: str) -> None:
    async with opened(dsn) as world:
        await world.journal.append(said(stream(1), 0, "kept: a secret", "also: another"))
        assert "kept: a secret" in texts(await world.log.read(stream(1)))
        await world.log.forget(stream(1), hushed)
        told = Append(stream(1), 2, (Envelope(SessionForgotten(at=1), "c"),))
        await world.journal.append(told)
        for _ in range(2):
            before = world.codec.decoded
            assert texts(await world.log.read(stream(1))) == ["kept", "also"]
            assert world.codec.decoded - before >= 3  # all of it


async def test_a_stream_whose_last_event_is_another_one_is_read_anew(dsn: str) -> None:
    """As where a backup was restored in its place."""
    async with opened(dsn) as world:
        await world.journal.append(said(stream(1), 0, "a", "b", "c"))
        await world.log.read(stream(1))
        query(dsn, "delete from mnemosyne.stored_events where originator_version > 1")
        assert texts(await world.log.read(stream(1))) == ["a"]
        await world.journal.append(said(stream(1), 1, "x", "y", "z"))
        assert texts(await world.log.read(stream(1))) == ["a", "x", "y", "z"]
