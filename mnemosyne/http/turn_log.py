"""What the relay tells of a turn, and asks: where it is recorded, and who says what leaves for it."""

import logging
from collections.abc import Awaitable
from typing import Protocol

import attrs

from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.reply import HiddenCall, Reply

log = logging.getLogger(__name__)


class Outgoing(Protocol):
    """What leaves first: ``body``, None for the client's own; ``hidden`` are the tools in it that are ours."""

    @property
    def body(self) -> bytes | None: ...
    @property
    def hidden(self) -> frozenset[str]: ...


class TurnLog(Protocol):
    """Where a turn is recorded, and who says what leaves for it. A wait ends when the record is durable, or when
    waiting longer would be wrong.
    """

    async def prepare(self) -> Outgoing:
        """What goes upstream first."""
        ...

    async def preview(self) -> bytes | None:
        """What would go upstream first, if this were to leave; None for the client's own bytes. Nothing is recorded."""
        ...

    def note_sent(self) -> None:
        """The request has left for the provider: recording may begin. Said again if it had to be sent again,
        and never if it did not leave."""

    async def replace_refused(self, refusal: Reply) -> bytes | None:
        """The provider refused the first request with HTTP 400; what goes instead, if it was for something of ours."""
        ...

    async def note_begun(self) -> None:
        """The reply begins; nothing of it has reached the client yet."""

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        """A round asked for another; what goes upstream in that, None if there is to be none."""
        ...

    async def note_ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None:
        """The reply is whole, after the ``last`` of several rounds; its last bytes have not left yet."""

    async def note_finished(self, head: ReplyHead, reply: Reply) -> None:
        """The reply is whole; its last bytes have not left yet."""

    async def note_interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        """There is no whole reply, and there will be none."""


@attrs.frozen
class Unchanged:
    """The client's own bytes leave, and nothing is hidden."""

    body: bytes | None = None
    hidden: frozenset[str] = frozenset()


class Unrecorded:
    """The log of what is not a turn."""

    async def prepare(self) -> Outgoing:
        return Unchanged()

    async def preview(self) -> bytes | None:
        return None

    def note_sent(self) -> None: ...

    async def replace_refused(self, refusal: Reply) -> bytes | None:
        return None

    async def note_begun(self) -> None: ...

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        return None

    async def note_ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None: ...

    async def note_finished(self, head: ReplyHead, reply: Reply) -> None: ...

    async def note_interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None: ...


async def safely(recording: Awaitable[None]) -> None:
    """A turn goes on whatever its log does."""
    try:
        await recording
    except Exception:
        log.exception("a turn could not be recorded")
