"""Token counts: the proxy counts the body that a turn would really send and leaves no trace of the count, and the model
reads the same object sizes as people do.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
import trio

from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.rounds import ManagedRounds
from mnemosyne.domain.objects.events import ObjectCreated, ObjectDegraded, TurnAssessed
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.window.epochs import WENT_BACK
from mnemosyne.services import windows
from mnemosyne_lab.provider import reading
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog, of_turns
from tests.http.managing import (
    LOOK,
    Client,
    Json,
    Stage,
    bare_stage,
    look,
    look_for,
    model_says,
    open_stage,
    open_talk,
    release_call,
    restore,
    results,
    script,
    text,
    think,
)
from tests.http.test_epochs import (
    MINUTES,
    SMALL,
    Clock,
    answer,
    explore,
    open_work,
    read,
    reads,
    results_of,
)
from tests.http.test_managed import LOOP
from tests.plain.archive import MemoryArchive
from tests.replay.test_managed import reviewed
from tests.waiting import until


async def count_and_send(stage: Stage, client: Client, *content: Json) -> Json:
    """Count a turn, send it, and compare the two bodies that the provider received."""
    await client.count(*content)
    number = len(stage.standin.messages)
    message = await client.turn(*content)
    assert "error" not in message, message
    sent = stage.upstream[number]
    del sent["max_tokens"]
    sent.pop("stream", None)
    assert json.loads(stage.counted[-1]) == sent
    return message


async def conversation(*, counting: bool) -> tuple[list[bytes], list[Any]]:
    """The upstream requests and the log of a conversation with a fork, with or without counts in between. The first
    turn has a hidden round, and the third one that waits along with a client call.
    """
    async with open_talk(LOOP) as (stage, client):
        for prompt in ("Where is it?", "And the other?", "No, the third."):
            content = [text(prompt)]
            while content:
                if counting:
                    await client.count(*content, text("Or this?"))
                    message = await count_and_send(stage, client, *content)
                    assert b"memory_query" in stage.counted[-1]
                else:
                    message = await client.turn(*content)
                content = results(message)
            if prompt == "And the other?":
                del client.history[-6:]
        events = of_turns(await stage.events())
        return [each.body for each in stage.standin.messages], [
            (type(each), each.body) for each in events if hasattr(each, "body")
        ]


async def test_counted_body_is_the_one_that_the_turn_sends_and_counting_does_not_change_the_session() -> None:
    assert await conversation(counting=True) == await conversation(counting=False)


async def test_count_in_the_middle_of_a_turn_does_not_disturb_it(loopback_clock: trio.testing.MockClock) -> None:
    slow = model_says(think("So that was it."), text("Here."), pace={"first": 60})
    async with open_stage({"replies": [model_says(text("Let me see."), release_call()), slow], "times": 3}) as stage:
        client, other = stage.client(), stage.client()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.work, "Where is it?")
            await until(lambda: sum(bool(each.body) for each in stage.standin.messages) == 2)  # in the second round
            other.history = client.history[:1]
            await other.count(text("Hurry."))
        await client.work("And now?")


async def test_count_after_an_epoch_uses_the_rewritten_history_and_begins_no_epoch() -> None:
    async with open_work(window=SMALL) as (stage, client):
        message = await reads(client, stage, {"content": []}, 9)
        answer(stage, [think(), text("Done.")])
        content, same = results_of(message), 0
        for _ in range(4):
            before = await stage.events_of(EpochBegan)
            assert before
            await client.count(*content)
            assert await stage.events_of(EpochBegan) == before
            await client.turn(*content)
            if await stage.events_of(EpochBegan) == before:
                assert json.loads(stage.counted[-1])["messages"] == stage.upstream[-1]["messages"]
                same += 1
            content = [text("Fine.")]
        assert same
        assert len(stage.counted[-1]) < len(client.bodies[-1]) / 2
        before = await stage.events_of(EpochBegan)
        del client.history[9:]  # to before an epoch, where the wire history cannot be cut
        await count_and_send(stage, client, text("No. Something else."))
        assert [each.reason for each in await stage.events_of(EpochBegan)][len(before) :] == [WENT_BACK]
        assert len(stage.counted[-1]) < len(client.bodies[-1])


@pytest.mark.parametrize("how", ["header", "operator", "tool"])
async def test_count_after_managing_ended_has_no_memory_tools(how: str) -> None:
    async with open_talk(LOOP, breaks=["R10"]) as (stage, client):
        await client.work("Where is it?")
        if how == "header":
            client.headers = {"x-mnemosyne-mode": "off"}
        elif how == "operator":
            await stage.switch(on=False)
        else:
            client.tools = [LOOK, {**LOOK, "name": "memory_query"}]
        stage.standin.script = script({"reply": model_says(think("Hm."), text("Yes."))})
        await count_and_send(stage, client, text("And now?"))
        assert json.loads(stage.counted[-1])["tools"] == client.tools
        assert b'thinking"' not in json.dumps(json.loads(stage.counted[-1])["messages"]).encode()


async def count_unchanged(stage: Stage, client: Client) -> None:
    sent = await client.count(text("What is it?"))
    assert stage.counted[-1] == sent


YES = {"reply": model_says(think("Hm."), text("Yes."))}


@pytest.mark.parametrize("mode", [Mode.MANAGE, Mode.OBSERVE])
async def test_unmanaged_body_is_counted_unchanged(mode: Mode) -> None:
    async with open_stage(YES, mode=mode) as stage:
        await count_unchanged(stage, stage.client(session="nobody knows it", tools=[]))
        assert await stage.log.streams() == []
        client = stage.client(headers={"x-mnemosyne-mode": "observe"})
        await client.turn(text("one"))
        await count_unchanged(stage, client)
        client.headers = {}
        await count_unchanged(stage, client)
        other = stage.client(tools=[])  # of the same session, without content from it
        await count_unchanged(stage, other)


async def test_count_uses_the_clients_body_if_the_session_does_not_load_in_time(
    loopback_clock: trio.testing.MockClock,
) -> None:
    async with open_standin({"rules": [{"reply": model_says(text("Yes."))}]}) as standin:
        log = StoppableLog()
        async with open_talk(standin=standin, log=log) as (stage, client):
            await client.turn(text("one"))
        log.away = True
        async with open_stage(standin=standin, log=log, patience=USUAL) as stage:
            stage.join(client)
            before = trio.current_time()
            await count_unchanged(stage, client)
            assert USUAL.actor < trio.current_time() - before <= USUAL.loading  # the session is first read from the log
            log.away = False
            await trio.sleep(5)
            await count_and_send(stage, client, text("two"))


async def test_only_the_first_turn_of_a_session_waits_long_for_an_absent_database(
    loopback_clock: trio.testing.MockClock,
) -> None:
    async with open_standin({"rules": [{"reply": model_says(text("Yes."))}]}) as standin:
        log = StoppableLog()
        async with bare_stage(standin=standin, log=log) as stage:
            client = stage.client()
            await client.turn(text("one"))
        log.away = True
        async with bare_stage(standin=standin, log=log, patience=USUAL) as stage:
            stage.join(client)
            took = []
            for words in ("two", "three", "four"):
                before = trio.current_time()
                assert "error" not in await client.turn(text(words))
                took.append(trio.current_time() - before)
            log.away = False
            # The clock also jumps on while a thread works: the other turns wait for the actor alone, but not for an
            # exact time.
            assert took[0] > USUAL.loading > max(took[1:])


async def test_internal_error_does_not_change_a_count_while_the_wire_history_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(*given: Any) -> None:
        raise RuntimeError("a bug")

    async with open_talk({"reply": model_says(text("Yes."), look(at="it"))}) as (stage, client):
        message = await client.turn(text("one"))
        with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
            broken.setattr(ManagedRounds, "plan", failing)
            sent = await client.count(*results(message))
        assert stage.counted[-1] != sent
        assert "planning a request of session" in caplog.text
        assert len(json.loads(stage.counted[-1])["tools"]) == 5
        await count_and_send(stage, client, *results(message))


@pytest.fixture(params=[0.7, pytest.param(1.4, marks=pytest.mark.release)], ids=["counts-fewer", "counts-more"])
def share(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """The ratio of the provider's token count to the expected one."""
    monkeypatch.setattr(reading, "TOKENS_PER_CHARACTER", request.param * reading.TOKENS_PER_CHARACTER)
    return cast("float", request.param)


