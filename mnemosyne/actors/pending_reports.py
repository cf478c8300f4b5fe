"""What happened in turns and is not on record yet.

An actor whose append was refused stops, and the next one knows what the log tells. Until each turn has told that one
what the first one knew, nothing may be planned on what it knows: it does not know all that was sent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import trio


class TurnReport:
    """What one turn has to tell, and the actor that heard all of it; None where there was nothing to hear."""

    def __init__(self) -> None:
        self.actor: object = None
        self.pending = 0
        """How many things are not on record."""
        self._withheld = 0
        self._changed = trio.Event()

    def note(self, actor: object) -> None:
        """An actor is told, which hears everything in turn."""
        self.actor = actor
        self.wake()

    @contextmanager
    def withholding(self) -> Iterator[None]:
        """While in the block something left, or came back, of which nobody hears before what came first is on record;
        whatever else is told meanwhile.
        """
        self._withheld += 1
        try:
            yield
        finally:
            self._withheld -= 1
            self.wake()

    def is_unseen_by(self, actor: object) -> bool:
        """Whether there is something that this actor does not hear."""
        return self._withheld > 0 or self.actor not in (None, actor)

    def wake(self) -> None:
        """Something changed."""
        self._changed.set()
        self._changed = trio.Event()

    async def change(self) -> None:
        """Wait until an actor was told, or something is on record."""
        await self._changed.wait()


class PendingReports:
    """The turns of each session that have something to tell."""

    def __init__(self) -> None:
        self._of: dict[UUID, set[TurnReport]] = {}

    @contextmanager
    def report(self, stream: UUID, report: TurnReport) -> Iterator[None]:
        """While in the block something of a turn of the session is not on record."""
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
        """What is not on record, and not told to this actor."""
        return [each for each in self._of.get(stream, ()) if each.is_unseen_by(actor)]
