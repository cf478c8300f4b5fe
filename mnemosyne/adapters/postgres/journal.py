"""Group commit: one task commits the appends of all sessions, many in one transaction, in the order in which they came.

The way to be fast is few transactions with much in each: while one commits, the next gathers, and what nobody waits for
waits a moment for company. Other processes append beside it. While the database is away, the queue keeps what came,
up to a bound in bytes, and nobody is told anything: a caller puts its own deadline around ``Ticket.durable`` and may go
on, and the append still becomes durable, in its order, when the database is back.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
import trio

from mnemosyne.adapters.postgres.batches import (
    Committed,
    Committer,
    EncodedAppend,
    make_conflict,
    prepare,
)
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.backoff import backoff
from mnemosyne.domain.ports import Append
from mnemosyne.errors import LogFailed, LogUnavailable

logger = logging.getLogger(__name__)

MIB = 1024 * 1024


@attrs.frozen(kw_only=True)
class JournalLimits:
    """The journal's bounds: bytes waiting in all, bytes in one transaction (one append may be larger), seconds."""

    pending_bytes: int = 64 * MIB
    batch_bytes: int = 8 * MIB
    first_pause: float = 0.05
    """How long to wait before the first retry, in seconds; it doubles up to ``longest_pause``."""
    longest_pause: float = 2.0
    give_up: float = math.inf
    """After how many seconds without the database what waits fails: a command must end, a server keeps trying."""
    first_commit: float = 0.6
    """How long a commit is assumed to take before one has ended, in seconds: a database may be slow from the start."""
    longest_commit: float = 10.0
    """After how long a commit under way means that the database hangs, in seconds."""
    batch_delay: float = 0.25
    """How long an append that may wait does so for others to commit with, in seconds: a turn in which that much happens
    commits twice instead of four times.
    """


class LogProgress:
    """The last position committed here, and a way to wait for a later one (ports.Progress)."""

    def __init__(self) -> None:
        self._position = 0
        self._moved = trio.Event()

    @property
    def position(self) -> int:
        return self._position

    async def beyond(self, position: int) -> int:
        while self._position <= position:
            await self._moved.wait()
        return self._position

    def advance(self, position: int) -> None:
        """Note a commit and wake those who wait."""
        if position > self._position:
            self._position = position
            self._moved.set()
            self._moved = trio.Event()


class JournalTicket:
    """One append on its way (ports.Ticket)."""

    def __init__(
        self,
        prepared: EncodedAppend,
        told: Callable[[LogFailed | None], None] = lambda error: None,
        due: float = 0.0,
    ) -> None:
        self.prepared = prepared
        self.due = due
        """From when on the database keeps it waiting, in trio's time."""
        self._told = told
        self._settled = trio.Event()
        self._error: LogFailed | None = None

    @property
    def version(self) -> int:
        return self.prepared.version

    @property
    def settled(self) -> bool:
        return self._settled.is_set()

    async def durable(self) -> int:
        await self._settled.wait()
        if self._error is not None:
            # A new one for each waiter: a shared exception would gather everyone's tracebacks.
            raise type(self._error)(*self._error.args)
        return self.version

    def settle(self, error: LogFailed | None) -> None:
        """The outcome is known: durable (None), or failed."""
        self._error = error
        self._settled.set()
        self._told(error)


Outcomes = Callable[[Append, int, float, LogFailed | None], None]
"""Hears what became of each append: its size in bytes, how many seconds the database kept it waiting, and the error if
it did not become durable.
"""


@attrs.frozen
class WaitingAppends:
    """What has still to be written, and for how many seconds the first of it has waited for the database; 0 where
    nothing does.
    """

    appends: int
    bytes: int
    seconds: float


