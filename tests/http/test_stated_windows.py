"""Conversations that exceed the model's window: the provider states a window smaller than the table's when it refuses a
prompt, and a client's own history may outgrow it. The work always continues.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from mnemosyne.actors.epochs import Epochs
from mnemosyne.actors.managed_turn import ManagedTurn
from mnemosyne.actors.rounds import ManagedRounds
from mnemosyne.cli.explain import _paragraphs
from mnemosyne.domain.history import memory_travel
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.recall.memory_results import TOO_LONG
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import EpochBegan, Mode, WindowStated
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.window.epochs import NO_LONGER_FITS
from mnemosyne.replay.deciding import review
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import PATIENT, StoppableLog
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_prefixes,
    model_says,
    open_stage,
    recall,
    text,
    think,
)
from tests.http.test_epochs import SMALL, TOOLS, WRITTEN, answer, client_of, read, reads, results_of
from tests.http.test_forks import refused
from tests.http.test_managed_dialects import ChatTalk
from tests.http.test_switching import MODE
from tests.plain.archive import MemoryArchive
from tests.tables import other_tables

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


@asynccontextmanager
async def talked(log: StoppableLog, standin: Standin, client: Client, **options: Any) -> AsyncIterator[Stage]:
    async with open_stage(log=log, standin=standin, **options) as stage:
        stage.join(client)
        yield stage


async def check_replay(log: StoppableLog) -> None:
    (stream,) = await log.streams()
    found = await review(MemoryArchive(log), str(stream))
    assert (found.differences, found.skipped) == ([], [])


async def test_window_stated_by_the_provider_is_learned_and_the_turn_continues_with_a_rewrite() -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client(tools=TOOLS, stream=False)
        async with talked(log, standin, client) as stage:
            came = await read_files(client, standin, 8)
            assert [message for message in came if "error" in message] == []
            assert statuses(standin).count(400) == 1
            (stated,) = await stage.events_of(WindowStated)
            assert (stated.window, stated.model) == (TAKES, client.model)
            assert (stated.tokens or 0) > TAKES
            refused, sent = (each for each in await stage.rounds() if each.turn == stated.turn)
            assert (refused.round, sent.round) == (1, 2)
            assert (await stage.events_of(EpochBegan))[0].turn == stated.turn
            assert sent.epoch == refused.epoch + 1
            assert {reply.status for reply in client.replies} == {200}
            found = memory_travel.snapshot(await log.read(await stage.stream()), "main")
        lines = [line for _, paragraph in _paragraphs(found, None) for line in paragraph]
        assert f"The model's limit is 24.0k tokens, as the provider stated at main {stated.turn}." in lines
    await check_replay(log)


async def test_prompt_that_no_rewrite_makes_fit_gets_the_providers_error_and_is_sent_once() -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client(tools=TOOLS)
        async with talked(log, standin, client) as stage:
            await read_files(client, standin, 2)
            before = len(standin.messages)
            (message,) = await read_files(client, standin, 1, first=2, window=500)
            assert "prompt is too long" in message["error"]["message"]
            assert len(standin.messages) == before + 1
            (stated,) = await stage.events_of(WindowStated)
            assert stated.window == 500
            assert (await stage.events_of(TurnFinished))[-1].status == 400
            (message,) = await read_files(client, standin, 1, first=2)
    await check_replay(log)


async def test_refused_rewrite_gets_the_providers_error_and_is_sent_once() -> None:
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client(tools=TOOLS)
        async with talked(log, standin, client):
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
    await check_replay(log)


@pytest.mark.release
async def test_rewrite_is_planned_again_if_the_actor_is_lost_before_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    find, lost = ManagedRounds.turn_of, []

    async def find_in_log(self: ManagedRounds, address: Address, request: bytes) -> ManagedTurn | None:
        known = self.under_way(address)
        if known is not None and known.happens:
            lost.append(self._turns.pop(address))
        return await find(self, address, request)

    monkeypatch.setattr(ManagedRounds, "turn_of", find_in_log)
    log = StoppableLog()
    async with open_standin({"rules": []}) as standin:
        client = Client(tools=TOOLS)
        async with talked(log, standin, client):
            came = await read_files(client, standin, 14)
            assert [each for each in came if "error" in each] == []
            assert len(lost) == 1
    await check_replay(log)


async def test_window_of_the_table_is_not_learned() -> None:
    async with open_standin({"rules": []}) as standin:
        client = Client(tools=TOOLS)
        async with talked(StoppableLog(), standin, client) as stage:
            await read_files(client, standin, 2)
            message = "prompt is too long: 1000005 tokens > 1000000 maximum"
            plays(standin, {"failure": {"status": 400, "message": message}})
            before = len(standin.messages)
            assert (await client.turn(*results_of(client.history[-1])))["status"] == 400
            assert len(standin.messages) == before + 1
            assert await stage.events_of(WindowStated) == []


@pytest.mark.release
async def test_window_is_learned_in_chat_and_survives_a_restart() -> None:
    log, takes = StoppableLog(), 12_000
    look = {"type": "tool_use", "name": "look", "input": {}}
    rules = [{"replies": [model_says(look), model_says(text("It is there."))]}]
    async with open_standin({"rules": rules, "window": takes}) as standin:
        talk = ChatTalk(size=200)
        for number in range(8):
            async with open_stage(log=log, standin=standin) as stage:
                talk.url = stage.url
                assert (await talk.work(f"Where is it, {number}?")).endswith("It is there.")
                stated = await stage.events_of(WindowStated)
        assert {each.window for each in stated} == {takes}
        assert statuses(standin).count(400) == len(stated)
    await check_replay(log)


MODEL_WINDOW = 40_000
"""Tokens that the model takes."""


@pytest.fixture(autouse=True)
def small_model() -> Iterator[None]:
    with other_tables({"models": {"claude-opus-5-5": {"window": MODEL_WINDOW}}}):
        yield


async def outgrown(stage: Stage) -> Client:
    """A managed conversation whose client history exceeds the model's window."""
    client = client_of(stage)
    await reads(client, stage, {"content": []}, 10)
    answer(stage, [text("All read.")])
    await client.turn(*results_of(client.history[-1]))
    return client