async def evict(client: Client, stage: Stage, clock: Clock, *, size: int = 300) -> Json:
    """A session that resumes after an hour, when old content is evicted."""
    message = await explore(client, stage, 12, size=size)
    clock.now += 60 * MINUTES
    return await reads(client, stage, message, 1, first=12, size=size)


async def find_evicted(stage: Stage) -> Sequence[str]:
    """The evicted objects, largest estimate first."""
    events = await stage.events()
    estimates = {each.object: each.tokens for each in events if isinstance(each, ObjectCreated)}
    left = {each.object for each in events if isinstance(each, ObjectDegraded)}
    return sorted(left, key=lambda each: -estimates[each])


async def list_sizes(stage: Stage) -> Mapping[str, int]:
    """The full size of each object, as `mnemosyne objects` states it."""
    turn = [each.turn for each in await stage.events_of(TurnAssessed)][-1]
    archive, session = MemoryArchive(stage.log), str(await stage.stream())
    listing = await windows.list_objects(archive, session, "main", turn)
    return {each.object.id: each.object.tokens for each in listing.standings}


async def call(client: Client, stage: Stage, message: Json, hidden: Json) -> tuple[str, Json]:
    """The model's result for a hidden call, and the client's final reply."""
    answer(stage, [think(), hidden], [think(), read("/src/next.py")])
    message = await client.turn(*results_of(message))
    assert "error" not in message, message
    (result,) = stage.upstream[-1]["messages"][-1]["content"]
    return str(result["content"]), message


