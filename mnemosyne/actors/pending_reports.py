"""Events of turns that are not recorded yet.

An actor whose append was refused stops, and the next one knows only the log. Until each turn has reported to the new
actor what it reported to the old one, nothing may be planned: the new actor does not know every request that was sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import trio


class TurnReport:
    """The unrecorded events of one turn, and the actor that received its reports; None if it has reported nothing."""

    def __init__(self) -> None:
        self.actor: object = None
        self.pending = 0
        """Number of unrecorded reports."""
        self._withheld = 0
        self._changed = trio.Event()

    def note(self, actor: object) -> None:
        """Record the actor that receives this turn's reports, in order."""
        self.actor = actor
        self.wake()

    @contextmanager
    def withholding(self) -> Iterator[None]:
        """While in the block, a request was sent, or a reply received, that the turn withholds until earlier events are
        recorded; other reports are sent meanwhile.
        """
        self._withheld += 1
        try:
            yield
        finally:
            self._withheld -= 1
            self.wake()

    def is_unseen_by(self, actor: object) -> bool:
        """Whether an event of the turn is unknown to this actor."""
        return self._withheld > 0 or self.actor not in (None, actor)

    def wake(self) -> None:
        """Wake the waiters: the report changed."""
        self._changed.set()
        self._changed = trio.Event()

    async def change(self) -> None:
        """Wait until the turn reports to an actor, or a report is recorded."""
        await self._changed.wait()


class PendingReports:
    """The turns of each session with unrecorded events."""

    def __init__(self) -> None:
        self._of: dict[UUID, set[TurnReport]] = {}

    @contextmanager
    def report(self, stream: UUID, report: TurnReport) -> Iterator[None]:
        """While in the block, an event of a turn of the session is unrecorded."""
        of = self._of.setdefault(stream, set())
        of.add(report)
        report.pending += 1
        try:
            yield
        finally:
            report.pending -= 1
            if not report.pending:
                of.discard(report)
            if not of and self._of.get(stream) is of:
                del self._of[stream]
            report.wake()

    def find_unseen(self, stream: UUID, actor: object) -> list[TurnReport]:
        """The reports that are not recorded and unknown to this actor."""
        return [each for each in self._of.get(stream, ()) if each.is_unseen_by(actor)]
