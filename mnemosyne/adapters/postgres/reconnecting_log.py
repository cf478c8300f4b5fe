"""A log that opens, closes and reopens, so that the server takes requests before, and without, its database.

While it is closed, each call raises LogUnavailable; the journal keeps appends and retries.
"""

import math
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs
import trio

from mnemosyne.adapters.postgres.bills import PostgresBills
from mnemosyne.adapters.postgres.content_store import PostgresContentStore
from mnemosyne.adapters.postgres.database import Database
from mnemosyne.adapters.postgres.directory import PostgresDirectory
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.leading import Lag, lag
from mnemosyne.adapters.postgres.object_index import PostgresObjectIndex
from mnemosyne.errors import LogUnavailable

SILENT_SECONDS = 5.0
"""The time after which the database counts as away if a call waits and no statement is answered."""

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
    bills: PostgresBills


def _forward(
    choose: Callable[[OpenLog], Callable[Parameters, Coroutine[Any, Any, Result]]],
) -> Callable[Concatenate["ReconnectingLog", Parameters], Coroutine[Any, Any, Result]]:
    """A method that calls the chosen one of the open log."""

    async def call(self: "ReconnectingLog", /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        log = self.current()
        with self._waiting(log.database):
            return await choose(log)(*args, **kwargs)

    return call


class ReconnectingLog:
    """Forwards calls to the open log: an EventLog, ContentStore, ObjectIndex, Directory, Bills and Committer."""

    def __init__(self) -> None:
        self._open: OpenLog | None = None
        self.reason = "the database is not open yet"
        self.tried = trio.Event()
        """Set after the first attempt to open the log."""
        self._opened = trio.Event()
        self._calls: dict[object, float] = {}
        """The start of each call that waits for an answer, in trio's clock."""
        self._unanswered = -math.inf
        """When a call last ended without an answer, in the time of ``time.monotonic``."""

    @contextmanager
    def holding(self, log: OpenLog) -> Iterator[None]:
        """Forward calls to ``log`` for a time."""
        self._open, self._unanswered = log, -math.inf
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
        database = self._open.database
        return self._unanswered > database.answered or any(
            _is_silent(database, began) for began in self._calls.values()
        )

    @contextmanager
    def _waiting(self, database: Database) -> Iterator[None]:
        """Note a call that ends without an answer. A caller that gives up early says nothing about the database, and
        neither does a call during which it answered another statement.
        """
        call, began = object(), trio.current_time()
        self._calls[call] = began
        try:
            yield
        except LogUnavailable:
            if trio.current_time() - began <= _silence(database):
                self._unanswered = time.monotonic()
            raise
        except trio.Cancelled:
            if _is_silent(database, began):
                self._unanswered = time.monotonic()
            raise
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

    bill_of = _forward(lambda log: log.bills.bill_of)
    count_missed = _forward(lambda log: log.bills.count_missed)
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
    is_switched_on = _forward(lambda log: log.directory.is_switched_on)
    off_since = _forward(lambda log: log.directory.off_since)
    aliases = _forward(lambda log: log.directory.aliases)
    has_managed = _forward(lambda log: log.directory.has_managed)
    find_managed = _forward(lambda log: log.directory.find_managed)
    count_shared = _forward(lambda log: log.directory.count_shared)
    find_unnamed = _forward(lambda log: log.directory.find_unnamed)


def _silence(database: Database) -> float:
    """The seconds since the last answer to a statement."""
    return time.monotonic() - database.answered


def _is_silent(database: Database, began: float) -> bool:
    """Whether a call that began then waits for long, and no statement has been answered for as long."""
    return min(trio.current_time() - began, _silence(database)) > SILENT_SECONDS
