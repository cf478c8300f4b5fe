"""A helper model is called while it is useful, and its possible cost always counts."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from mnemosyne.actors.helper_calls import (
    FAILURES,
    FIRST_REST,
    LONGEST_PAUSE,
    Breaker,
    HelperBudget,
    HelperCalls,
    HelperReply,
)
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.helper.model import Completion, HelperFailed, HelperPrompt
from mnemosyne.domain.helper.task import UNREADABLE, Accepted, HelperTask, Limits, Rejected
from mnemosyne.domain.session.budget import Budget
from tests.actors.spending import EnoughTurns
from tests.actors.summaries import ENOUGH_MONEY
from tests.adapters.helpers.asking import PROMPT

PRICE = Price(10, 100, read=10)
USED = Tokens(input=7, output=3)
COST, MOST = PRICE.nanodollars(USED), PRICE.nanodollars(Tokens(input=14, output=PROMPT.most_tokens))


@attrs.define(eq=False)
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
    answers: list[str | Exception | None] = [
        json.dumps({"n": int(each)}) if isinstance(each, str) and each.isdigit() else each for each in said
    ]
    yield HelperCalls(Model(answers), budget), budget


def _verify(_: None, answer: Mapping[str, Any]) -> Accepted[int] | Rejected:
    return Accepted(answer["n"], answer)


COUNT = HelperTask(
    name="count",
    version=1,
    properties={"n": {}},
    prompt=lambda _: PROMPT,
    verify=_verify,
    limits=Limits(seconds=2.0, pauses=(1.0,)),
)


async def ask(helper: HelperCalls, record: str | None = None) -> HelperReply[int] | None:
    return await helper.ask(COUNT, None, PROMPT, record)


def counted(number: int, cost: int) -> HelperReply[int]:
    return HelperReply(verdict=Accepted(number, {"n": number}), nanodollars=cost, read=7, written=3)


def refused(reason: str, cost: int, read: int | None = None, written: int | None = None) -> HelperReply[int]:
    return HelperReply(verdict=Rejected((reason,)), nanodollars=cost, read=read, written=written)


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ("12", counted(12, COST)),
        ("you owe me", refused(UNREADABLE, COST, read=7, written=3)),
        (None, refused("no answer within 2 s", MOST)),
    ],
    ids=["parsed", "unusable", "late"],
)
async def test_reply_has_its_cost_which_stays_reserved(
    answer: str | None, reply: HelperReply[int], autojump_clock: trio.testing.MockClock
) -> None:
    async with calls(answer) as (helper, budget):
        assert await ask(helper) == reply
    assert budget.reserved == reply.nanodollars


@pytest.mark.parametrize(
    ("failure", "spent"),
    [(HelperFailed("away", again=True), COST), (HelperFailed("cut", again=True, billed=True), MOST + COST)],
)
async def test_failed_attempt_is_retried_and_counts_if_possibly_billed(
    failure: HelperFailed, spent: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with calls(failure, "3") as (helper, budget):
        assert await ask(helper) == counted(3, spent)
    assert budget.reserved == spent


@pytest.mark.parametrize(("pause", "seconds"), [(0.0, 1.0), (7.0, 7.0), (LONGEST_PAUSE + 1, None)])
async def test_busy_endpoint_is_asked_again_after_the_pause_that_it_names_unless_that_is_long(
    pause: float, seconds: float | None, autojump_clock: trio.testing.MockClock
) -> None:
    busy, began = HelperFailed("busy", again=True, status=429, pause=pause), trio.current_time()
    async with calls(busy, "3") as (helper, _):
        assert await ask(helper) == (refused("busy", 0) if seconds is None else counted(3, COST))
    assert trio.current_time() - began == (seconds or 0.0)


async def test_without_budget_the_model_is_not_called_and_nothing_is_reserved() -> None:
    async with calls("3", limits=Budget(1, 1.0)) as (helper, budget):
        assert await ask(helper) is None
    assert budget.reserved == 0


async def test_accepted_record_is_used_without_asking_the_model() -> None:
    async with calls("3") as (helper, budget):
        found = await ask(helper, '{"n": 5}')
        assert found == HelperReply(verdict=Accepted(5, {"n": 5}), cached=True)
        assert await ask(helper, "a record of another version") == counted(3, COST)
    assert budget.reserved == COST


async def test_cost_counts_when_verifying_the_answer_fails() -> None:
    def fail(_: None, answer: Mapping[str, Any]) -> Rejected:
        raise ZeroDivisionError

    async with calls("3") as (helper, budget):
        with pytest.raises(ZeroDivisionError):
            await helper.ask(attrs.evolve(COUNT, verify=fail), None, PROMPT)
        assert budget.reserved == 0
        assert not await budget.reserve(ENOUGH_MONEY.a_day)


async def test_failing_helper_is_paused(autojump_clock: trio.testing.MockClock) -> None:
    async with calls(*["x"] * FAILURES, "3") as (helper, _):
        for _ in range(FAILURES):
            assert await ask(helper) == refused(UNREADABLE, COST, read=7, written=3)
        assert await ask(helper) is None
        await trio.sleep(FIRST_REST)
        assert await ask(helper) == counted(3, COST)


async def test_refused_images_do_not_open_the_breaker() -> None:
    failures = [HelperFailed("it does not accept images", by_images=True)] * FAILURES
    async with calls(*failures, "3") as (helper, _):
        for _ in failures:
            assert await ask(helper) == refused("it does not accept images", 0)
        assert await ask(helper) == counted(3, COST)


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
