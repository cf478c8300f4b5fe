"""One client reply: the task that fetches it, and the thread by which the client's request hangs on it.

The relay runs in the application's nursery and outlives the client's request: when the client leaves, the request's own
tasks are cancelled at once, but what happened must still be recorded. The request only ever calls ``abandon``.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Protocol

import attrs
import trio

from mnemosyne.domain.wire.exchange import ReplyHead, Upstream, UpstreamReply, UpstreamRequest
from mnemosyne.domain.wire.reply import Reply
from mnemosyne.errors import CannotForward, MnemosyneError, ReplyCut
from mnemosyne.http.headers import for_client
from mnemosyne.http.reading import Reading, reading_of
from mnemosyne.http.stream_rewriter import EndOfReply, Output, ToClient

log = logging.getLogger(__name__)

CHUNKS_IN_FLIGHT = 16
"""How many chunks may wait for a slow client before we stop reading from the provider."""


class TurnLog(Protocol):
    """Where a turn is recorded. A wait ends when the record is durable, or when waiting longer would be wrong."""

    def sent(self) -> None:
        """The request has left for the provider: recording may begin. Said again if it had to be sent again,
        and never if it did not leave."""

    async def begun(self) -> None:
        """The reply begins; nothing of it has reached the client yet."""

    async def finished(self, head: ReplyHead, reply: Reply) -> None:
        """The reply is whole; its last bytes have not left yet."""

    async def interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None:
        """There is no whole reply, and there will be none."""


class Unrecorded:
    """The log of what is not a turn."""

    def sent(self) -> None: ...

    async def begun(self) -> None: ...

    async def finished(self, head: ReplyHead, reply: Reply) -> None: ...

    async def interrupted(self, head: ReplyHead | None, reply: Reply | None, reason: str) -> None: ...


@attrs.define
class Progress:
    """What a server that wants to stop must know of its relays."""

    running: int = 0
    delivered: int = 0
    """Chunks handed to clients so far."""
    waiting_for_client: int = 0
    """Relays that hold a chunk which their client does not take."""


class Relay:
    """Fetches one reply in ``run`` and hands it to the client through ``head`` and ``body``."""

    def __init__(self, upstream: Upstream, request: UpstreamRequest, turn: TurnLog, progress: Progress) -> None:
        self._upstream = upstream
        self._request = request
        self._turn = turn
        self._progress = progress
        self._scope = trio.CancelScope()
        self._head: ReplyHead | None = None
        self._failure: MnemosyneError | None = None
        self._head_known = trio.Event()
        self._to_client, self._from_relay = trio.open_memory_channel[bytes](CHUNKS_IN_FLIGHT)

    # The client's side

    async def head(self) -> ReplyHead:
        """Wait for status and headers. Raises CannotForward when the provider gave none."""
        await self._head_known.wait()
        if self._head is None:
            raise self._failure or ReplyCut("the relay ended before the reply began.")
        return self._head

    async def body(self) -> AsyncIterator[bytes]:
        """The reply's bytes. Raises ReplyCut where the provider's connection broke, so that the client's breaks too."""
        async for chunk in self._from_relay:
            waiting = [chunk, *self._rest_in_channel()]
            yield b"".join(waiting)
            self._progress.delivered += len(waiting)
        if self._failure is not None:
            raise self._failure

    def _rest_in_channel(self) -> Iterator[bytes]:
        """What waits already: one write for it instead of one for each chunk is half of a fast reply's cost."""
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                yield self._from_relay.receive_nowait()

    def abandon(self) -> None:
        """The client's request is over: stop fetching. Without effect on a relay that has finished."""
        self._scope.cancel()

    # The provider's side

    async def run(self) -> None:
        """Fetch the reply and record how it went. Never raises: a failure is the client's to see, in its own shape."""
        self._progress.running += 1
        ending = Ending()
        try:
            with self._scope:
                await self._fetch(ending)
        except CannotForward as error:
            self._failure = error
        except ReplyCut as error:
            self._failure = error
            log.warning("%s", error)
        except Exception:
            self._failure = ReplyCut("the relay failed; see the server's log.")
            log.exception("a relay failed")
        finally:
            with trio.CancelScope(shield=True):
                await self._record_unfinished(ending)
            self._to_client.close()
            self._head_known.set()
            self._progress.running -= 1

    async def _fetch(self, ending: "Ending") -> None:
        async with self._upstream.exchange(self._request, self._turn.sent) as exchange:
            await safely(self._turn.begun())
            reading = reading_of(exchange.head)
            ending.reply_so_far = reading.reply.result
            self._head = attrs.evolve(exchange.head, headers=for_client(exchange.head.headers))
            self._head_known.set()
            async for output in _outputs(exchange, reading):
                if isinstance(output, EndOfReply) and not ending.recorded:
                    ending.recorded = True
                    with trio.CancelScope(shield=True):
                        await safely(self._turn.finished(exchange.head, reading.reply.result()))
                await self._hand_over(output.raw)

    async def _hand_over(self, raw: bytes) -> None:
        self._progress.waiting_for_client += 1
        try:
            if raw:
                await self._to_client.send(raw)
        except trio.BrokenResourceError:
            self.abandon()
        finally:
            self._progress.waiting_for_client -= 1

    async def _record_unfinished(self, ending: "Ending") -> None:
        if ending.recorded:
            return
        reply = ending.reply_so_far()
        await safely(self._turn.interrupted(self._head, reply, self._why(reply)))

    def _why(self, reply: Reply | None) -> str:
        if self._scope.cancelled_caught:
            return "the client left"
        if self._failure is not None:
            return str(self._failure)
        if reply is not None and reply.error_type is not None:
            return f"the provider ended the stream with an error: {reply.error_type}"
        return "the provider's stream ended without message_stop"


@attrs.define
class Ending:
    """How far a relay came."""

    reply_so_far: Callable[[], Reply | None] = lambda: None
    recorded: bool = False


async def safely(recording: Awaitable[None]) -> None:
    """A turn goes on whatever its log does."""
    try:
        await recording
    except Exception:
        log.exception("a turn could not be recorded")


async def _outputs(exchange: UpstreamReply, reading: Reading) -> AsyncIterator[Output]:
    cut: ReplyCut | None = None
    try:
        async for chunk in exchange.chunks():
            for output in reading.feed(chunk):
                yield output
    except ReplyCut as error:
        cut = error
    for output in reading.close():
        # A reply cut short never ended: what was held of it leaves as ordinary bytes, and then the connection breaks.
        yield ToClient(output.raw) if cut else output
    if cut is not None:
        raise cut
