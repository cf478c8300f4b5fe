"""How tasks that own state are talked to: ask and wait for the answer, over a bounded channel.

What is in the mailbox is handled one by one, in the order in which it came.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

import attrs
import trio

from mnemosyne.errors import ActorStopped, copy_error, release_frames

Message = TypeVar("Message")
Answer = TypeVar("Answer")


@attrs.define(eq=False)
class Ask(Generic[Message, Answer]):
    """A message and the place for its answer. The first answer counts; whatever is said later changes nothing."""

    message: Message
    _answered: trio.Event = attrs.field(factory=trio.Event)
    _answer: Answer | None = None
    _error: Exception | None = None

    def answer(self, value: Answer) -> None:
        """Give the answer. The asker may have left; then nobody reads it."""
        if not self._answered.is_set():
            self._answer = value
            self._answered.set()

    def refuse(self, error: Exception) -> None:
        """Let the asker's call raise ``error``."""
        if not self._answered.is_set():
            self._error = release_frames(error)
            self._answered.set()

    async def wait(self) -> Answer:
        """The answer, once it is there."""
        await self._answered.wait()
        if self._error is not None:
            raise copy_error(self._error)
        return cast("Answer", self._answer)


class Mailbox(Generic[Message, Answer]):
    """A bounded queue of questions. Whoever owns it takes the ``next`` one and answers it."""

    def __init__(self, size: int) -> None:
        self._send, self._receive = trio.open_memory_channel[Ask[Message, Answer]](size)
        self._current: Ask[Message, Answer] | None = None

    @property
    def waiting(self) -> int:
        """How many questions wait to be looked at."""
        return self._receive.statistics().current_buffer_used

    def post(self, message: Message) -> Ask[Message, Answer]:
        """Put a question without waiting for room. Raises trio.WouldBlock if the mailbox is full, ActorStopped."""
        asked = Ask[Message, Answer](message)
        try:
            self._send.send_nowait(asked)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ActorStopped("the session's actor has stopped.") from None
        return asked

    async def next(self) -> Ask[Message, Answer]:
        """Wait for the next question. Whoever took the one before is done with it."""
        self._current = None
        self._current = await self._receive.receive()
        return self._current

    async def next_before(self, other: Callable[[], Awaitable[object]]) -> Ask[Message, Answer] | None:
        """The next question, if there is one before ``other`` ends; whoever took the one before is done with it."""
        self._current = None

        async def end(scope: trio.CancelScope) -> None:
            await other()
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end, nursery.cancel_scope)
            self._current = await self._receive.receive()
            nursery.cancel_scope.cancel()
        return self._current

    def close(self, error: Exception) -> None:
        """Take no more questions, and refuse those that nobody answered."""
        if self._current is not None:
            self._current.refuse(error)
        while True:
            try:
                self._receive.receive_nowait().refuse(error)
            except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                break
        self._receive.close()
        self._send.close()
