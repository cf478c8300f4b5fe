"""Count the work of a serving process at the cursor, the journal's committer, ``trio.to_thread`` and the two JSON
parsers. Only the server's own tasks count, so its client and the provider may share its event loop.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import orjson
import psycopg
import pytest
import trio
import trio.testing
from attrs import astuple

from mnemosyne.adapters.postgres.batches import Committed, EncodedAppend
from mnemosyne.adapters.postgres.event_log import PostgresEventLog
from mnemosyne.adapters.postgres.journal import GroupJournal, JournalTicket
from mnemosyne.domain.session.round_events import Mode
from mnemosyne_lab.provider.server import Standin
from tests.app.serving import Serving, serving
from tests.http.managing import Client, Json

SETTLED_SECONDS = 0.005
"""How long all tasks must be idle: by then data sent over loopback has arrived."""

MEASURED = re.compile(rb'(?<="first_byte":)\d+')
"""The only time in an event that does not come from the test's clock: its number of digits depends on the machine."""

WRITING = ("insert", "update", "delete", "merge", "copy")


@attrs.frozen
class Counts:
    statements: int = 0
    """SQL statements, ``begin`` among them; ``commit`` passes no cursor."""
    transactions: int = 0
    """Explicit transactions, and statements outside of one."""
    appends: int = 0
    """Appends to the journal; several may share a transaction."""
    events: int = 0
    rows: int = 0
    """Events and contents of the journal, and other inserted, changed or deleted rows."""
    event_bytes: int = 0
    """As they are stored, without the digits that ``MEASURED`` matches."""
    content_bytes: int = 0
    """Before they are compressed."""
    hops: int = 0
    """Calls of ``trio.to_thread.run_sync``."""
    parses: int = 0
    """Values parsed by ``json`` and ``orjson``."""
    parsed: int = 0
    """Bytes or characters of these values."""
    copies: int = 0
    """Strings as long as the request's body, see ``Watch``: the body and its copies."""

    def __sub__(self, earlier: "Counts") -> "Counts":
        return Counts(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(earlier), strict=True)))


_doors: ContextVar["Doors | None"] = ContextVar("_doors", default=None)
"""The counters of the server that a task or a thread belongs to."""