async def test_switched_off_conversation_continues_the_sent_history_if_the_clients_does_not_fit() -> None:
    async with open_stage(window=SMALL, breaks=["R10"]) as stage:
        client = await outgrown(stage)
        client.headers = {MODE: "off"}
        before = len(stage.upstream)
        answer(stage, [read("/one_more.py")], [text("Yes.")])
        await client.work("And now?")
        await client.turn(text("And then?"))
        assert [each.status for each in stage.standin.messages if each.status != 200] == []
        observed, bypassed = await stage.modes()
        assert (observed.mode, bypassed.mode) == (Mode.MANAGE, Mode.BYPASS)
        assert NO_LONGER_FITS in bypassed.why
        assert (await stage.events_of(EpochBegan))[-1].reason == NO_LONGER_FITS
        after = stage.upstream[before:]
        assert len(after) == 3
        assert all(body["tools"] == TOOLS for body in after)
        assert not any(name in json.dumps(each) for each in after for name in NAMES)
        assert_prefixes(after)
        gone = next(each for each in await stage.events_of(ObjectDegraded))
        assert f"#{gone.object} (14 KB) Read /src/part_0.py" in json.dumps(after[0]["messages"])


async def off(stage: Stage) -> Client:
    """Such a conversation after managing ended and one more request."""
    client = await outgrown(stage)
    client.headers = {MODE: "off"}
    answer(stage, [text("Yes.")])
    await client.turn(text("And now?"))
    return client


