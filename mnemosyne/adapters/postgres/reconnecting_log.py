"""A log that may not be open yet, or not any more: away until a real one is put in, and again when it is taken out.

So the server can take requests before, and without, its database: the journal keeps what was not written and tries
again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import attrs
import trio

from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.leading import Lag, lag
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.domain.ports import Recorded, StreamSizes
from mnemosyne.domain.recall.object_search import SearchResult
from mnemosyne.domain.session.directory import Alias
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import LogUnavailable


@attrs.frozen
class OpenLog:
    """A log in a database that answers."""

    database: Database
    events: PostgresEventLog
    contents: PostgresContentStore
    index: PostgresObjectIndex
    directory: PostgresDirectory


class ReconnectingLog:
    """Passes each call on to the open log: an EventLog, ContentStore, ObjectIndex, Directory and batches.Committer."""

    def __init__(self) -> None:
        self._open: OpenLog | None = None
        self.reason = "the database is not open yet"
        self.tried = trio.Event()
        """Set as soon as it is known whether the log can be opened."""
        self._opened = trio.Event()

    @contextmanager
    def holding(self, log: OpenLog) -> Iterator[None]:
        """While in the context, calls go to ``log``."""
        self._open = log
        self.tried.set()
        self._opened.set()
        try:
            yield
        finally:
            self._open, self._opened = None, trio.Event()

    def away(self, reason: str) -> None:
        """The log could not be opened, or was lost; ``reason`` is what callers are told."""
        self.reason = reason
        self.tried.set()

    @property
    def problem(self) -> str | None:
        """Why the log is not open; None if it is."""
        return self.reason if self._open is None else None

    def _current(self) -> OpenLog:
        if self._open is None:
            raise LogUnavailable(self.reason)
        return self._open

    async def dsn(self) -> str:
        """How the database of the open log is connected to; waits for one."""
        while self._open is None:
            await self._opened.wait()
        return self._open.database.dsn

    async def lag(self) -> Lag:
        """See leading.lag."""
        return await lag(self._current().database)

    async def commit(self, batch: Sequence[EncodedAppend]) -> Committed:
        return await self._current().events.commit(batch)

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Any]]:
        return await self._current().events.read(stream, after=after, upto=upto)

    async def pick(self, stream: UUID, versions: Collection[int]) -> Sequence[Recorded[Any]]:
        return await self._current().events.pick(stream, versions)

    async def select(self, stream: UUID, classes: Collection[type]) -> Sequence[Recorded[Any]]:
        return await self._current().events.select(stream, classes)

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[Any]]:
        return await self._current().events.tail(after=after, limit=limit)

    async def pick_first(self) -> Sequence[Recorded[Any]]:
        return await self._current().events.pick_first()

    async def pick_last(self, classes: Collection[type]) -> Sequence[Recorded[Any]]:
        return await self._current().events.pick_last(classes)

    async def streams(self, beginning: str = "") -> Sequence[UUID]:
        return await self._current().events.streams(beginning)

    async def knowledge_streams(self) -> Sequence[UUID]:
        return await self._current().events.knowledge_streams()

    async def sizes(self, stream: UUID | None = None) -> Mapping[UUID, StreamSizes]:
        return await self._current().events.sizes(stream)

    async def forget(self, stream: UUID, redacted: Callable[[Any], object]) -> int:
        return await self._current().events.forget(stream, redacted)

    async def fetch(self, stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        return await self._current().contents.fetch(stream, digests)

    async def search(self, stream: UUID, question: str, among: Collection[str], limit: int) -> SearchResult:
        return await self._current().index.search(stream, question, among, limit)

    async def modes_of(self, stream: UUID) -> Mapping[str, Mode]:
        return await self._current().directory.modes_of(stream)

    async def root_of(self, tenant: str, agent_id: str) -> str | None:
        return await self._current().directory.root_of(tenant, agent_id)

    async def off_since(self, tenant: str) -> int | None:
        return await self._current().directory.off_since(tenant)

    async def aliases(self, name: str) -> Sequence[Alias]:
        return await self._current().directory.aliases(name)

    async def find_managed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        return await self._current().directory.find_managed(tenant, chains)

    async def find_unnamed(self, tenant: str, chains: Sequence[bytes]) -> Sequence[str]:
        return await self._current().directory.find_unnamed(tenant, chains)
