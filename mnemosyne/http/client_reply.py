"""The reply that a client gets for a turn: its head, its bytes and the record of its end.

The client's request task waits here for the relay task. The relay outlives the request: when the client disconnects,
the request's tasks are cancelled at once, but the turn must still be recorded. The request task only calls ``abandon``.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

import attrs
import trio

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.events import CLIENT_LEFT
from mnemosyne.domain.wire.exchange import Headers, ReplyHead
from mnemosyne.domain.wire.reply import Reply, describe, json_object
from mnemosyne.errors import MnemosyneError, ReplyCut, copy_error
from mnemosyne.http.headers import for_client, without_framing
from mnemosyne.http.turn_log import TurnLog, safely

CHUNKS_IN_FLIGHT = 16
"""Number of chunks that may wait for a slow client before the relay stops reading from the provider."""


@attrs.define
class HiddenUsage:
    """Paid usage that clients' replies do not report: hidden rounds and their input tokens."""

    rounds: int = 0
    tokens: int = 0


@attrs.define
class RelayProgress:
    """Counters of the running relays, for draining and for the status page."""

    untold: HiddenUsage = attrs.field(factory=HiddenUsage)
    running: int = 0
    delivered: int = 0
    """Chunks handed to clients so far."""
    waiting_for_client: int = 0
    """Relays blocked by a client that does not read."""
    passed_on: int = 0
    """Of the running ones, those that another process relays (``http.sharing``)."""


class ClientReply:
    """Passes the reply from the relay task to the client's request task."""

    def __init__(self, turn: TurnLog, progress: RelayProgress) -> None:
        self.turn = turn
        self.scope = trio.CancelScope()
        """Cancel scope of the relay task."""
        self._progress = progress
        self._head: ReplyHead | None = None
        self._failure: MnemosyneError | None = None
        self._head_known = trio.Event()
        self._to_client, self._from_relay = trio.open_memory_channel[bytes](CHUNKS_IN_FLIGHT)
        self._recorded = False
        self._so_far: Callable[[], Reply | None] = lambda: None

    # The client's side

    async def head(self) -> ReplyHead:
        """Wait for status and headers. Raises CannotForward if the provider sent none, and ReplyCut if its reply was
        cut off before the first byte.
        """
        await self._head_known.wait()
        if self._head is None:
            raise copy_error(self._failure or ReplyCut("the relay ended before the reply began."))
        return self._head

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Yield the reply's bytes. Raises ReplyCut if the provider's connection broke, to break the client's too."""
        async for chunk in self._from_relay:
            waiting = [chunk, *self._rest_in_channel()]
            yield b"".join(waiting)
            self._progress.delivered += len(waiting)
        if self._failure is not None:
            raise copy_error(self._failure)

    def _rest_in_channel(self) -> Iterator[bytes]:
        """Yield the chunks already waiting: a single write for all of them halves the cost of a fast reply."""
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                yield self._from_relay.receive_nowait()

    def abandon(self) -> None:
        """Stop fetching because the client's request is over. No effect on a finished relay."""
        self.scope.cancel()

    # The provider's side

    @property
    def has_begun(self) -> bool:
        """Whether the head has been passed to the client."""
        return self._head_known.is_set()

    @property
    def is_recorded(self) -> bool:
        """Whether the end of the turn is recorded."""
        return self._recorded

    def begin(self, head: ReplyHead) -> None:
        """Send the client the provider's head, for a reply with the provider's bytes."""
        self._begin(head, for_client(head.headers))

    def begin_rewritten(self, head: ReplyHead, length: int | None = None) -> None:
        """Send the client a head for a rewritten reply of ``length`` bytes, None if unknown."""
        headers = for_client(without_framing(head.headers))
        framing = () if length is None else ((b"content-length", b"%d" % length),)
        self._begin(head, (*headers, *framing))

    def _begin(self, head: ReplyHead, headers: Headers) -> None:
        self._head = attrs.evolve(head, headers=headers)
        self._head_known.set()

    async def hand_over(self, raw: bytes) -> None:
        """Send the client some bytes. Returns without yielding while there is room, so that chunks that arrive together
        are sent in one write and do not wake the client's task for each frame.
        """
        if not raw:
            return
        try:
            self._to_client.send_nowait(raw)
        except trio.WouldBlock:
            await self._wait_for_room(raw)
        except trio.BrokenResourceError:
            self.abandon()

    async def _wait_for_room(self, raw: bytes) -> None:
        self._progress.waiting_for_client += 1
        try:
            await self._to_client.send(raw)
        except trio.BrokenResourceError:
            self.abandon()
        finally:
            self._progress.waiting_for_client -= 1

    def record_hidden_usage(self, rounds: Sequence[Tokens]) -> None:
        """Count rounds whose input the client's reply does not report."""
        self._progress.untold.rounds += len(rounds)
        self._progress.untold.tokens += sum(used.prompt for used in rounds)

    async def end_plainly(self, head: ReplyHead, error: bytes) -> None:
        """Reply with an error's status and body; only before anything was sent."""
        await self.record(lambda: self.turn.note_finished(head, describe(json_object(error), error, complete=True)))
        self.begin_rewritten(head)
        await self.hand_over(error)

    def close(self, failure: MnemosyneError | None) -> None:
        """End the reply; a failure breaks the client's connection."""
        self._failure = failure
        self._to_client.close()
        self._head_known.set()

    # Recording the end

    def watch(self, so_far: Callable[[], Reply | None]) -> None:
        """Set the function that returns the partial reply to record if the reply is cut off."""
        self._so_far = so_far

    async def record(self, end: Callable[[], Awaitable[None]]) -> None:
        """Record the end of the turn, once."""
        if not self._recorded:
            self._recorded = True
            self._so_far = lambda: None  # breaks a reference cycle, which would delay garbage collection
            with trio.CancelScope(shield=True):
                await safely(end())

    async def retry(self, turn: TurnLog, head: ReplyHead, refusal: Reply) -> None:
        """Continue with another attempt at the turn, and record that the provider refused the last one."""
        refused, self.turn = self.turn, turn
        with trio.CancelScope(shield=True):
            await safely(refused.note_finished(head, refusal))

    async def record_unfinished(self, failure: MnemosyneError | None) -> None:
        """Record that the reply is incomplete, unless its end is recorded already."""
        reply = self._so_far() if not self._recorded else None
        await self.record(lambda: self.turn.note_interrupted(self._head, reply, self._why(reply, failure)))

    def _why(self, reply: Reply | None, failure: MnemosyneError | None) -> str:
        if self.scope.cancelled_caught:
            return CLIENT_LEFT
        if failure is not None:
            return str(failure)
        if reply is not None and reply.error_type is not None:
            return f"the provider ended the stream with an error: {reply.error_type}"
        return "the provider's stream ended before its last event"
