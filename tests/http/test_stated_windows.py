"""Windows smaller than the table's: the provider states them when it refuses a prompt, and the work continues."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mnemosyne.actors.epochs import Epochs
from mnemosyne.actors.managed_turn import ManagedTurn
from mnemosyne.actors.rounds import ManagedRounds
from mnemosyne.cli.explain import _paragraphs
from mnemosyne.domain.history import memory_travel
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import EpochBegan, Mode, WindowStated
from mnemosyne.replay.deciding import review
from mnemosyne.replay.running import MemoryArchive
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Client, Json, Stage, assert_nothing_of_ours, model_says, open_stage, text, think
from tests.http.test_epochs import TOOLS, WRITTEN, read, results_of
from tests.http.test_managed_chat import Talk
from tests.http.test_managed_chat import assert_nothing_of_ours as assert_nothing_in_chat

TAKES = 24_000
"""Tokens that the provider takes of a model that has far more in the table."""


def plays(standin: Standin, *replies: Any, window: int = TAKES) -> None:
    """The model's next replies in order; the last one also answers all further requests."""
    first = len(standin.messages) + 1
    rules = [{"when": {"request": number}, "reply": reply} for number, reply in enumerate(replies, first)]
    standin.script = from_data({"rules": [*rules, {"reply": replies[-1]}], "window": window})


async def read_files(
    client: Client, standin: Standin, count: int, *, first: int = 0, window: int = TAKES
) -> list[Json]:
    """This many turns in which the agent gets its result and reads another file; return the replies."""
    came = []
    for number in range(first, first + count):
        before = client.history[-1] if client.history else {"content": []}
        first_call = [] if results_of(before) else [WRITTEN]
        reply = model_says(think(), *first_call, read(f"/src/part_{number}.py"))
        plays(standin, reply, reply, window=window)
        came.append(await client.turn(*(results_of(before) or [text("Go on.")])))
        if "error" in came[-1]:
            break
    return came


def statuses(standin: Standin) -> list[int | None]:
    return [each.status for each in standin.messages]


async def of_kind(stage: Stage, kind: type[Any]) -> list[Any]:
    return [event for event in await stage.events() if isinstance(event, kind)]


@asynccontextmanager
async def talked(log: StoppableLog, standin: Standin, client: Client, **options: Any) -> AsyncIterator[Stage]:
    async with open_stage(log=log, standin=standin, **options) as stage:
        client.url = stage.url
        yield stage


async def check_replay(log: StoppableLog) -> None:
    (stream,) = await log.streams()
    found = await review(MemoryArchive(log), str(stream))
    assert (found.differences, found.skipped) == ([], [])


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_window_stated_by_the_provider_is_learned_and_the_turn_continues_with_a_rewrite(stream: bool) -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS, stream=stream)
        async with talked(log, standin, client) as stage:
            came = await read_files(client, standin, 14)
            assert [message for message in came if "error" in message] == []
            assert statuses(standin).count(400) == 1
            assert standin.violations == []
            (stated,) = await of_kind(stage, WindowStated)
            assert (stated.window, stated.model) == (TAKES, client.model)
            assert stated.tokens > TAKES
            refused, sent = (each for each in await stage.rounds() if each.turn == stated.turn)
            assert (refused.round, sent.round) == (1, 2)
            assert (await of_kind(stage, EpochBegan))[0].turn == stated.turn
            assert sent.epoch == refused.epoch + 1
            assert {reply.status for reply in client.replies} == {200}
            assert_nothing_of_ours(client)
            found = memory_travel.snapshot(await log.read(await stage.stream()), "main")
        lines = [line for _, paragraph in _paragraphs(found, None) for line in paragraph]
        assert f"The model's limit is 24.0k tokens, as the provider stated at main {stated.turn}." in lines
    await check_replay(log)


async def test_restarted_server_knows_the_stated_window() -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS)
        done = 0
        for count in (6, 6, 6):
            async with talked(log, standin, client) as stage:
                came = await read_files(client, standin, count, first=done)
                assert [message for message in came if "error" in message] == []
                done += count
                await stage.rounds()
        assert statuses(standin).count(400) == 1
        assert standin.violations == []
    await check_replay(log)


