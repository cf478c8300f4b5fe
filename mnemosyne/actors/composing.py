"""Has a helper model answer questions from passages, and keeps the verified part of its answer."""

import logging
from typing import Protocol

import attrs
import trio

from mnemosyne.actors.helper_calls import HelperModels, ask_in_turn
from mnemosyne.domain.helper.answer import ANSWER, ComposedAnswer, HelperQuestion, LookAgain
from mnemosyne.domain.helper.model import ClientKey
from mnemosyne.domain.helper.task import Accepted, HelperTask, Rejected
from mnemosyne.domain.session.decision_inputs import NOTHING_FOUND
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.errors import LogFailed, MnemosyneError

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Number of concurrent questions."""


class WaitingQuestions(Protocol):
    """The questions that wait for a helper, in this process or another (``questions.HelperQuestions``)."""

    async def wait_for_question(self) -> tuple[int, HelperQuestion, ClientKey | None]:
        """Wait for a question and take it. Returns its number, the question, and the API key of its session's client if
        a helper model may use it.
        """
        ...

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        """Deliver the answer to a question; return whether its cost will be recorded."""
        ...


class Composer:
    """Sends questions to helper ``models``."""

    def __init__(self, models: HelperModels, task: HelperTask[HelperQuestion, ComposedAnswer] = ANSWER) -> None:
        self._models = models
        self._task = task
        self._budget = models.budget
        self._slots = trio.Semaphore(AT_ONCE)

    async def run(self, questions: WaitingQuestions) -> None:
        """Answer questions until cancelled. A failed question does not end the loop."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._slots.acquire()
                number, question, key = await questions.wait_for_question()
                nursery.start_soon(self._answer, questions, number, question, key)

    async def _answer(
        self, questions: WaitingQuestions, number: int, question: HelperQuestion, key: ClientKey | None
    ) -> None:
        try:
            answer = await self._compose_safely(question, key)
            recorded = False
            try:
                recorded = await questions.deliver_answer(number, answer)
            except MnemosyneError as error:
                log.info("the helper's answer could not be delivered: %s", error)
            finally:
                self.settle(answer, is_recorded=recorded)
        finally:
            self._slots.release()

    async def _compose_safely(self, question: HelperQuestion, key: ClientKey | None) -> HelperAnswer | None:
        try:
            return await self.compose(question, key)
        except Exception:
            log.exception("a question for the helper could not be answered")
            return None

    async def compose(self, question: HelperQuestion, key: ClientKey | None = None) -> HelperAnswer | None:
        """The verified part of the model's answer, or LookAgain; None if no model was asked, because there is none for
        the session, the budget is used up or the circuit breaker is open.

        The cost stays reserved in the budget until ``settle``.
        """
        each_calls = self._models.calls_for(key)
        if not each_calls:
            return None
        prompt = self._task.write(question)
        try:
            asked = await ask_in_turn(each_calls, self._task, question, prompt)
        except LogFailed as error:
            log.info("the helper is not asked, because past spending cannot be read: %s", error)
            return None
        if asked is None:
            return None
        helper, reply = asked
        found, why = ComposedAnswer(), NOTHING_FOUND
        match reply.verdict:
            case Accepted(result=result):
                found = result
            case Rejected(reasons=reasons):
                why = "; ".join(reasons)
        answer = HelperAnswer(
            helper=helper,
            sentences=found.sentences,
            dropped=found.dropped,
            why=None if found.sentences else why,
            version=self._task.version,
            prompt=prompt.digest,
            read=reply.read,
            written=reply.written,
            nanodollars=reply.nanodollars,
        )
        return LookAgain(**attrs.asdict(answer, recurse=False), look_for=found.look_for) if found.look_for else answer

    def settle(self, answer: HelperAnswer | None, *, is_recorded: bool) -> None:
        """Settle the cost of an answer: it is recorded now, or never will be."""
        if answer is not None:
            (self._budget.release if is_recorded else self._budget.charge)(answer.nanodollars)
