"""The relay's interface to a turn: it records the turn and decides which request is sent upstream."""

import logging
from collections.abc import Awaitable
from typing import Protocol

import attrs

from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.reply import HiddenCall, Reply

log = logging.getLogger(__name__)


class Outgoing(Protocol):
    """The first upstream request: ``body``, None for the client's own; ``hidden`` are the memory tools in it,
    ``hides_verdict`` says that the provider's verdict on its cache is for the proxy alone.
    """

    @property
    def body(self) -> bytes | None: ...
    @property
    def hidden(self) -> frozenset[str]: ...
    @property
    def hides_verdict(self) -> bool: ...


@attrs.frozen
class Unchanged:
    """An ``Outgoing`` that sends the client's own bytes and hides nothing."""

    body: bytes | None = None
    hidden: frozenset[str] = frozenset()
    hides_verdict: bool = False


class TurnLog(Protocol):
    """Records a turn and decides which request is sent upstream. A method returns when its record is durable, or when
    waiting longer would be wrong. The methods here record nothing and change nothing.
    """

    async def prepare(self) -> Outgoing:
        """Return the first upstream request."""
        return Unchanged()

    async def preview(self) -> tuple[bytes, bytes] | None:
        """Return the body that would be sent upstream first, without recording, and the one to send if that is refused;
        None for the client's own bytes.
        """
        return None

    def note_sent(self) -> None:
        """Note that the request was sent, so recording may start. Called again for a resend, never if nothing was
        sent."""
        return

    async def replace_refused(self, refusal: Reply, status: int) -> bytes | None:
        """Return a replacement for a first request refused with this status, if the proxy may be the reason."""
        return None

    async def try_again(self, refusal: Reply, status: int) -> "TurnLog | None":
        """Return another attempt at a turn whose only request was refused with this status, if its client is not the
        reason; the caller records the end of this one.
        """
        return None

    async def note_begun(self) -> None:
        """Note that the reply begins, before any of it is sent to the client."""
        return

    def note_byte(self) -> None:
        """Note that bytes of the reply's body arrived."""
        return

    async def answer(self, reply: Reply, calls: tuple[HiddenCall, ...]) -> bytes | None:
        """Answer a round's hidden calls; return the body of the next round, or None to end the reply."""
        return None

    async def note_ended(self, head: ReplyHead, reply: Reply, last: Reply, calls: tuple[HiddenCall, ...]) -> None:
        """Record the complete reply after the ``last`` of several rounds, before its last bytes are sent."""
        return

    async def note_finished(self, head: ReplyHead, reply: Reply) -> None:
        """Record the complete reply, before its last bytes are sent."""
        return

    async def note_interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        """Record that the reply remains incomplete."""
        return


class Unrecorded(TurnLog):
    """The TurnLog of a request that is not a turn."""


async def safely(recording: Awaitable[None]) -> None:
    """Run a recording step; log its errors so that they never stop the turn."""
    try:
        await recording
    except Exception:
        log.exception("a turn could not be recorded")
