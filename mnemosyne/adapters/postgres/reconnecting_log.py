"""A log that opens, closes and reopens, so that the server takes requests before, and without, its database.

While it is closed, each call raises LogUnavailable; the journal keeps appends and retries.
"""

import math
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs
import trio

from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.leading import Lag, lag
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.errors import LogUnavailable

SILENT_SECONDS = 9.0
"""The time without an answer after which the database counts as away. A slow one takes seconds to open a connection."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@attrs.frozen
class OpenLog:
    """A log in a database that answers."""

    database: Database
    events: PostgresEventLog
    contents: PostgresContentStore
    index: PostgresObjectIndex
    directory: PostgresDirectory


def _forward(
    choose: Callable[[OpenLog], Callable[Parameters, Coroutine[Any, Any, Result]]],
) -> Callable[Concatenate["ReconnectingLog", Parameters], Coroutine[Any, Any, Result]]:
    """A method that calls the chosen one of the open log."""

    async def call(self: "ReconnectingLog", /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        method = choose(self.current())
        with self._waiting():
            return await method(*args, **kwargs)

    return call


class ReconnectingLog:
    """Forwards calls to the open log: an EventLog, ContentStore, ObjectIndex, Directory and batches.Committer."""

    def __init__(self) -> None:
        self._open: OpenLog | None = None
        self.reason = "the database is not open yet"
        self.tried = trio.Event()
        """Set after the first attempt to open the log."""
        self._opened = trio.Event()
        self._calls: dict[object, float] = {}
        """The start of each call that waits for an answer, in trio's clock."""
        self._answered = -math.inf
        """The time of the last answer."""
        self._is_silent = False
        """Whether a call that began since then has ended without an answer."""

    @contextmanager
    def holding(self, log: OpenLog) -> Iterator[None]:
        """Forward calls to ``log`` for a time."""
        self._open, self._is_silent = log, False
        self.tried.set()
        self._opened.set()
        try:
            yield
        finally:
            self._open, self._opened = None, trio.Event()

    def away(self, reason: str) -> None:
        """Set the reason why the log is closed."""
        self.reason = reason
        self.tried.set()

    @property
    def problem(self) -> str | None:
        """The reason why the log is closed; None if it is open."""
        return self.reason if self._open is None else None

    def is_away(self) -> bool:
        """Whether the log could not be opened or was lost, or does not answer; not whether it is still opening."""
        if self._open is None:
            return self.tried.is_set()
        now = trio.current_time()
        return self._is_silent or any(
            began >= self._answered and now - began > SILENT_SECONDS for began in self._calls.values()
        )

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Note whether a call gets an answer. That says nothing about the database if a later call was answered, or if
        its caller gave up early.
        """
        call, began = object(), trio.current_time()
        self._calls[call] = began
        try:
            yield
        except LogUnavailable:
            self._is_silent |= began >= self._answered
            raise
        except trio.Cancelled:
            self._is_silent |= began >= self._answered and trio.current_time() - began > SILENT_SECONDS
            raise
        else:
            self._answered, self._is_silent = trio.current_time(), False
        finally:
            del self._calls[call]

    def current(self) -> OpenLog:
        """The open log. Raises LogUnavailable with the reason."""
        if self._open is None:
            raise LogUnavailable(self.reason)
        return self._open

    async def dsn(self) -> str:
        """Wait for an open log; return the DSN of its database."""
        while self._open is None:
            await self._opened.wait()
        return self._open.database.dsn

    async def lag(self) -> Lag:
        return await lag(self.current().database)

    commit = _forward(lambda log: log.events.commit)
    read = _forward(lambda log: log.events.read)
    pick = _forward(lambda log: log.events.pick)
    select = _forward(lambda log: log.events.select)
    tail = _forward(lambda log: log.events.tail)
    pick_first = _forward(lambda log: log.events.pick_first)
    pick_last = _forward(lambda log: log.events.pick_last)
    streams = _forward(lambda log: log.events.streams)
    knowledge_streams = _forward(lambda log: log.events.knowledge_streams)
    sizes = _forward(lambda log: log.events.sizes)
    forget = _forward(lambda log: log.events.forget)
    fetch = _forward(lambda log: log.contents.fetch)
    search = _forward(lambda log: log.index.search)
    modes_of = _forward(lambda log: log.directory.modes_of)
    root_of = _forward(lambda log: log.directory.root_of)
    off_since = _forward(lambda log: log.directory.off_since)
    aliases = _forward(lambda log: log.directory.aliases)
    find_managed = _forward(lambda log: log.directory.find_managed)
    find_unnamed = _forward(lambda log: log.directory.find_unnamed)