class GroupJournal:
    """The journal of a process (ports.Journal). ``run`` is its one task; without it nothing is committed."""

    def __init__(
        self,
        committer: Committer,
        codec: EventCodec,
        limits: JournalLimits | None = None,
        told: Outcomes = lambda append, size, seconds, error: None,
    ) -> None:
        self._committer = committer
        self._codec = codec
        self._limits = limits or JournalLimits()
        self._told = told
        self._committed = LogProgress()
        # The batch being committed stays at the head until its outcome is known.
        self._pending: deque[JournalTicket] = deque()
        self._pending_bytes = 0
        self._wake = trio.Event()
        self._closing = trio.Event()
        self._stopped = trio.Event()
        self._running = False
        self._scope = trio.CancelScope()
        # How many appends at the head are to be committed one by one, after the database refused them together.
        self._one_by_one = 0
        self._pauses = self._backoff()
        self._away_since: float | None = None
        self._commit_began: float | None = None
        self._last_commit_seconds = self._limits.first_commit
        self._last_error: str | None = None

    @property
    def committed(self) -> LogProgress:
        """What this process has made durable so far."""
        return self._committed

    @property
    def commit_seconds(self) -> float:
        elapsed = trio.current_time() - self._commit_began if self._commit_began is not None else 0.0
        if self._away_since is not None or elapsed > self._limits.longest_commit:
            return math.inf
        return self._last_commit_seconds

    @property
    def waiting(self) -> WaitingAppends:
        """What is queued now."""
        seconds = trio.current_time() - self._pending[0].due if self._pending else 0.0
        return WaitingAppends(len(self._pending), self._pending_bytes, max(0.0, seconds))

    @property
    def problem(self) -> str | None:
        """The last reason why something was not written at once; None if there was none."""
        return self._last_error

    def submit(self, append: Append) -> JournalTicket:
        if self._closing.is_set() or self._stopped.is_set():
            raise LogUnavailable("the journal has stopped: the application is shutting down")
        prepared = prepare(append, self._codec)
        weight = prepared.weight
        # An empty queue takes an append of any size, or one larger than the bound could never be written.
        if self._pending and self._pending_bytes + weight > self._limits.pending_bytes:
            raise LogUnavailable(
                f"the database is away or too slow: {self._pending_bytes} bytes wait to be written already, "
                f"and {self._limits.pending_bytes} are allowed to"
            )
        due = trio.current_time() + (self._limits.batch_delay if append.may_wait else 0.0)
        ticket = JournalTicket(prepared, partial(self._tell, append, prepared.size, due), due)
        self._pending.append(ticket)
        self._pending_bytes += weight
        self._wake.set()
        return ticket

    def _tell(self, append: Append, size: int, due: float, error: LogFailed | None) -> None:
        self._told(append, size, max(0.0, trio.current_time() - due), error)

    async def append(self, append: Append) -> int:
        return await self.submit(append).durable()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commit what is submitted until ``close``. What is left when it ends fails with LogUnavailable."""
        self._running = True
        try:
            with self._scope:
                task_status.started()
                while await self._has_work():
                    await self._commit_next()
        finally:
            self._stop()

    async def close(self, within: float) -> None:
        """Take no more, write what is queued for up to ``within`` seconds, stop; what could not be written is logged.

        An append that was being committed at the end counts as unwritten; it may still have become durable.
        """
        self._closing.set()
        self._wake.set()
        if not self._running:
            within = 0
        with trio.move_on_after(within):
            await self._stopped.wait()
        self._scope.cancel()
        self._stop()

    async def _has_work(self) -> bool:
        """Wait until something is to be committed; False once the journal is closing and nothing is queued."""
        while (due := min((each.due for each in self._pending), default=math.inf)) > trio.current_time():
            if self._closing.is_set():
                return bool(self._pending)
            self._wake = trio.Event()
            with trio.move_on_at(due):
                await self._wake.wait()
        return True

    async def _commit_next(self) -> None:
        """Try to commit the head of the queue; it leaves the queue only when its outcome is known."""
        batch = self._next_batch()
        self._commit_began = trio.current_time()
        try:
            outcome = await self._committer.commit([ticket.prepared for ticket in batch])
        except LogUnavailable as error:
            await self._wait_for_the_database(error)
        except LogFailed as error:
            self._isolate(batch, error)
        except Exception as error:
            # A bug, most likely ours, must not end the journal and with it every session.
            logger.exception("A commit failed in a way that nobody expected.")
            self._isolate(batch, LogFailed(f"the append could not be written: {type(error).__name__}"))
        else:
            self._last_commit_seconds = trio.current_time() - self._commit_began
            self._come_back()
            self._settle(batch, outcome)
        finally:
            self._commit_began = None

    def _next_batch(self) -> list[JournalTicket]:
        if self._one_by_one:
            return [self._pending[0]]
        batch: list[JournalTicket] = []
        room = self._limits.batch_bytes
        for ticket in self._pending:
            room -= ticket.prepared.weight
            if batch and room < 0:
                break
            batch.append(ticket)
        return batch

    def _settle(self, batch: Sequence[JournalTicket], outcome: Committed) -> None:
        # Readers that wake must find the events; they are durable by now, whoever waits for them.
        self._committed.advance(outcome.position)
        for ticket, error in zip(batch, outcome.errors, strict=True):
            self._leave_queue(ticket)
            ticket.settle(error)
        for ticket, error in zip(batch, outcome.errors, strict=True):
            if error is not None:
                self._fail_those_that_build_on(ticket.prepared)

    def _isolate(self, batch: Sequence[JournalTicket], error: LogFailed) -> None:
        """The database refused a batch: find out whose fault it is, by committing each append alone."""
        if len(batch) > 1:
            self._one_by_one = len(batch)
            return
        self._last_error = str(error)
        self._leave_queue(batch[0])
        batch[0].settle(error)
        self._fail_those_that_build_on(batch[0].prepared)

    def _leave_queue(self, ticket: JournalTicket) -> None:
        """Take out the head, which is ``ticket``."""
        head = self._pending.popleft()
        assert head is ticket, "appends are settled in the order of the queue"
        self._pending_bytes -= ticket.prepared.weight
        self._one_by_one = max(0, self._one_by_one - 1)

    def _fail_those_that_build_on(self, failed: EncodedAppend) -> None:
        """What was queued on top of a failed append is lost with it; see ``assess``."""
        kept: deque[JournalTicket] = deque()
        for ticket in self._pending:
            append = ticket.prepared
            if append.stream == failed.stream and append.expected > failed.expected:
                self._pending_bytes -= append.weight
                ticket.settle(make_conflict(append))
            else:
                kept.append(ticket)
        self._pending = kept

    async def _wait_for_the_database(self, error: LogUnavailable) -> None:
        self._last_error = str(error)
        if self._away_since is None:
            self._away_since = trio.current_time()
            logger.warning("Events wait to be written: %s.", error)
        if trio.current_time() - self._away_since >= self._limits.give_up:
            while self._pending:
                ticket = self._pending[0]
                self._leave_queue(ticket)
                ticket.settle(type(error)(*error.args))
            return
        pause = next(self._pauses)
        if self._closing.is_set():
            await trio.sleep(pause)
        else:
            with trio.move_on_after(pause):  # shutdown has little time: it tries again at once
                await self._closing.wait()

    def _come_back(self) -> None:
        self._pauses = self._backoff()
        if self._away_since is not None:
            seconds = trio.current_time() - self._away_since
            self._away_since = None
            logger.warning(
                "The database is back after %.1f seconds; %d appends wait to be written.", seconds, len(self._pending)
            )

    def _backoff(self) -> Iterator[float]:
        return backoff(self._limits.first_pause, self._limits.longest_pause)

    def _stop(self) -> None:
        self._stopped.set()
        left, self._pending = self._pending, deque()
        for ticket in left:
            ticket.settle(LogUnavailable("the journal stopped before the events were written"))
        if left:
            logger.error(
                "%d appends (%d bytes) of %d sessions were not written before the end; the last problem: %s.",
                len(left),
                self._pending_bytes,
                len({ticket.prepared.stream for ticket in left}),
                self._last_error or "there was no time",
            )
        self._pending_bytes = 0
