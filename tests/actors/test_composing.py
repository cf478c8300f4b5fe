"""Every question for a helper gets an answer, and its cost is settled."""

import json

import attrs
import pytest
import trio
import trio.testing

from mnemosyne.actors.composing import AT_ONCE, Composer
from mnemosyne.actors.helper_calls import FAILURES, HelperBudget, HelperModels
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.helper.answer import ANSWER, HelperPassage, HelperQuestion, LookAgain
from mnemosyne.domain.helper.model import HelperFailed, SameModels
from mnemosyne.domain.session.budget import DaySpending
from mnemosyne.domain.session.decision_inputs import NOTHING_FOUND
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.errors import LogUnavailable
from tests.actors.spending import EnoughTurns
from tests.actors.summaries import ENOUGH_MONEY
from tests.actors.test_helper_calls import COST, PRICE, Model
from tests.not_none import not_none
from tests.waiting import DEADLINE

PASSAGE = HelperPassage(object="abc2345", start=0, name="#abc2345 file_context, turn 2", text="max_connections = 20")
QUESTION = HelperQuestion(question="How many connections?", passages=(PASSAGE,))
SENTENCE = {"text": "There are 20 connections.", "passage": 1, "quote": "max_connections = 20"}
GOOD = json.dumps({"sentences": [SENTENCE, {**SENTENCE, "text": "There are 30 connections."}], "look_for": ""})


@attrs.define
class Asked:
    """Waiting questions and their answers."""

    waiting: int
    is_wanted: bool = True
    answers: list[HelperAnswer | None] = attrs.field(factory=list)
    done: trio.Event = attrs.field(factory=trio.Event)

    async def wait_for_question(self) -> tuple[int, HelperQuestion, None]:
        if not self.waiting:
            await trio.sleep_forever()
        self.waiting -= 1
        return self.waiting, QUESTION, None

    async def deliver_answer(self, number: int, answer: HelperAnswer | None) -> bool:
        self.answers.append(answer)
        if not self.waiting:
            self.done.set()
        return self.is_wanted


def composer(*texts: str | Exception | None) -> tuple[Composer, HelperBudget]:
    budget = HelperBudget(EnoughTurns(), ENOUGH_MONEY, lambda: 1)
    return Composer(HelperModels(SameModels((Model(list(texts)),)), budget)), budget


async def run(composing: Composer, asked: Asked) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(composing.run, asked)
        with trio.fail_after(DEADLINE):
            await asked.done.wait()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_answer_has_its_verified_sentences_dropped_count_and_cost() -> None:
    composing, budget = composer(GOOD)
    await run(composing, asked := Asked(1))
    (answer,) = asked.answers
    assert answer is not None
    assert [each.text for each in answer.sentences] == ["There are 20 connections."]
    assert (answer.helper, answer.dropped, answer.why, answer.nanodollars) == ("scripted", 1, None, COST)
    assert budget.reserved == 0


async def test_fallback_answers_when_the_first_model_is_unavailable() -> None:
    budget = HelperBudget(EnoughTurns(), ENOUGH_MONEY, lambda: 1)
    models = (Model([HelperFailed("it is away")]), Model([GOOD], name="second"))
    answer = await Composer(HelperModels(SameModels(models), budget)).compose(QUESTION)
    assert answer is not None
    assert (answer.helper, len(answer.sentences), answer.nanodollars) == ("second", 1, COST)


@pytest.mark.parametrize("texts", ['{"sentences": [], "look_for": ""}', "no JSON"])
async def test_answer_without_sentences_has_a_reason(texts: str) -> None:
    composing, _ = composer(texts)
    answer = not_none(await composing.compose(QUESTION))
    assert answer.why
    assert (answer.sentences, answer.nanodollars) == ((), COST)


async def test_undelivered_answer_is_charged_to_the_budget() -> None:
    composing, budget = composer(GOOD)
    await run(composing, Asked(1, is_wanted=False))
    assert budget.reserved == 0
    assert not await budget.reserve(ENOUGH_MONEY.a_day)


async def test_questions_fail_at_once_while_the_breaker_is_open() -> None:
    composing, _ = composer(*["no JSON"] * FAILURES)
    await run(composing, asked := Asked(FAILURES + AT_ONCE))
    assert asked.answers.count(None) == AT_ONCE


async def test_internal_error_gives_no_answer_and_the_next_question_works() -> None:
    composing, budget = composer(ZeroDivisionError("a bug"), GOOD)
    await run(composing, asked := Asked(1))
    assert budget.reserved == 0  # its possible cost counts as spent, and is no longer reserved
    await run(composing, again := Asked(1))
    assert asked.answers == [None]
    assert again.answers != [None]


async def test_helper_is_not_asked_when_spending_is_unknown() -> None:
    class Away:
        async def on_day(self, day: int) -> DaySpending:
            raise LogUnavailable("away")

    composing = Composer(HelperModels(SameModels((Model([GOOD]),)), HelperBudget(Away(), ENOUGH_MONEY, lambda: 1)))
    assert await composing.compose(QUESTION) is None


LOOK = json.dumps({"sentences": [], "look_for": "pool size"})


async def test_words_of_a_helper_come_with_what_it_used_and_the_cost_of_both_calls_is_added() -> None:
    composing, budget = composer(LOOK, GOOD)
    first = not_none(await composing.compose(QUESTION))
    assert isinstance(first, LookAgain)
    assert (first.look_for, first.why, first.nanodollars) == ("pool size", NOTHING_FOUND, COST)
    second = not_none(await composing.compose(attrs.evolve(QUESTION, look_for=first.look_for)))
    both = first.add_second(second)
    assert both.sentences == second.sentences != ()
    assert (both.why, both.prompt, both.nanodollars) == (None, second.prompt, 2 * COST)
    assert (both.read, both.written) == tuple(2 * not_none(each) for each in (second.read, second.written))
    composing.settle(both, is_recorded=True)
    assert budget.reserved == 0


async def test_second_call_without_room_in_the_budget_leaves_the_first_answer() -> None:
    prompt = ANSWER.write(QUESTION)
    estimate = PRICE.nanodollars(Tokens(input=(len(prompt.system) + len(prompt.user)) // 2, output=prompt.most_tokens))
    budget = HelperBudget(EnoughTurns(), attrs.evolve(ENOUGH_MONEY, a_day=estimate), lambda: 1)
    composing = Composer(HelperModels(SameModels((Model([LOOK, GOOD]),)), budget))
    first = not_none(await composing.compose(QUESTION))
    assert isinstance(first, LookAgain)
    second = await composing.compose(attrs.evolve(QUESTION, look_for=first.look_for))
    assert second is None
    assert (first.add_second(second).why, first.add_second(second).nanodollars) == (NOTHING_FOUND, COST)
