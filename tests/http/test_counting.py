"""Token counts of a turn: the proxy counts the body that it would really send, and leaves no trace of the count."""

import json
import logging
from typing import Any

import pytest
import trio

from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.rounds import ManagedRounds
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.epochs import WENT_BACK
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog, of_turns
from tests.http.managing import (
    LOOK,
    Client,
    Json,
    Stage,
    look,
    model_says,
    open_stage,
    release_call,
    results,
    script,
    text,
    think,
)
from tests.http.test_epochs import (
    LARGE,
    MINUTES,
    SMALL,
    Clock,
    answer,
    client_of,
    epochs_of,
    read,
    reads,
    results_of,
    violations,
)
from tests.http.test_managed import LOOP
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


async def test_counted_body_is_the_body_that_the_turn_sends() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        message = await client.turn(
            text("Where is it?")
        )  # a hidden round first, and then one that waits along with a client call
        while message["stop_reason"] == "tool_use":
            message = await count_and_send(stage, client, *results(message))
        await count_and_send(stage, client, text("And now?"))
        assert len(stage.counted) == 3
        assert stage.standin.violations == []


async def conversation(*, counting: bool) -> tuple[list[bytes], list[Any]]:
    """The upstream requests and the log of a conversation with a fork, with or without counts in between."""
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        for prompt in ("Where is it?", "And the other?", "No, the third."):
            message = await client.turn(text(prompt))
            while message.get("stop_reason") == "tool_use":
                if counting:
                    await client.count(*results(message), text("Or this?"))
                    await client.count(*results(message))
                message = await client.turn(*results(message))
            if prompt == "And the other?":
                del client.history[-6:]
            if counting:
                await client.count(text("Something else?"))
        events = of_turns(await stage.events())
        assert stage.standin.violations == []
        return [each.body for each in stage.standin.messages], [
            (type(each), each.body) for each in events if hasattr(each, "body")
        ]


async def test_counting_leaves_no_trace() -> None:
    assert await conversation(counting=True) == await conversation(counting=False)


async def test_count_in_the_middle_of_a_turn_does_not_disturb_it(loopback_clock: trio.testing.MockClock) -> None:
    slow = model_says(think("So that was it."), text("Here."), pace={"first": 60})
    async with open_stage({"replies": [model_says(text("Let me see."), release_call()), slow], "times": 3}) as stage:
        client, other = Client(stage.url), Client(stage.url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.work, "Where is it?")
            await until(lambda: sum(bool(each.body) for each in stage.standin.messages) == 2)  # in the second round
            other.history = client.history[:1]
            await other.count(text("Hurry."))
        await client.work("And now?")
        assert stage.standin.violations == []
        await stage.rounds()


async def test_count_after_an_epoch_uses_the_rewritten_history_and_begins_no_epoch() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 9)
        answer(stage, [think(), text("Done.")])
        content, same = results_of(message), 0
        for _ in range(4):
            before = await epochs_of(stage)
            assert before
            await client.count(*content)
            assert await epochs_of(stage) == before
            await client.turn(*content)
            if await epochs_of(stage) == before:
                assert json.loads(stage.counted[-1])["messages"] == stage.upstream[-1]["messages"]
                same += 1
            content = [text("Fine.")]
        assert same
        assert len(stage.counted[-1]) < len(client.bodies[-1]) / 2
        before = await epochs_of(stage)
        del client.history[9:]  # to before an epoch, where the wire history cannot be cut
        await count_and_send(stage, client, text("No. Something else."))
        assert [each.reason for each in await epochs_of(stage)][len(before) :] == [WENT_BACK]
        assert len(stage.counted[-1]) < len(client.bodies[-1])
        assert violations(stage) == []


async def test_count_includes_the_epoch_that_the_turn_would_begin_and_records_nothing() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 2)
        while not (began := await epochs_of(stage)):
            answer(stage, [think(), read(f"/src/part_{len(client.history)}.py")])
            message = await count_and_send(stage, client, *results_of(message))
        assert len(began) == 1
        assert violations(stage) == []