@pytest.mark.release
async def test_client_that_goes_back_far_enough_is_sent_unchanged() -> None:
    async with open_stage(window=SMALL, breaks=["R10"]) as stage:
        client = await off(stage)
        del client.history[5:]
        await client.turn(text("No. Something else."))
        assert refused(stage) == []
        assert "[#" not in json.dumps(stage.upstream[-1]["messages"])


@pytest.mark.release
async def test_client_can_compact_such_a_conversation() -> None:
    async with open_stage(window=SMALL, breaks=["R10"]) as stage:
        client = await off(stage)
        answer(stage, [text("<summary>Files were read.</summary>")])
        await client.turn(text("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Summarize."))
        opening = "This session is being continued from a previous conversation that ran out of context. "
        client.history = [{"role": "user", "content": [text(opening + "Files were read.")]}]
        answer(stage, [text("Yes.")])
        await client.send()
        assert refused(stage) == []
        assert stage.standin.messages[-1].body == client.bodies[-1]


@pytest.mark.release
async def test_refusal_loses_nothing_if_the_sent_history_cannot_be_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object) -> None:
        """Nothing can be rendered."""

    async with open_stage(window=SMALL, breaks=["R10"]) as stage:
        client = await outgrown(stage)
        client.headers = {MODE: "off"}
        with monkeypatch.context() as broken:
            broken.setattr(Epochs, "begin_again", failing)
            message = await client.turn(text("And now?"))
            assert "prompt is too long" in message["error"]["message"]
        assert "error" not in await client.send()


@pytest.mark.release
async def test_request_that_needs_its_session_to_fit_waits_for_it() -> None:
    async with open_stage(window=SMALL) as stage:
        client = await outgrown(stage)
        stage.process.registry.patience = attrs.evolve(PATIENT, actor=0.0)
        answer(stage, [text("Yes.")])
        await client.turn(text("And now?"))
        assert refused(stage) == []
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE]
        assert len(stage.upstream[-1]["tools"]) > len(TOOLS)


@pytest.mark.parametrize(("stream", "again"), [(True, False), (False, True)])
async def test_turn_goes_on_without_the_memory_answers_that_made_its_prompt_too_long(
    stream: bool, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = ManagedRounds.turn_of

    async def find_in_log(self: ManagedRounds, address: Address, request: bytes) -> ManagedTurn | None:
        self._turns.clear()
        self._loaded.histories._held.clear()
        return await find(self, address, request)

    if again:
        monkeypatch.setattr(ManagedRounds, "turn_of", find_in_log)
    refusal = {"status": 400, "message": f"prompt is too long: {TAKES + 5} tokens > {TAKES} maximum"}
    here = model_says(text("Here."))
    answers = [model_says(think(), recall()), model_says(think(), recall()), here] if again else [here]
    rules = [
        {"when": {"rounds": 1}, "reply": {"failure": refusal}, "times": 1},
        {"when": {"rounds": 2}, "reply": {"failure": refusal}, "times": 1},
        {"replies": [model_says(think(), recall("what is in part 1?")), *answers]},
    ]
    log = StoppableLog()
    async with open_standin({"rules": rules}) as standin:
        client = Client(stream=stream)
        async with talked(log, standin, client) as stage:
            message = await client.turn(text("Where?"))
            assert message["content"][-1] == text("Here.")
            assert {reply.status for reply in client.replies} == {200}
            assert statuses(standin)[:3] == [200, 400, 200]
            *_, refused, sent = (json.dumps(body) for body in stage.upstream[:3])
            assert TOO_LONG not in refused
            assert TOO_LONG in sent
            standin.script = from_data({"rules": [{"reply": here}]})
        async with talked(log, standin, client) as stage:
            await client.turn(text("And now?"))
            assert TOO_LONG in json.dumps(stage.upstream[-1])
        assert_prefixes([stage.upstream[0], *stage.upstream[2:]] if not again else stage.upstream[-2:])
    await check_replay(log)
