"""The log in PostgreSQL on which a scene of the golden logs is played."""

from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

import trio

from campaigns.scenarios.judge import Archive
from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.domain.ports import Append, Envelope, Journal, Recorded
from mnemosyne.domain.session.events import Event
from tests.actors.support import StoppableLog
from tests.golden.sessions import CODEC
from tests.plain.directory import PlainDirectory


class DatabaseLog(StoppableLog):
    """The log in PostgreSQL, which can hang as one in memory does."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._held = PostgresEventLog(database, CODEC)
        self._held_contents = PostgresContentStore(database)

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        await self.flowing.wait()
        return await self._held.commit(batch)

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        return await self._held.read(stream, after=after, upto=upto)

    async def pick(self, stream: UUID, versions: Collection[int]) -> Sequence[Recorded[Event]]:
        return await self._held.pick(stream, versions)

    async def select(self, stream: UUID, classes: Collection[type]) -> Sequence[Recorded[Event]]:
        return await self._held.select(stream, classes)

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[Event]]:
        return await self._held.tail(after=after, limit=limit)

    async def pick_first(self) -> Sequence[Recorded[Event]]:
        return await self._held.pick_first()

    async def pick_last(self, classes: Collection[type]) -> Sequence[Recorded[Event]]:
        return await self._held.pick_last(classes)

    async def streams(self, beginning: str = "") -> Sequence[UUID]:
        return await self._held.streams(beginning)

    async def sizes(self, stream: UUID | None = None) -> Any:
        return await self._held.sizes(stream)

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._held_contents.fetch(stream, digests)

    async def forget(self, stream: UUID, redacted: Callable[[Any], object]) -> int:
        return await self._held.forget(stream, redacted)


def archive_of(log: DatabaseLog, journal: Journal) -> Archive:
    """The log of a running server, as a command sees it."""
    return Archive(log, log, journal, PlainDirectory(log))


async def add(log: DatabaseLog, stream: UUID, *events: Event) -> None:
    """Append events without a decision."""
    journal = GroupJournal(log, CODEC)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        envelopes = tuple(Envelope(each, "a-person") for each in events)
        await journal.append(Append(stream, len(await log.read(stream)), envelopes))
        nursery.cancel_scope.cancel()
