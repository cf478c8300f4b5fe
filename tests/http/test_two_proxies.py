"""Two proxies that share a log, and one managed session whose requests go to either."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from mnemosyne.actors.rounds import ManagedRounds, Planned
from mnemosyne.domain.session.events import GapRecorded, TurnBegan, TurnFinished
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import STREAM, StoppableLog
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_prefixes,
    look,
    model_says,
    open_stage,
    results,
    text,
    think,
)
from tests.http.test_managed import LOOP


@asynccontextmanager
async def two_stages(*rules: Json) -> AsyncIterator[tuple[Stage, Stage]]:
    async with open_standin({"rules": list(rules)}) as standin:
        log = StoppableLog()
        clocks = (itertools.count(start, 2) for start in (1, 2))  # so that simultaneous replies differ
        async with (
            open_stage(standin=standin, log=log, clock=next(clocks)) as one,
            open_stage(standin=standin, log=log, clock=next(clocks)) as two,
        ):
            yield one, two


async def test_conversation_that_alternates_between_proxies_is_one_history() -> None:
    async with two_stages(LOOP) as (one, two):
        client = one.client()
        number = 0
        for prompt in ("Where is it?", "And the other?"):
            message = await client.turn(text(prompt))
            while message["stop_reason"] == "tool_use":
                number += 1
                client.url = (one, two)[number % 2].url
                message = await client.turn(*results(message))
            assert message["content"][-1] == text("It is there.")
        assert_prefixes(one.upstream)
        await check_record([one, two], turns=6)


async def test_agent_managed_by_one_proxy_continues_at_another_that_did_not_know_it() -> None:
    thinks = {"replies": [model_says(think("Well."), look()), model_says(text("It is there."))]}
    async with two_stages(thinks) as (one, two):
        await one.client(headers={"x-claude-code-agent-id": "a"}).work("Look it up.")
        client = two.client()
        message = await client.turn(text("Where is it?"))
        client.url = one.url
        message = await client.turn(*results(message))
        assert message["content"][-1] == text("It is there.")
        first, second = one.upstream[-2:]
        assert_prefixes([first, second])
        await check_record([one, two], turns=4)


@pytest.mark.release
async def test_agents_whose_first_requests_are_prepared_at_once_are_all_managed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided = ManagedRounds.plan

    async def slowly(*given: Any) -> Planned:
        for _ in range(50):  # the other process writes in the meantime
            await trio.lowlevel.checkpoint()
        return await decided(*given)

    monkeypatch.setattr(ManagedRounds, "plan", slowly)
    async with two_stages(LOOP) as (one, two):
        agents = [
            stage.client(headers={"x-claude-code-agent-id": name})
            for name, stage in (("", one), ("a", two), ("b", one), ("c", two))
        ]
        async with trio.open_nursery() as nursery:
            for each in agents:
                nursery.start_soon(each.work, "Where is it?")
        for each in agents:
            assert each.history[-1]["content"][-1] == text("It is there.")
        await check_record([one, two], turns=4 * 3)
        for each in agents:  # and once more through the other one
            each.url = (one if each.url == two.url else two).url
            await each.work("And now?")
        await check_record([one, two], turns=4 * 6)


@pytest.mark.release
async def test_request_sent_through_both_at_once_is_two_attempts_at_one_turn() -> None:
    async with two_stages(LOOP) as (one, two):
        clients = [stage.client() for stage in (one, two)]
        for prompt in ("Where is it?", "And the other?"):
            for each in clients:
                each.history.append({"role": "user", "content": [text(prompt)]})
            message: Json = {"stop_reason": "tool_use"}
            while message["stop_reason"] == "tool_use":
                got: list[Json] = []
                async with trio.open_nursery() as nursery:
                    for each in clients:
                        nursery.start_soon(sent_by, each, got)
                message = got[-1]  # the client continues with one of them
                for each in clients:
                    each.history.append({"role": "assistant", "content": message["content"]})
                    if message["stop_reason"] == "tool_use":
                        each.history.append({"role": "user", "content": results(message)})
            assert message["content"][-1] == text("It is there.")
        await check_record([one, two], turns=12)


async def sent_by(client: Client, got: list[Json]) -> None:
    got.append(await client.send())


async def check_record(stages: list[Stage], turns: int) -> None:
    """Check that each turn is recorded with its end and that each body can be rebuilt."""
    events = await stages[0].events()
    assert not any(isinstance(each, GapRecorded) for each in events)
    assert all(stage.process.registry.take_gap(STREAM) is None for stage in stages)
    # If two processes write at once, one may have recorded a turn as begun and decided it again before sending it.
    assert sum(isinstance(each, TurnBegan) for each in events) >= turns
    assert sum(isinstance(each, TurnFinished) for each in events) == turns
    await stages[0].rounds(at_once=True)
