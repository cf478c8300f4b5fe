"""Mailboxes for tasks that own state: a caller posts a message over a bounded channel and waits for the answer.

Messages are handled one by one, in order.
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
    """A message and its future answer. Only the first answer counts."""

    message: Message
    _answered: trio.Event = attrs.field(factory=trio.Event)
    _answer: Answer | None = None
    _error: Exception | None = None

    def answer(self, value: Answer) -> None:
        """Set the answer. The caller may have stopped waiting."""
        if not self._answered.is_set():
            self._answer = value
            self._answered.set()

    def refuse(self, error: Exception) -> None:
        """Make the caller's ``wait`` raise ``error``."""
        if not self._answered.is_set():
            self._error = release_frames(error)
            self._answered.set()

    async def wait(self) -> Answer:
        await self._answered.wait()
        if self._error is not None:
            raise copy_error(self._error)
        return cast("Answer", self._answer)


class Mailbox(Generic[Message, Answer]):
    """A bounded message queue. Its owner takes the ``next`` message and answers it."""

    def __init__(self, size: int) -> None:
        self._send, self._receive = trio.open_memory_channel[Ask[Message, Answer]](size)
        self._current: Ask[Message, Answer] | None = None

    @property
    def waiting(self) -> int:
        """Number of waiting messages."""
        return self._receive.statistics().current_buffer_used

    def post(self, message: Message) -> Ask[Message, Answer]:
        """Post a message without waiting for room. Raises trio.WouldBlock if the mailbox is full, and ActorStopped."""
        asked = Ask[Message, Answer](message)
        try:
            self._send.send_nowait(asked)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ActorStopped("the session's actor has stopped.") from None
        return asked

    async def next(self) -> Ask[Message, Answer]:
        """Wait for the next message. The one before counts as handled."""
        self._current = None
        self._current = await self._receive.receive()
        return self._current

    async def next_before(self, other: Callable[[], Awaitable[object]]) -> Ask[Message, Answer] | None:
        """The next message; None if ``other`` ends first. The message before counts as handled."""
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
        """Accept no more messages, and refuse the unanswered ones."""
        if self._current is not None:
            self._current.refuse(error)
        while True:
            try:
                self._receive.receive_nowait().refuse(error)
            except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                break
        self._receive.close()
        self._send.close()
