"""Where projections are kept, as a port: tables with a checkpoint that moves in the same transaction."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.ports import Recorded
from mnemosyne.projections.projection import Projection


class Tail(Protocol):
    """The log, to be followed."""

    async def tail(self, *, after: int, limit: int) -> Sequence[Recorded[object]]:
        """Up to ``limit`` events of the whole log with ``position > after``, in order, never skipping a late commit.

        One that cannot be read has ``UnreadableEvent`` in its place.
        """
        ...


@attrs.frozen
class Mark:
    """The last event that was taken in. It names the event and not only its position: a log that was restored from an
    older backup may have come to the same position by another way.
    """

    position: int = 0
    stream: UUID | None = None
    version: int = 0

    def names(self, recorded: Recorded[object]) -> bool:
        """Whether it is this event."""
        return (self.position, self.stream, self.version) == (recorded.position, recorded.stream, recorded.version)


def mark_of(recorded: Recorded[object]) -> Mark:
    """The mark after an event."""
    return Mark(recorded.position, recorded.stream, recorded.version)


@attrs.frozen(kw_only=True)
class ProjectionStanding:
    """How a projection stands.

    ``version`` is that of the code that filled its tables. ``error`` says why it stopped after ``mark``, ``damage``
    what is wrong with the tables themselves, ``rebuilding`` whether somebody is filling new ones just now.
    ``set_aside`` are the positions of the events that could not be taken in.
    """

    version: int
    mark: Mark
    error: str | None = None
    damage: str | None = None
    rebuilding: bool = False
    set_aside: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class Portion:
    """What one projection is to take in: ``events``, the next ones ``after`` its checkpoint.

    They go into its tables, or into those on the ``side`` of this number.
    """

    projection: Projection
    events: Sequence[Recorded[object]]
    after: Mark
    side: int | None = None


class Switch(Enum):
    """What became of a switch."""

    DONE = "done"
    BEHIND = "behind"
    """The live tables are further."""
    LOST = "lost"
    """The side tables are another rebuild's by now."""


class ProjectionStore(Protocol):
    """Tables and checkpoints. What fails for reasons of the outside raises a LogFailed.

    A projection has its tables and, while it is rebuilt, a second set on the **side**, which nobody reads. The number
    of a side tells whose it is: a later rebuild takes the place of an earlier one.
    """

    async def standing(self, projection: Projection) -> ProjectionStanding | None:
        """How it stands; None before it was ever created."""
        ...

    async def create(self, projection: Projection) -> None:
        """Empty tables, with a checkpoint before the log's first event; nothing where there is a checkpoint."""
        ...

    async def apply(self, portions: Sequence[Portion]) -> list[ProjectionStanding | None]:
        """Take events in and move the checkpoints, all or nothing; return how each projection stands then.

        Where a checkpoint is not at ``after``, because another projector was faster, nothing changes for that
        projection. What is set aside is noted with the checkpoint. None if there is no such checkpoint; the side's is
        gone when another rebuild has begun.
        """
        ...

    async def stop(self, projection: Projection, error: str, *, after: Mark) -> ProjectionStanding | None:
        """Record that it cannot go on from ``after``, unless it has; return how it stands then."""
        ...

    async def begin_side(self, projection: Projection) -> int:
        """Empty side tables; return their number."""
        ...

    async def switch(self, projection: Projection, side: int, *, unless_beyond: int) -> Switch:
        """Let the side tables take the place of the others at once.

        Not if the live tables are beyond a position: readers never go back in time.
        """
        ...

    async def drop_side(self, projection: Projection, side: int) -> None:
        """Throw the side tables away, unless they are another's by now."""
        ...

    async def dump(self, projection: Projection, write: Callable[[Mapping[str, Any]], None]) -> None:
        """Every row, table by table and by key: ``write`` gets each as JSON values, under ``table`` the table's name.

        It shows one moment, and may call ``write`` from another thread.
        """
        ...