class Watch:
    """Looks at every function of the server: how many are called, and where each string as long as a body is first
    held. What counts is what a function was given, keeps in a variable or returns; a string that lives within a single
    expression, or within C, is not seen.
    """

    def __init__(self) -> None:
        self.calls = 0
        """Calls of functions, including those in C."""
        self.copies: list[str] = []
        self._at_least = 0
        self._seen: dict[int, object] = {}  # kept, because the id of a deleted object may be reused

    @contextmanager
    def watching(self, body: int) -> Iterator[None]:
        """Within, the functions of this thread are watched; a copy has nine tenths of a ``body``'s length, or more."""
        self._at_least = body * 9 // 10
        with self._profiling():
            yield

    def within(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function, watched in its thread."""

        def working(*given: Any) -> Any:
            with self._profiling():
                return work(*given)

        return working

    @contextmanager
    def _profiling(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, value: object) -> None:
        if _doors.get() is None:
            return
        if event == "return":
            for each in (value, *frame.f_locals.values()):
                if isinstance(each, bytes | bytearray | str) and len(each) >= self._at_least:
                    self._note_copy(each, frame)
        elif event in ("call", "c_call"):
            self.calls += 1

    def _note_copy(self, copy: object, frame: FrameType) -> None:
        if id(copy) not in self._seen:
            self._seen[id(copy)] = copy
            self.copies.append(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}")


@attrs.define
class Doors:
    counts: Counts = Counts()
    watch: Watch = attrs.field(factory=Watch)
    _under_way: int = 0
    _queued: list[JournalTicket] = attrs.field(factory=list)

    def add(self, **more: int) -> None:
        self.counts = attrs.evolve(self.counts, **{name: getattr(self.counts, name) + n for name, n in more.items()})

    async def serve(self, serving: Callable[[], Awaitable[None]]) -> None:
        """Run a server whose work is counted; its tasks and threads inherit the counters."""
        _doors.set(self)
        await serving()

    @contextmanager
    def thread(self) -> Iterator[None]:
        """Mark a thread as busy within the block."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def quiet(self) -> None:
        """Wait until nothing is done any more: no task can go on, no thread is at work, and all is written, also what
        waits for company.
        """
        while True:
            await trio.testing.wait_all_tasks_blocked(SETTLED_SECONDS)
            self._queued = [each for each in self._queued if not each.settled]
            if self._queued:
                await self._queued[0].durable()
            elif not self._under_way:
                return


@contextmanager
def open_doors() -> Iterator[Doors]:
    """Count all work within the block, for the server that it belongs to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", _counting_statements(psycopg.Cursor.execute))
        patch.setattr(PostgresEventLog, "commit", _counting_commits(PostgresEventLog.commit))
        patch.setattr(GroupJournal, "submit", _noting(GroupJournal.submit, _note_ticket))
        patch.setattr(trio.to_thread, "run_sync", _counting_hops(trio.to_thread.run_sync))
        patch.setattr(json.JSONDecoder, "raw_decode", _noting(json.JSONDecoder.raw_decode, _note_decode))
        patch.setattr(orjson, "loads", _noting(orjson.loads, _note_parse))
        yield Doors()


def _counting_statements(execute: Any) -> Any:
    def counting(cursor: Any, query: Any, *given: Any, **options: Any) -> Any:
        begins = cursor.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        done = execute(cursor, query, *given, **options)
        doors = _doors.get()
        if doors is not None:
            text = " ".join((query.decode() if isinstance(query, bytes) else str(query)).split())
            doors.add(statements=1, transactions=int(begins))
            if text.startswith(WRITING):
                doors.add(rows=cursor.rowcount)
        return done

    return counting


def _counting_commits(commit: Any) -> Any:
    async def counting(log: PostgresEventLog, batch: Sequence[EncodedAppend]) -> Committed:
        doors = _doors.get()
        if doors is not None:
            for append in batch:
                doors.add(
                    appends=1,
                    events=len(append.events),
                    rows=len(append.events) + len(append.contents),
                    event_bytes=sum(len(MEASURED.sub(b"", event.state)) for event in append.events),
                    content_bytes=sum(len(content.data) for content in append.contents),
                )
        done: Committed = await commit(log, batch)
        return done

    return counting


def _counting_hops(run_sync: Any) -> Any:
    async def counting(work: Callable[..., Any], *given: Any, **options: Any) -> Any:
        doors = _doors.get()
        if doors is None:
            return await run_sync(work, *given, **options)
        doors.add(hops=1)
        with doors.thread():
            return await run_sync(doors.watch.within(work), *given, **options)

    return counting


def _noting(call: Any, note: Callable[..., None]) -> Any:
    """The function, wrapped to report its arguments and results to the doors."""

    def noting(*given: Any, **named: Any) -> Any:
        done = call(*given, **named)
        doors = _doors.get()
        if doors is not None:
            note(doors, done, *given, **named)
        return done

    return noting


def _note_ticket(doors: Doors, ticket: JournalTicket, *_: Any) -> None:
    doors._queued.append(ticket)


def _note_parse(doors: Doors, value: Any, text: Any, *_: Any, **__: Any) -> None:
    doors.add(parses=1, parsed=len(text))


def _note_decode(doors: Doors, found: tuple[Any, int], decoder: Any, text: str, idx: int = 0) -> None:
    doors.add(parses=1, parsed=found[1] - idx)


DAY = 24 * 3_600_000_000


@attrs.frozen
class Counted(Serving):
    doors: Doors

    async def turn(self, client: Client, *content: Json) -> Counts:
        """The work of a turn, from the client's first byte until the server is idle again."""
        await self.doors.quiet()
        before, copies = self.doors.counts, len(self.doors.watch.copies)
        client.history.append({"role": "user", "content": list(content)})
        with self.doors.watch.watching(len(client.body())):
            message = await client.send()
            await self.doors.quiet()
        assert "error" not in message, message
        client.history.append({"role": "assistant", "content": message["content"]})
        return attrs.evolve(self.doors.counts - before, copies=len(self.doors.watch.copies) - copies)


@asynccontextmanager
async def counted_server(folder: Path, dsn: str, mode: Mode) -> AsyncIterator[Counted]:
    """A server on a database. Its provider answers after the server has finished the work that a request caused,
    because a real provider is slower than the server.
    """
    with open_doors() as doors, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Standin, "_respond", _answer_when_idle(Standin._respond, doors))
        async with serving(folder, dsn, mode, doors.serve) as running:
            yield Counted(running.url, running.standin, running.clock, doors)


def _answer_when_idle(respond: Any, doors: Doors) -> Any:
    async def answer(*given: Any) -> Any:
        await doors.quiet()
        return await respond(*given)

    return answer