async def test_count_keeps_the_thinking_of_a_cleared_tool_loop_under_manual_thinking() -> None:
    clock = Clock()
    async with open_stage(clock=clock) as stage:
        client = client_of(stage)
        client.model = "claude-opus-4-5"
        client.members = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}
        message = await reads(client, stage, {"content": []}, 8, size=LARGE)
        answer(stage, [think(), text("Done.")])
        await client.turn(*results_of(message))
        clock.now += 60 * MINUTES
        answer(stage, [think("Where was I?"), read("/src/again.py")])
        message = await client.turn(text("And now?"))
        assert len(await epochs_of(stage)) == 1
        client.history[2]["content"][0]["content"] = "[cleared]"
        await count_and_send(stage, client, *results_of(message))
        assert b"Where was I?" in stage.counted[-1]
        assert violations(stage) == []


@pytest.mark.parametrize("how", ["header", "operator", "tool"])
async def test_count_after_managing_ended_has_no_memory_tools(how: str) -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
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


async def test_count_of_the_first_managed_turn_has_memory_tools() -> None:
    async with open_stage(LOOP) as stage:
        await count_and_send(stage, Client(stage.url), text("Where is it?"))
        assert b"memory_query" in stage.counted[-1]


async def test_count_after_a_bypass_has_no_memory_tools() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        client.headers = {"x-mnemosyne-mode": "off"}
        stage.standin.script = script({"reply": model_says(think("Hm."), text("Yes."))})
        await client.turn(text("And now?"))
        await count_and_send(stage, client, text("And now?"))
        assert json.loads(stage.counted[-1])["tools"] == [LOOK]


async def count_unchanged(stage: Stage, client: Client) -> None:
    sent = await client.count(text("What is it?"))
    assert stage.counted[-1] == sent


YES = {"reply": model_says(think("Hm."), text("Yes."))}


@pytest.mark.parametrize("mode", [Mode.MANAGE, Mode.OBSERVE])
async def test_unmanaged_body_is_counted_unchanged(mode: Mode) -> None:
    async with open_stage(YES, mode=mode) as stage:
        await count_unchanged(stage, Client(stage.url, session="nobody knows it", tools=[]))
        assert await stage.log.streams() == []
        client = Client(stage.url, headers={"x-mnemosyne-mode": "observe"})
        await client.turn(text("one"))
        await count_unchanged(stage, client)
        client.headers = {}
        await count_unchanged(stage, client)
        other = Client(stage.url, tools=[])  # of the same session, without content from it
        await count_unchanged(stage, other)


async def test_count_uses_the_clients_body_if_the_session_does_not_load_in_time(
    loopback_clock: trio.testing.MockClock,
) -> None:
    async with open_standin({"rules": [{"reply": model_says(text("Yes."))}]}) as standin:
        log = StoppableLog()
        async with open_stage(standin=standin, log=log) as stage:
            client = Client(stage.url)
            await client.turn(text("one"))
        log.away = True
        async with open_stage(standin=standin, log=log, patience=USUAL) as stage:
            client.url = stage.url
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
        async with open_stage(standin=standin, log=log) as stage:
            client = Client(stage.url)
            await client.turn(text("one"))
        log.away = True
        async with open_stage(standin=standin, log=log, patience=USUAL) as stage:
            client.url = stage.url
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

    async with open_stage({"reply": model_says(text("Yes."), look(at="it"))}) as stage:
        client = Client(stage.url)
        message = await client.turn(text("one"))
        with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
            broken.setattr(ManagedRounds, "plan", failing)
            sent = await client.count(*results(message))
        assert stage.counted[-1] != sent
        assert "planning a request of session" in caplog.text
        assert len(json.loads(stage.counted[-1])["tools"]) == 5
        await count_and_send(stage, client, *results(message))
