"""Has a helper model answer questions from passages, and keeps the verified part of its answer."""

import logging
from typing import Protocol

import trio

from mnemosyne.actors.helper_calls import HelperCalls
from mnemosyne.domain.helper.task import Accepted, HelperTask, Rejected
from mnemosyne.domain.recall.composing import ANSWER, ComposedAnswer, HelperQuestion
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.errors import LogFailed, MnemosyneError

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Number of concurrent questions."""


class WaitingQuestions(Protocol):
    """The questions that wait for a helper, in this process or another (``questions.HelperQuestions``)."""

    async def wait_for_question(self) -> tuple[int, HelperQuestion]:
        """Wait for a question and take it. Returns its number and the question."""
        ...

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        """Deliver the answer to a question; return whether its cost will be recorded."""
        ...


class Composer:
    """Sends questions to a helper model."""

    def __init__(self, calls: HelperCalls, task: HelperTask[HelperQuestion, ComposedAnswer] = ANSWER) -> None:
        self._calls = calls
        self._task = task
        self._budget = calls.budget
        self._slots = trio.Semaphore(AT_ONCE)

    async def run(self, questions: WaitingQuestions) -> None:
        """Answer questions until cancelled. A failed question does not end the loop."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._slots.acquire()
                number, question = await questions.wait_for_question()
                nursery.start_soon(self._answer, questions, number, question)

    async def _answer(self, questions: WaitingQuestions, number: int, question: HelperQuestion) -> None:
        try:
            answer = await self._compose_safely(question)
            recorded = False
            try:
                recorded = await questions.deliver_answer(number, answer)
            except MnemosyneError as error:
                log.info("the helper's answer could not be delivered: %s", error)
            finally:
                self.settle(answer, is_recorded=recorded)
        finally:
            self._slots.release()

    async def _compose_safely(self, question: HelperQuestion) -> HelperAnswer | None:
        try:
            return await self.compose(question)
        except Exception:
            log.exception("a question for the helper could not be answered")
            return None

    async def compose(self, question: HelperQuestion) -> HelperAnswer | None:
        """The verified part of the model's answer; None if the model was not asked, because the budget is used up or
        the circuit breaker is open.

        The cost stays reserved in the budget until ``settle``.
        """
        prompt = self._task.write(question)
        try:
            reply = await self._calls.ask(self._task, question, prompt)
        except LogFailed as error:
            log.info("the helper is not asked, because past spending cannot be read: %s", error)
            return None
        if reply is None:
            return None
        found, why = ComposedAnswer(), "it finds no answer in what it was given"
        match reply.verdict:
            case Accepted(result=result):
                found = result
            case Rejected(reasons=reasons):
                why = "; ".join(reasons)
        return HelperAnswer(
            helper=self._calls.name,
            sentences=found.sentences,
            dropped=found.dropped,
            why=None if found.sentences else why,
            version=self._task.version,
            prompt=prompt.digest,
            read=reply.read,
            written=reply.written,
            nanodollars=reply.nanodollars,
        )

    def settle(self, answer: HelperAnswer | None, *, is_recorded: bool) -> None:
        """Settle the cost of an answer: it is recorded now, or never will be."""
        if answer is not None:
            (self._budget.release if is_recorded else self._budget.charge)(answer.nanodollars)
