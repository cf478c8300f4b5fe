"""A helper model is called while it is useful, and its possible cost always counts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing

from mnemosyne.actors.helper_calls import FAILURES, FIRST_REST, Breaker, HelperBudget, HelperCalls, HelperReply
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.session.budget import Budget
from mnemosyne.domain.summaries.helper_model import Completion, HelperFailed, HelperPrompt
from tests.actors.spending import EnoughTurns
from tests.actors.summaries import ENOUGH_MONEY
from tests.adapters.helpers.asking import PROMPT

PRICE = Price(10, 100, read=10)
USED = Tokens(input=7, output=3)
COST, MOST = PRICE.nanodollars(USED), PRICE.nanodollars(Tokens(input=14, output=PROMPT.most_tokens))


@attrs.define
class Model:
    """A model that gives the scripted answers in order."""

    said: list[str | Exception | None]
    name: str = "scripted"
    price: Price = PRICE
    prompts: list[HelperPrompt] = attrs.field(factory=list)

    async def complete(self, prompt: HelperPrompt) -> Completion:
        self.prompts.append(prompt)
        said = self.said.pop(0)
        if said is None:
            await trio.sleep_forever()
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, str)
        return Completion(said, USED)

    async def check(self) -> None:
        raise AssertionError


@asynccontextmanager
async def calls(
    *said: str | HelperFailed | None, limits: Budget = ENOUGH_MONEY
) -> AsyncIterator[tuple[HelperCalls, HelperBudget]]:
    budget = HelperBudget(EnoughTurns(), limits, lambda: 1)
    yield HelperCalls(Model(list(said)), budget, seconds=2.0, pauses=(1.0,)), budget


def number(said: str) -> int | None:
    return int(said) if said.isdigit() else None


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ("12", HelperReply(12, COST)),
        ("you owe me", HelperReply(None, COST, "its answer cannot be used")),
        (None, HelperReply(None, MOST, "no answer within 2 s")),
    ],
    ids=["parsed", "unusable", "late"],
)
async def test_reply_has_its_cost_which_stays_reserved(
    answer: str | None, reply: HelperReply[int], autojump_clock: trio.testing.MockClock
) -> None:
    async with calls(answer) as (helper, budget):
        assert await helper.ask(PROMPT, number) == reply
    assert budget.reserved == reply.nanodollars


@pytest.mark.parametrize(
    ("failure", "spent"),
    [(HelperFailed("away", again=True), COST), (HelperFailed("cut", again=True, billed=True), MOST + COST)],
)
async def test_failed_attempt_is_retried_and_counts_if_possibly_billed(
    failure: HelperFailed, spent: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with calls(failure, "3") as (helper, budget):
        assert await helper.ask(PROMPT, number) == HelperReply(3, spent)
    assert budget.reserved == spent


async def test_without_budget_the_model_is_not_called_and_nothing_is_reserved() -> None:
    async with calls("3", limits=Budget(1, 1.0)) as (helper, budget):
        assert await helper.ask(PROMPT, number) == HelperReply()
    assert budget.reserved == 0


async def test_cost_counts_when_parsing_the_answer_fails() -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError

    async with calls("3") as (helper, budget):
        with pytest.raises(ZeroDivisionError):
            await helper.ask(PROMPT, fail)
        assert budget.reserved == 0
        assert not await budget.reserve(ENOUGH_MONEY.a_day)


async def test_failing_helper_is_paused(autojump_clock: trio.testing.MockClock) -> None:
    async with calls(*["x"] * FAILURES, "3") as (helper, _):
        for _ in range(FAILURES):
            assert (await helper.ask(PROMPT, number)).found is None
        assert await helper.ask(PROMPT, number) == HelperReply()
        await trio.sleep(FIRST_REST)
        assert (await helper.ask(PROMPT, number)).found == 3


async def test_breaker_closes_and_its_next_pause_is_longer(autojump_clock: trio.testing.MockClock) -> None:
    async def is_resting_after(seconds: float) -> bool:
        await trio.sleep(seconds)
        return breaker.resting

    breaker = Breaker()
    assert [breaker.note_failure() for _ in range(FAILURES)] == [False] * (FAILURES - 1) + [True]
    assert await is_resting_after(FIRST_REST - 1)
    assert not await is_resting_after(1)
    assert breaker.note_failure()
    assert await is_resting_after(2 * FIRST_REST - 1)
    breaker.note_success()
    assert not await is_resting_after(1)
    assert not breaker.note_failure()
