"""The port for stored projections: tables with a checkpoint that moves in the same transaction."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.ports import Recorded
from mnemosyne.projections.projection import Projection


class Tail(Protocol):
    """Reads the log from a position on."""

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[object]]:
        """Return up to ``limit`` events of the whole log with ``position > after``, in order, never skipping a late
        commit.

        An unreadable event is replaced by ``UnreadableEvent``.
        """


@attrs.frozen
class Mark:
    """The last event that was applied. It names the event and not only its position: a log restored from an older
    backup may have a different event at the same position.
    """

    position: int = 0
    stream: UUID | None = None
    version: int = 0

    def names(self, recorded: Recorded[object]) -> bool:
        return (self.position, self.stream, self.version) == (recorded.position, recorded.stream, recorded.version)


def mark_of(recorded: Recorded[object]) -> Mark:
    """Return the mark after an event."""
    return Mark(recorded.position, recorded.stream, recorded.version)


@attrs.frozen(kw_only=True)
class ProjectionStatus:
    """The status of a projection.

    ``version`` is that of the code that filled its tables. ``error`` says why it stopped after ``mark``, ``damage``
    what is wrong with the tables themselves, and ``rebuilding`` whether new tables are being filled. ``set_aside`` are
    the positions of the events that could not be applied.
    """

    version: int
    mark: Mark
    error: str | None = None
    damage: str | None = None
    rebuilding: bool = False
    set_aside: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class Portion:
    """The ``events`` for one projection to apply: the next ones ``after`` its checkpoint.

    They are applied to its live tables, or to the ``side`` tables of this number.
    """

    projection: Projection
    events: Sequence[Recorded[object]]
    after: Mark
    side: int | None = None


class Switch(Enum):
    DONE = "done"
    BEHIND = "behind"
    """The live tables are further."""
    LOST = "lost"
    """The side tables now belong to another rebuild."""


class ProjectionStore(Protocol):
    """Tables and checkpoints. Raises a LogFailed if the database fails.

    A projection has its live tables and, during a rebuild, a second set on the **side**, which is not read by queries.
    The number of a side identifies its rebuild: a later rebuild replaces an earlier one.
    """

    async def status(self, projection: Projection) -> ProjectionStatus | None:
        """Return the status; None if the projection was never created."""

    async def create(self, projection: Projection) -> None:
        """Create empty tables with a checkpoint before the log's first event; do nothing if there is a checkpoint."""

    async def apply(self, portions: Sequence[Portion]) -> list[ProjectionStatus | None]:
        """Apply events and move the checkpoints, all or nothing; return the status of each projection.

        If a checkpoint is not at ``after``, because another projector was faster, nothing changes for that projection.
        Events set aside are recorded with the checkpoint. None if there is no such checkpoint; a side checkpoint is
        gone once another rebuild has begun.
        """

    async def stop(self, projection: Projection, error: str, *, after: Mark) -> ProjectionStatus | None:
        """Record that the projection cannot continue from ``after``, unless it has; return its status."""

    async def begin_side(self, projection: Projection) -> int:
        """Create empty side tables; return their number."""

    async def switch(self, projection: Projection, side: int, *, unless_beyond: int) -> Switch:
        """Replace the live tables by the side tables at once.

        Not if the live tables are beyond a position: readers never go back in time.
        """

    async def drop_side(self, projection: Projection, side: int) -> None:
        """Delete the side tables, unless they belong to another rebuild by now."""
