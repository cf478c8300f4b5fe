"""Questions of turns to a helper model. Another process asks the model; the questions wait here until it takes them.

A turn waits for a limited time, and for a shorter one until a worker takes its question.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.patience import Patience
from mnemosyne.domain.helper.answer import HelperQuestion, LookAgain
from mnemosyne.domain.session.input_events import HelperAnswer


@attrs.define(eq=False)
class _Waiting:
    question: HelperQuestion
    stream: UUID
    taken: trio.Event = attrs.field(factory=trio.Event)
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: HelperAnswer | None = None


class HelperQuestions:
    """The questions of one process, in order of arrival."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._some = trio.Event()

    async def ask_up_to_twice(
        self,
        question: HelperQuestion,
        stream: UUID,
        patience: Patience,
        find: Callable[[HelperQuestion, HelperAnswer], Awaitable[HelperQuestion | None]],
    ) -> HelperAnswer | None:
        """As ``ask``; if the helper asks for other passages, its answer to the question with those that ``find``
        returns for its words, given the answer without a second one. Both take no longer than one may. The second call
        may take as long as the first, and a late one is paid for, too, so it is not made in the second half of the
        time.
        """
        deadline = trio.current_time() + patience.helper
        answer = await self.ask(question, stream, patience)
        if not isinstance(answer, LookAgain):
            return answer
        other, second = None, None
        with trio.move_on_at(deadline - patience.helper / 2):
            other = await find(attrs.evolve(question, look_for=answer.look_for), answer.add_second(None))
        if other is not None:
            second = await self.ask(other, stream, attrs.evolve(patience, helper=deadline - trio.current_time()))
        return answer.add_second(second)

    async def ask(self, question: HelperQuestion, stream: UUID, patience: Patience) -> HelperAnswer | None:
        """A helper's answer to a question of a session; None if no worker takes it or the answer is late."""
        number, waiting = next(self._numbers), _Waiting(question, stream)
        self._waiting[number] = waiting
        self._some.set()
        try:
            with trio.move_on_after(patience.listener):
                await waiting.taken.wait()
            if waiting.taken.is_set():
                with trio.move_on_after(patience.helper):
                    await waiting.answered.wait()
        finally:
            del self._waiting[number]
        return waiting.answer

    async def wait_for_question(self) -> tuple[int, HelperQuestion, UUID]:
        """Wait for a new question and take it. Returns its number, the question and its session."""
        while True:
            for number, waiting in self._waiting.items():
                if not waiting.taken.is_set():
                    waiting.taken.set()
                    return number, waiting.question, waiting.stream
            self._some = trio.Event()
            await self._some.wait()

    def answer(self, number: int, answer: HelperAnswer | None) -> bool:
        """Deliver the answer to a question; return whether its turn still waits and will record the cost."""
        waiting = self._waiting.get(number)
        if waiting is None:
            return False
        waiting.answer = answer
        waiting.answered.set()
        return True
