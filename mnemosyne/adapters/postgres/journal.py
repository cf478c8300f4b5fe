"""Group commit: one task commits the appends of all sessions in the order of their arrival, many in one transaction.

While one batch commits, the next gathers; an append that may wait is delayed a moment to share a transaction. Other
processes append concurrently. During an outage the queue keeps appends up to a limit in bytes: a caller puts its own
deadline around ``Ticket.durable``, and the append becomes durable when the database is back.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs
import trio

from mnemosyne.adapters.postgres.batches import Committed, Committer, EncodedAppend, make_conflict, prepare
from mnemosyne.adapters.postgres.event_codec import EventCodec
from mnemosyne.backoff import backoff
from mnemosyne.domain.ports import Append
from mnemosyne.errors import LogFailed, LogUnavailable

logger = logging.getLogger(__name__)

MIB = 1024 * 1024

MEASURED_BYTES = MIB // 4
"""A larger commit does not show that the database is slow: storing its contents takes time."""


@attrs.frozen(kw_only=True)
class JournalLimits:
    """Limits in bytes and seconds. A single append may exceed ``batch_bytes``."""

    pending_bytes: int = 64 * MIB
    batch_bytes: int = 8 * MIB
    first_pause: float = 0.05
    """The pause before the first retry; it doubles up to ``longest_pause``."""
    longest_pause: float = 2.0
    give_up: float = math.inf
    """The length of an outage after which queued appends fail: a command must end, a server keeps trying."""
    first_commit: float = 0.6
    """The assumed duration of a commit before the first one has ended."""
    longest_commit: float = 10.0
    """The duration after which a commit means that the database hangs."""
    batch_delay: float = 0.25
    """The longest delay in seconds of an append that may wait. It ends early when another append is committed, or when
    anything waits for this one.
    """


class LogProgress:
    """The last committed position (ports.Progress)."""

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
        """Set the position after a commit and wake waiting tasks."""
        if position > self._position:
            self._position = position
            self._moved.set()
            self._moved = trio.Event()


class JournalTicket:
    """A submitted append (ports.Ticket)."""

    def __init__(
        self,
        prepared: EncodedAppend,
        on_settled: Callable[[LogFailed | None], None] = lambda error: None,
        due: float = 0.0,
        hurry: Callable[["JournalTicket"], None] = lambda ticket: None,
    ) -> None:
        self.prepared = prepared
        self.due = due
        """The time from which it waits for the database, in trio's clock."""
        self._hurry = hurry
        self._on_settled = on_settled
        self._settled = trio.Event()
        self._error: LogFailed | None = None

    @property
    def version(self) -> int:
        return self.prepared.version

    @property
    def settled(self) -> bool:
        return self._settled.is_set()

    async def durable(self) -> int:
        if not self.settled:
            self._hurry(self)
        await self._settled.wait()
        if self._error is not None:
            # A shared exception would collect the tracebacks of all waiters.
            raise type(self._error)(*self._error.args)
        return self.version

    def settle(self, error: LogFailed | None) -> None:
        """Set the outcome: durable (None), or failed."""
        self._error = error
        self._settled.set()
        self._on_settled(error)


Outcomes = Callable[[Append, int, float, LogFailed | None], None]
"""Receives the outcome of each append: its size in bytes, the seconds that it waited for the database, and the error if
it is not durable.
"""


@attrs.frozen
class WaitingAppends:
    """The queue, and the seconds that its first append has waited for the database; 0 if empty."""

    appends: int
    bytes: int
    seconds: float


