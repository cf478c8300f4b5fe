"""The one reply that a client gets of a turn: its head, its bytes, and its end on record.

The client's request waits here for what the relay's task hands over. The relay outlives that request: when the client
leaves, the request's own tasks are cancelled at once, but what happened must still be recorded. It only ever calls
``abandon``.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

import attrs
import trio

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.wire.exchange import Headers, ReplyHead
from mnemosyne.domain.wire.reply import Reply, describe, json_object
from mnemosyne.errors import MnemosyneError, ReplyCut, copy_error
from mnemosyne.http.headers import for_client, without_framing
from mnemosyne.http.turn_log import TurnLog, safely

CHUNKS_IN_FLIGHT = 16
"""How many chunks may wait for a slow client before we stop reading from the provider."""


@attrs.define
class HiddenUsage:
    """What clients were not told of what they pay for: rounds that they do not see, and what the model was given in
    those.
    """

    rounds: int = 0
    tokens: int = 0


@attrs.define
class RelayProgress:
    """What a server must know of its relays when it wants to stop, and tell of them when it is asked."""

    untold: HiddenUsage = attrs.field(factory=HiddenUsage)
    running: int = 0
    delivered: int = 0
    """Chunks handed to clients so far."""
    waiting_for_client: int = 0
    """Relays that hold a chunk which their client does not take."""


def _nothing() -> Reply | None:
    """What has arrived of a reply that nobody watches."""
    return None


class ClientReply:
    """What the relay's task hands over, and the client's request takes."""

    def __init__(self, turn: TurnLog, progress: RelayProgress) -> None:
        self.turn = turn
        self.scope = trio.CancelScope()
        """Of the task that fetches the reply."""
        self._progress = progress
        self._head: ReplyHead | None = None
        self._failure: MnemosyneError | None = None
        self._head_known = trio.Event()
        self._to_client, self._from_relay = trio.open_memory_channel[bytes](CHUNKS_IN_FLIGHT)
        self._recorded = False
        self._so_far: Callable[[], Reply | None] = _nothing

    # The client's side

    async def head(self) -> ReplyHead:
        """Wait for status and headers. Raises CannotForward when the provider gave none, and ReplyCut when its reply
        broke off before its first word.
        """
        await self._head_known.wait()
        if self._head is None:
            raise copy_error(self._failure or ReplyCut("the relay ended before the reply began."))
        return self._head

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The reply's bytes. Raises ReplyCut where the provider's connection broke, so that the client's breaks too."""
        async for chunk in self._from_relay:
            waiting = [chunk, *self._rest_in_channel()]
            yield b"".join(waiting)
            self._progress.delivered += len(waiting)
        if self._failure is not None:
            raise copy_error(self._failure)

    def _rest_in_channel(self) -> Iterator[bytes]:
        """What waits already: one write for it instead of one for each chunk is half of a fast reply's cost."""
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                yield self._from_relay.receive_nowait()

    def abandon(self) -> None:
        """The client's request is over: stop fetching. Without effect on a relay that has finished."""
        self.scope.cancel()

    # The provider's side

    @property
    def has_begun(self) -> bool:
        """Whether the client has a head."""
        return self._head_known.is_set()

    @property
    def is_recorded(self) -> bool:
        """Whether the end of the turn is on record."""
        return self._recorded

    def begin(self, head: ReplyHead) -> None:
        """Let the client have the provider's head, for the provider's bytes."""
        self._begin(head, for_client(head.headers))

    def begin_rewritten(self, head: ReplyHead, length: int | None = None) -> None:
        """Let the client have a head for bytes that are not all the provider's; ``length`` is their number if known."""
        headers = for_client(without_framing(head.headers))
        framing = () if length is None else ((b"content-length", b"%d" % length),)
        self._begin(head, (*headers, *framing))

    def _begin(self, head: ReplyHead, headers: Headers) -> None:
        self._head = attrs.evolve(head, headers=headers)
        self._head_known.set()

    async def hand_over(self, raw: bytes) -> None:
        """Let the client have some bytes. Who hands over goes on at once while there is room: so all that came from the
        provider together leaves in one write, and nobody is woken for each frame of it.
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
        """The client's reply does not say what the model was given in these rounds."""
        self._progress.untold.rounds += len(rounds)
        self._progress.untold.tokens += sum(used.prompt for used in rounds)

    async def end_plainly(self, head: ReplyHead, error: bytes) -> None:
        """Nothing has left yet: answer with an error's own status and body."""
        await self.record(lambda: self.turn.note_finished(head, describe(json_object(error), error, complete=True)))
        self.begin_rewritten(head)
        await self.hand_over(error)

    def close(self, failure: MnemosyneError | None) -> None:
        """There will be no more; with a failure, the client's connection breaks."""
        self._failure = failure
        self._to_client.close()
        self._head_known.set()

    # Its end on record

    def watch(self, so_far: Callable[[], Reply | None]) -> None:
        """Have this reply recorded if it breaks off."""
        self._so_far = so_far

    async def record(self, end: Callable[[], Awaitable[None]]) -> None:
        """Record the end of the turn, once."""
        if not self._recorded:
            self._recorded = True
            self._so_far = _nothing  # whose reply was watched refers to this one: a circle would wait to be collected
            with trio.CancelScope(shield=True):
                await safely(end())

    async def record_unfinished(self, failure: MnemosyneError | None) -> None:
        """Record that there is no whole reply, unless an end is on record."""
        reply = self._so_far() if not self._recorded else None
        await self.record(lambda: self.turn.note_interrupted(self._head, reply, self._why(reply, failure)))

    def _why(self, reply: Reply | None, failure: MnemosyneError | None) -> str:
        if self.scope.cancelled_caught:
            return "the client left"
        if failure is not None:
            return str(failure)
        if reply is not None and reply.error_type is not None:
            return f"the provider ended the stream with an error: {reply.error_type}"
        return "the provider's stream ended before its last event"
