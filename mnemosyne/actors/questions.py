"""Questions that turns put to a helper model. Asking it is another process's work: here they wait to be taken.

A turn waits for so long and no longer; whether anybody listens is known sooner.
"""

from itertools import count

import attrs
import trio

from mnemosyne.actors.patience import Patience
from mnemosyne.domain.recall.composing import HelperQuestion
from mnemosyne.domain.session.decision_inputs import HelperAnswer


@attrs.define(eq=False)
class _Waiting:
    question: HelperQuestion
    taken: trio.Event = attrs.field(factory=trio.Event)
    answered: trio.Event = attrs.field(factory=trio.Event)
    answer: HelperAnswer | None = None


class HelperQuestions:
    """Those of one process, in the order in which they were put."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._some = trio.Event()

    async def ask(self, question: HelperQuestion, patience: Patience) -> HelperAnswer | None:
        """What a helper makes of a question; None where nobody was asked, or no answer comes in time."""
        number, waiting = next(self._numbers), _Waiting(question)
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

    async def wait_for_question(self) -> tuple[int, HelperQuestion]:
        """Wait for a question that nobody has taken, and take it: its number, and what is asked."""
        while True:
            for number, waiting in self._waiting.items():
                if not waiting.taken.is_set():
                    waiting.taken.set()
                    return number, waiting.question
            self._some = trio.Event()
            await self._some.wait()

    def answer(self, number: int, answer: HelperAnswer | None) -> bool:
        """Hand over what became of a question; whether its turn still waited, and will record what it cost."""
        waiting = self._waiting.get(number)
        if waiting is None:
            return False
        waiting.answer = answer
        waiting.answered.set()
        return True
