"""The stored size of each session, and the size of its requests."""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.ports import StreamSizes
from mnemosyne.services.read_models import EVERY_SESSION, Question, ReadModels
from mnemosyne.services.sessions import Archive

Report = Callable[[int, int], None]
"""Callback for progress: bytes done and bytes in total."""


def ignore_news(done: int, total: int) -> None:
    """Ignore the progress."""


class Disk(Protocol):
    """The files of the database that holds the log."""

    async def disk_bytes(self) -> int:
        """Their size."""

    async def rewrite_content(self, report: Report) -> None:
        """Rewrite the content so that erased bytes leave the files. Raises LogFailed."""


@attrs.frozen
class Footprint:
    """A session's stored size; ``sent`` are the bytes of its requests: the client's, and those sent instead."""

    sizes: StreamSizes = attrs.field(factory=StreamSizes)
    sent: int = 0

    def __add__(self, other: "Footprint") -> "Footprint":
        """The sum of both."""
        return Footprint(self.sizes + other.sizes, self.sent + other.sent)

    @property
    def stored(self) -> int:
        """Stored bytes: events and compressed content."""
        return self.sizes.event_bytes + self.sizes.stored_bytes

    @property
    def ratio(self) -> float | None:
        """Stored bytes divided by sent bytes."""
        return self.stored / self.sent if self.sent else None

    @property
    def ratio_to_raw(self) -> float | None:
        """Stored bytes divided by the bytes of its distinct contents, uncompressed."""
        return self.stored / self.sizes.raw_bytes if self.sizes.raw_bytes else None


async def measure(archive: Archive, models: ReadModels) -> dict[UUID, Footprint]:
    """The footprint of each session, in the order of their beginnings. Raises LogFailed."""
    sizes = await archive.events.sizes()
    sessions, rows = await models.answers(EVERY_SESSION, Question("timeline", "sent"))
    sent = {row["stream"]: row["bytes"] for row in rows}
    streams = [row["stream"] for row in sessions]
    return {stream: Footprint(sizes.get(stream, StreamSizes()), sent.get(stream, 0)) for stream in streams}
