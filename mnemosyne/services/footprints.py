"""What is stored of each session, and what of it went upstream."""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.ports import StreamSizes
from mnemosyne.services.read_models import EVERY_SESSION, Question, ReadModels
from mnemosyne.services.sessions import Archive

Report = Callable[[int, int], None]
"""Hears how many bytes of how many are done."""


def ignore_news(done: int, total: int) -> None:
    """For those who do not wait for it."""


class Disk(Protocol):
    """The files of the database that holds the log."""

    async def disk_bytes(self) -> int:
        """How large they are."""
        ...

    async def rewrite_content(self, report: Report) -> None:
        """Let the bytes of what was erased leave them: all that they hold is written anew. Raises LogFailed."""
        ...


@attrs.frozen
class Footprint:
    """What a session takes up; ``sent`` are the bytes of its requests: the client's, and those sent in their place."""

    sizes: StreamSizes = attrs.field(factory=StreamSizes)
    sent: int = 0

    def __add__(self, other: "Footprint") -> "Footprint":
        """Both together."""
        return Footprint(self.sizes + other.sizes, self.sent + other.sent)

    @property
    def stored(self) -> int:
        """Everything that is kept, in bytes: events and compressed content."""
        return self.sizes.event_bytes + self.sizes.stored_bytes

    @property
    def ratio(self) -> float | None:
        """What is stored over what was sent."""
        return self.stored / self.sent if self.sent else None

    @property
    def ratio_to_raw(self) -> float | None:
        """What is stored over what is in it, each text once and not compressed."""
        return self.stored / self.sizes.raw_bytes if self.sizes.raw_bytes else None


async def measure(archive: Archive, models: ReadModels) -> dict[UUID, Footprint]:
    """What each session takes up, in the order in which they began. Raises LogFailed."""
    sizes = await archive.events.sizes()
    sessions, rows = await models.answers(EVERY_SESSION, Question("timeline", "sent"))
    sent = {row["stream"]: row["bytes"] for row in rows}
    streams = [row["stream"] for row in sessions]
    return {stream: Footprint(sizes.get(stream, StreamSizes()), sent.get(stream, 0)) for stream in streams}
