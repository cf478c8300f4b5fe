"""How tasks that own state are talked to: ask and wait for the answer, over a bounded channel.

What is in the mailbox is handled one by one, in the order in which it came.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import attrs
import trio

from mnemosyne.errors import ActorStopped

Message = TypeVar("Message")
Answer = TypeVar("Answer")

Ending = Callable[[Callable[[], None]], None]
"""Has what it is given called once something ends; at once where that has ended. It calls from the same thread."""


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
            self._error = error
            self._answered.set()

    async def wait(self) -> Answer:
        """The answer, once it is there."""
        await self._answered.wait()
        if self._error is not None:
            # A new one for each asker: a shared exception would gather everyone's tracebacks.
            raise type(self._error)(*self._error.args)
        return cast("Answer", self._answer)


class Mailbox(Generic[Message, Answer]):
    """A bounded queue of questions. Whoever owns it, one task, takes the ``next`` one and answers it.

    That task sleeps on one bell, whatever it waits for: a nursery and a task for each wait would cost more than most
    answers do.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[Ask[Message, Answer]] = deque()
        self._current: Ask[Message, Answer] | None = None
        self._bell = trio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many questions wait to be looked at."""
        return len(self._waiting)

    def post(self, message: Message) -> Ask[Message, Answer]:
        """Put a question without waiting for room. Raises trio.WouldBlock if the mailbox is full, ActorStopped."""
        if self._closed:
            raise ActorStopped("the session's actor has stopped.")
        if len(self._waiting) >= self._size:
            raise trio.WouldBlock
        asked = Ask[Message, Answer](message)
        self._waiting.append(asked)
        self._bell.set()
        return asked

    async def next(self) -> Ask[Message, Answer]:
        """Wait for the next question. Whoever took the one before is done with it."""
        asked = await self._listen(lambda: False)
        assert asked is not None, "nothing but a question ends this wait"
        return asked

    async def next_before(self, other: Ending) -> Ask[Message, Answer] | None:
        """The next question, if there is one before ``other`` ends; whoever took the one before is done with it."""
        ended = False

        def end() -> None:
            nonlocal ended
            ended = True
            self._bell.set()

        other(end)
        return await self._listen(lambda: ended)

    async def _listen(self, is_over: Callable[[], bool]) -> Ask[Message, Answer] | None:
        self._current = None
        if self._waiting or is_over():
            await trio.lowlevel.checkpoint()
        while not (self._waiting or is_over()):
            self._bell = trio.Event()
            await self._bell.wait()
        if self._waiting:
            self._current = self._waiting.popleft()
        return self._current

    def close(self, error: Exception) -> None:
        """Take no more questions, and refuse those that nobody answered."""
        self._closed = True
        if self._current is not None:
            self._current.refuse(error)
        while self._waiting:
            self._waiting.popleft().refuse(error)