async def test_prompt_that_no_rewrite_makes_fit_gets_the_providers_error_and_is_sent_once() -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS)
        async with talked(log, standin, client) as stage:
            await read_files(client, standin, 2)
            before = len(standin.messages)
            (message,) = await read_files(client, standin, 1, first=2, window=500)
            assert "prompt is too long" in message["error"]["message"]
            assert len(standin.messages) == before + 1
            (stated,) = await of_kind(stage, WindowStated)
            assert stated.window == 500
            assert (await of_kind(stage, TurnFinished))[-1].status == 400
            (message,) = await read_files(client, standin, 1, first=2)
    await check_replay(log)


async def test_refused_rewrite_gets_the_providers_error_and_is_sent_once() -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS)
        async with talked(log, standin, client) as stage:
            await read_files(client, standin, 4)
            too_long = {
                "failure": {"status": 400, "message": f"prompt is too long: {TAKES + 5} tokens > {TAKES} maximum"}
            }
            before = len(standin.messages)
            plays(standin, too_long, window=10**6)
            message = await client.turn(*results_of(client.history[-1]))
            assert (message["status"], len(standin.messages)) == (400, before + 2)
            client.history.pop()
            came = await read_files(client, standin, 3, first=4)
            assert [each for each in came if "error" in each] == []
            await stage.rounds()
    await check_replay(log)


async def test_rewrite_is_planned_again_if_the_actor_is_lost_before_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find, lost = ManagedRounds.turn_of, []

    async def find_in_log(self: ManagedRounds, address: Address, request: bytes) -> ManagedTurn | None:
        known = self.under_way(address)
        if known is not None and known.happens:
            lost.append(self._turns.pop(address))
        return await find(self, address, request)

    monkeypatch.setattr(ManagedRounds, "turn_of", find_in_log)
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS)
        async with talked(log, standin, client) as stage:
            came = await read_files(client, standin, 14)
            assert [each for each in came if "error" in each] == []
            assert len(lost) == 1
            await stage.rounds()
    await check_replay(log)


async def test_internal_error_before_the_rewrite_passes_the_providers_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object) -> None:
        raise ValueError("nothing can be rendered")

    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS)
        async with talked(StoppableLog(), standin, client):
            monkeypatch.setattr(Epochs, "_rewrite", failing)
            came = await read_files(client, standin, 14)
            assert "prompt is too long" in came[-1]["error"]["message"]
            assert statuses(standin).count(400) == 1
            monkeypatch.undo()
            assert "error" not in await client.send()


async def test_observed_session_is_refused_as_without_the_proxy() -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS)
        async with talked(log, standin, client, mode=Mode.OBSERVE) as stage:
            came = await read_files(client, standin, 14)
            assert "prompt is too long" in came[-1]["error"]["message"]
            assert standin.messages[-1].body == client.bodies[-1]
            assert await of_kind(stage, WindowStated) == []


async def test_window_of_the_table_is_not_learned() -> None:
    async with open_standin({"rules": []}) as standin:
        client = Client("", tools=TOOLS)
        async with talked(StoppableLog(), standin, client) as stage:
            await read_files(client, standin, 2)
            message = "prompt is too long: 1000005 tokens > 1000000 maximum"
            plays(standin, {"failure": {"status": 400, "message": message}})
            before = len(standin.messages)
            assert (await client.turn(*results_of(client.history[-1])))["status"] == 400
            assert len(standin.messages) == before + 1
            assert await of_kind(stage, WindowStated) == []


LLAMA = {
    "code": 400,
    "message": "the request exceeds the available context size, try increasing it",
    "type": "exceed_context_size_error",
}


async def test_window_is_learned_in_chat_and_survives_a_restart() -> None:
    log, takes = StoppableLog(), 12_000
    look = {"type": "tool_use", "name": "look", "input": {}}
    rules = [{"replies": [model_says(look), model_says(text("It is there."))]}]
    async with open_standin({"rules": rules, "window": takes}) as standin:
        talk = Talk("", size=200)
        for number in range(8):
            async with open_stage(log=log, standin=standin) as stage:
                talk.url = stage.url
                assert (await talk.work(f"Where is it, {number}?")).endswith("It is there.")
                await stage.rounds()
                stated = await of_kind(stage, WindowStated)
        assert {each.window for each in stated} == {takes}
        assert statuses(standin).count(400) == len(stated)
        assert standin.violations == []
        assert_nothing_in_chat(talk)
    await check_replay(log)