async def check_answers(client: Client, stage: Stage, message: Json, wanted: str) -> Json:
    """Each tool that states a size states the same one as `mnemosyne objects`."""
    searched, message = await call(client, stage, message, look_for("part_0.py part_1.py part_2.py"))
    restored, message = await call(client, stage, message, restore(wanted))
    ids = re.findall(r": #(\S+) L0, ", searched)
    release = {"type": "tool_use", "name": "memory_release", "input": {"object_ids": [wanted, *ids], "reason": "done"}}
    released, message = await call(client, stage, message, release)
    sizes = await list_sizes(stage)
    found = re.findall(r": #(\S+) L\d, .* ([\d,]+) tokens in full", searched)
    assert len(found) >= 3
    assert {each: as_number(size) for each, size in found} == {each: sizes[each] for each, _ in found}
    (cost,) = re.findall(r"About ([\d,]+) tokens;", restored)
    assert as_number(cost) == sizes[wanted]
    (left,) = re.findall(r"restores or answers, ([\d,]+) tokens", restored)
    assert as_number(left) == 8_192 - sizes[wanted]
    for names, size in re.findall(r"Released: (.*), ([\d,]+) tokens in full", released):
        assert as_number(size) == sum(sizes[each] for each in names.replace("#", "").split(", "))
    return message


def as_number(written: str) -> int:
    return int(written.replace(",", ""))


@pytest.mark.release
async def test_tools_state_the_size_of_the_objects_command_also_after_a_restart(share: float) -> None:
    clock = Clock()
    async with open_work(clock=clock) as (stage, client):
        message = await evict(client, stage, clock)
        estimates = {each.object: each.tokens for each in await stage.events_of(ObjectCreated)}
        first, sizes = next(iter(estimates)), await list_sizes(stage)
        assert (sizes[first] < estimates[first]) == (share < 1)
        assert sizes[first] != estimates[first]
        *_, one, other = await find_evicted(stage)
        message = await check_answers(client, stage, message, other)
        async with open_stage(clock=clock, log=stage.log, standin=stage.standin) as again:
            again.join(client)
            await check_answers(client, again, message, one)
        found = await reviewed(stage.log)
        assert (found.differences, found.skipped) == ([], [])
