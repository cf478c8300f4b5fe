"""What is stored of each session, and what of it went upstream."""

from typing import Protocol
from uuid import UUID

import attrs

from mnemosyne.domain.ports import StreamSizes
from mnemosyne.services.sessions import Archive, read_histories


class Disk(Protocol):
    """The files of the database that holds the log."""

    async def disk_bytes(self) -> int:
        """How large they are."""
        ...

    async def rewrite_content(self) -> None:
        """Let the bytes of what was erased leave them. It may take minutes. Raises LogFailed."""
        ...


@attrs.frozen
class Footprint:
    """What a session takes up; ``sent`` are the bytes of its request bodies as they went upstream."""

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


async def measure(archive: Archive) -> dict[UUID, Footprint]:
    """What each session takes up, in the order in which they began."""
    sizes = await archive.events.sizes()
    return {
        stream: Footprint(sizes.get(stream, StreamSizes()), sum(body.size for body in history.bodies.values()))
        async for stream, history in read_histories(archive)
    }
