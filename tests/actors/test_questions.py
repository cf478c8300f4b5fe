"""A question waits for a helper for a limited time, and much shorter if no worker takes it."""

import trio
import trio.testing

from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.domain.helper.answer import ANSWER, HelperQuestion
from mnemosyne.domain.helper.task import BACKGROUND
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.session.input_events import HelperAnswer
from tests.actors.support import IDENTITY, PATIENT

STREAM = IDENTITY.stream

ONE, TWO = (HelperQuestion(question=each, passages=()) for each in ("one?", "two?"))


def answer_of(question: HelperQuestion) -> HelperAnswer:
    return HelperAnswer(helper=question.question)


async def test_questions_are_taken_once_in_order_and_get_their_answers() -> None:
    questions, found = HelperQuestions(), dict[str, HelperAnswer | None]()

    async def ask(question: HelperQuestion) -> None:
        found[question.question] = await questions.ask(question, STREAM, PATIENT)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, ONE)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, TWO)
        taken = [await questions.wait_for_question() for _ in range(2)]
        assert [question for _, question, _ in taken] == [ONE, TWO]
        assert all(questions.answer(number, answer_of(question)) for number, question, _ in reversed(taken))
    assert found == {"one?": answer_of(ONE), "two?": answer_of(TWO)}


async def test_untaken_question_times_out_soon(autojump_clock: trio.testing.MockClock) -> None:
    questions, began = HelperQuestions(), trio.current_time()
    assert await questions.ask(ONE, STREAM, USUAL) is None
    assert trio.current_time() - began == USUAL.listener
    with trio.move_on_after(1) as scope:
        await questions.wait_for_question()
    assert scope.cancelled_caught


async def test_late_answer_and_answer_without_a_question_are_dropped(autojump_clock: trio.testing.MockClock) -> None:
    questions, numbers = HelperQuestions(), list[int]()

    async def take() -> None:
        numbers.append((await questions.wait_for_question())[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        assert await questions.ask(ONE, STREAM, USUAL) is None
    for number in (numbers[0], 7):
        assert not questions.answer(number, answer_of(ONE))


def test_a_turn_waits_two_seconds_for_an_answer_and_for_no_other_helper_task() -> None:
    assert (ANSWER.limits.seconds, ANSWER.limits.pauses) == (2.0, ()), "a second attempt would be too late"
    assert USUAL.helper > ANSWER.limits.seconds
    assert {each.task.limits for each in BACKGROUND_TASKS.values()} == {BACKGROUND}