class GroupJournal:
    """The journal of a process (ports.Journal). Its task ``run`` does the commits."""

    def __init__(
        self,
        committer: Committer,
        codec: EventCodec,
        limits: JournalLimits | None = None,
        on_outcome: Outcomes = lambda append, size, seconds, error: None,
        is_away: Callable[[], bool] = lambda: False,
    ) -> None:
        """``is_away``: whether the database is known to be unreachable, although no commit has failed yet."""
        self._committer = committer
        self._codec = codec
        self._limits = limits or JournalLimits()
        self._on_outcome = on_outcome
        self._is_away = is_away
        self._committed = LogProgress()
        # A batch stays at the head while it is committed.
        self._pending: deque[JournalTicket] = deque()
        self._pending_bytes = 0
        self._wake = trio.Event()
        self._closing = trio.Event()
        self._stopped = trio.Event()
        self._running = False
        self._scope = trio.CancelScope()
        # The number of appends at the head to commit one by one, after the database refused them together.
        self._one_by_one = 0
        self._pauses = self._backoff()
        self._away_since: float | None = None
        self._commit_began: float | None = None
        self._last_commit_seconds = self._limits.first_commit
        self._last_error: str | None = None

    @property
    def committed(self) -> LogProgress:
        """The progress of this process's commits."""
        return self._committed

    @property
    def commit_seconds(self) -> float:
        elapsed = trio.current_time() - self._commit_began if self._commit_began is not None else 0.0
        if self._is_away() or self._away_since is not None or elapsed > self._limits.longest_commit:
            return math.inf
        return self._last_commit_seconds

    @property
    def waiting(self) -> WaitingAppends:
        """The current queue."""
        seconds = trio.current_time() - self._pending[0].due if self._pending else 0.0
        return WaitingAppends(len(self._pending), self._pending_bytes, max(0.0, seconds))

    @property
    def problem(self) -> str | None:
        """The last error of a commit; None if there was none."""
        return self._last_error

    def submit(self, append: Append) -> JournalTicket:
        if self._closing.is_set() or self._stopped.is_set():
            raise LogUnavailable("the journal has stopped: the application is shutting down")
        prepared = prepare(append, self._codec)
        weight = prepared.weight
        # An empty queue takes an append of any size; a larger one could never be written otherwise.
        if self._pending and self._pending_bytes + weight > self._limits.pending_bytes:
            raise LogUnavailable(
                f"the database is unavailable or too slow: {self._pending_bytes} bytes wait to be written, "
                f"and the limit is {self._limits.pending_bytes}"
            )
        due = trio.current_time() + (self._limits.batch_delay if append.may_wait else 0.0)
        ticket = JournalTicket(prepared, partial(self._report, append, prepared.size, due), due, self._hurry)
        self._pending.append(ticket)
        self._pending_bytes += weight
        self._wake.set()
        return ticket

    def _hurry(self, ticket: JournalTicket) -> None:
        """Commit a delayed append at once, with all other pending ones, because something waits for it."""
        if ticket.due > trio.current_time():
            ticket.due = trio.current_time()
            self._wake.set()

    def _report(self, append: Append, size: int, due: float, error: LogFailed | None) -> None:
        self._on_outcome(append, size, max(0.0, trio.current_time() - due), error)

    async def append(self, append: Append) -> int:
        return await self.submit(append).durable()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Commit submitted appends until ``close``; then the rest fails with LogUnavailable."""
        self._running = True
        try:
            with self._scope:
                task_status.started()
                while await self._has_work():
                    await self._commit_next()
        finally:
            self._stop()

    async def close(self, within: float) -> None:
        """Refuse new appends, write the queue for up to ``within`` seconds, stop, and log unwritten appends.

        An append whose commit is interrupted counts as unwritten, although it may be durable.
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
        """Wait for work; return False if the journal is closing and the queue is empty."""
        while (due := min((ticket.due for ticket in self._pending), default=math.inf)) > trio.current_time():
            if self._closing.is_set():
                return bool(self._pending)
            self._wake = trio.Event()
            with trio.move_on_at(due):
                await self._wake.wait()
        return True

    async def _commit_next(self) -> None:
        """Try to commit the head of the queue, which stays there until its outcome is known."""
        batch = self._next_batch()
        self._commit_began = trio.current_time()
        try:
            outcome = await self._committer.commit([ticket.prepared for ticket in batch])
        except LogUnavailable as error:
            await self._pause(error)
        except LogFailed as error:
            self._isolate(batch, error)
        except Exception as error:
            # A bug must not end the journal of all sessions.
            logger.exception("A commit failed unexpectedly.")
            self._isolate(batch, LogFailed(f"the append could not be written: {type(error).__name__}"))
        else:
            seconds = trio.current_time() - self._commit_began
            if sum(ticket.prepared.weight for ticket in batch) > MEASURED_BYTES:
                seconds = min(seconds, self._last_commit_seconds)
            self._last_commit_seconds = seconds
            self._note_success()
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
        # First wake the readers: the events are durable.
        self._committed.advance(outcome.position)
        for ticket, error in zip(batch, outcome.errors, strict=True):
            self._dequeue(ticket)
            ticket.settle(error)
        for ticket, error in zip(batch, outcome.errors, strict=True):
            if error is not None:
                self._fail_successors(ticket.prepared)

    def _isolate(self, batch: Sequence[JournalTicket], error: LogFailed) -> None:
        """Find the append that the database refuses, by committing each alone."""
        if len(batch) > 1:
            self._one_by_one = len(batch)
            return
        self._last_error = str(error)
        self._dequeue(batch[0])
        batch[0].settle(error)
        self._fail_successors(batch[0].prepared)

    def _dequeue(self, ticket: JournalTicket) -> None:
        """Remove the head, which is ``ticket``."""
        head = self._pending.popleft()
        assert head is ticket, "appends are settled in the order of the queue"
        self._pending_bytes -= ticket.prepared.weight
        self._one_by_one = max(0, self._one_by_one - 1)

    def _fail_successors(self, failed: EncodedAppend) -> None:
        """Fail appends that were queued after a failed one of their stream; see ``assess``."""
        kept: deque[JournalTicket] = deque()
        for ticket in self._pending:
            append = ticket.prepared
            if append.stream == failed.stream and append.expected > failed.expected:
                self._pending_bytes -= append.weight
                ticket.settle(make_conflict(append))
            else:
                kept.append(ticket)
        self._pending = kept

    async def _pause(self, error: LogUnavailable) -> None:
        self._last_error = str(error)
        if self._away_since is None:
            self._away_since = trio.current_time()
            logger.warning("Events cannot be written yet: %s.", error)
        if trio.current_time() - self._away_since >= self._limits.give_up:
            while self._pending:
                ticket = self._pending[0]
                self._dequeue(ticket)
                ticket.settle(type(error)(*error.args))
            return
        pause = next(self._pauses)
        if self._closing.is_set():
            await trio.sleep(pause)
        else:
            with trio.move_on_after(pause):  # a shutdown tries again at once
                await self._closing.wait()

    def _note_success(self) -> None:
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
        unwritten, self._pending = self._pending, deque()
        for ticket in unwritten:
            ticket.settle(LogUnavailable("the journal stopped before the events were written"))
        if unwritten:
            logger.error(
                "%d appends (%d bytes) of %d sessions were not written before the end; the last problem: %s.",
                len(unwritten),
                self._pending_bytes,
                len({ticket.prepared.stream for ticket in unwritten}),
                self._last_error or "the time limit was reached",
            )
        self._pending_bytes = 0
