"""A question waits for a helper for a limited time, and much shorter if no worker takes it."""

import attrs
import pytest
import trio
import trio.testing

from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.domain.helper.answer import ANSWER, HelperQuestion, LookAgain
from mnemosyne.domain.helper.task import BACKGROUND
from mnemosyne.domain.helper.tasks import BACKGROUND_TASKS
from mnemosyne.domain.session.decision_inputs import NOTHING_FOUND
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
    assert {each.limits for each in BACKGROUND_TASKS.values()} == {BACKGROUND}


WORDS = LookAgain(helper="h", why=NOTHING_FOUND, nanodollars=3, read=10, look_for="words")


@pytest.mark.parametrize(
    ("first", "finding", "second", "calls"),
    [
        pytest.param(1.0, 0.1, 1.0, 2, id="in time"),
        pytest.param(1.0, 0.1, 9.0, 2, id="the second is late"),
        pytest.param(2.0, 0.1, 1.0, 1, id="the first is slow"),
        pytest.param(1.0, 0.6, 1.0, 1, id="the search is slow"),
        pytest.param(9.0, 0.1, 1.0, 1, id="the first is late"),
    ],
)
async def test_two_calls_take_no_longer_than_one_may(
    first: float, finding: float, second: float, calls: int, autojump_clock: trio.testing.MockClock
) -> None:
    questions, began, taken = HelperQuestions(), trio.current_time(), list[HelperQuestion]()
    last = HelperAnswer(helper="h", why=NOTHING_FOUND, nanodollars=4, read=20)

    async def help_in_time() -> None:
        for seconds, answer in ((first, WORDS), (second, last)):
            number, question, _ = await questions.wait_for_question()
            taken.append(question)
            await trio.sleep(seconds)
            questions.answer(number, answer)

    async def find(again: HelperQuestion, found: HelperAnswer) -> HelperQuestion:
        assert (type(found), found.nanodollars) == (HelperAnswer, 3)
        assert again == attrs.evolve(ONE, look_for="words")
        await trio.sleep(finding)
        return attrs.evolve(TWO, look_for="words")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(help_in_time)
        answer = await questions.ask_up_to_twice(ONE, STREAM, USUAL, find)
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began <= USUAL.helper
    assert len(taken) == calls
    cost = None if first == 9.0 else 3 if calls == 1 or second == 9.0 else 7
    assert (None if answer is None else answer.nanodollars) == cost
    assert type(answer) in (type(None), HelperAnswer)  # the recorded answer has no words
