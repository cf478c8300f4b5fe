"""How many tokens a turn would have: asked for what would really be sent, and without a trace."""

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
    let_go,
    look,
    open_stage,
    results,
    said,
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


async def counted_then_said(stage: Stage, client: Client, *content: Json) -> Json:
    """Count a turn, take it, and compare what the provider was sent for either."""
    await client.count(*content)
    number = len(stage.standin.messages)
    message = await client.turn(*content)
    assert "error" not in message, message
    sent = stage.upstream[number]
    del sent["max_tokens"]
    sent.pop("stream", None)
    assert json.loads(stage.counted[-1]) == sent
    return message


async def test_what_is_counted_is_what_the_turn_then_sends() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        message = await client.turn(
            text("Where is it?")
        )  # a hidden round before, and then one that waits beside a call
        while message["stop_reason"] == "tool_use":
            message = await counted_then_said(stage, client, *results(message))
        await counted_then_said(stage, client, text("And now?"))
        assert len(stage.counted) == 3
        assert stage.standin.violations == []


async def conversation(*, counting: bool) -> tuple[list[bytes], list[Any]]:
    """What upstream and log get of a conversation with a fork in it, with or without somebody counting on the way."""
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


async def test_a_count_in_the_midst_of_a_turn_disturbs_nothing(loopback_clock: trio.testing.MockClock) -> None:
    slow = said(think("So that was it."), text("Here."), pace={"first": 60})
    async with open_stage({"replies": [said(text("Let me see."), let_go()), slow], "times": 3}) as stage:
        client, other = Client(stage.url), Client(stage.url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.work, "Where is it?")
            await until(lambda: sum(bool(each.body) for each in stage.standin.messages) == 2)  # in the second round
            other.history = client.history[:1]
            await other.count(text("Hurry."))
        await client.work("And now?")
        assert stage.standin.violations == []
        await stage.rounds()


async def test_after_an_epoch_the_rewritten_history_is_counted_and_none_begins_by_counting() -> None:
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
        await counted_then_said(stage, client, text("No. Something else."))
        assert [each.reason for each in await epochs_of(stage)][len(before) :] == [WENT_BACK]
        assert len(stage.counted[-1]) < len(client.bodies[-1])
        assert violations(stage) == []


async def test_a_count_begins_the_epoch_that_the_turn_would_begin_and_nothing_remembers_it() -> None:
    async with open_stage(window=SMALL) as stage:
        client = client_of(stage)
        message = await reads(client, stage, {"content": []}, 2)
        while not (began := await epochs_of(stage)):
            answer(stage, [think(), read(f"/src/part_{len(client.history)}.py")])
            message = await counted_then_said(stage, client, *results_of(message))
        assert len(began) == 1
        assert violations(stage) == []


async def test_under_manual_thinking_a_count_of_what_was_cut_in_mid_loop_keeps_the_thinking_that_the_turn_keeps() -> (
    None
):
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
        await counted_then_said(stage, client, *results_of(message))
        assert b"Where was I?" in stage.counted[-1]
        assert violations(stage) == []


@pytest.mark.parametrize("how", ["header", "operator", "tool"])
async def test_what_is_managed_no_longer_is_counted_without_our_tools_before_its_next_turn(how: str) -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        if how == "header":
            client.headers = {"x-mnemosyne-mode": "off"}
        elif how == "operator":
            await stage.switch(on=False)
        else:
            client.tools = [LOOK, {**LOOK, "name": "memory_query"}]
        stage.standin.script = script({"reply": said(think("Hm."), text("Yes."))})
        await counted_then_said(stage, client, text("And now?"))
        assert json.loads(stage.counted[-1])["tools"] == client.tools
        assert b'thinking"' not in json.dumps(json.loads(stage.counted[-1])["messages"]).encode()


async def test_the_first_turn_of_a_managed_conversation_is_counted_with_our_tools() -> None:
    async with open_stage(LOOP) as stage:
        await counted_then_said(stage, Client(stage.url), text("Where is it?"))
        assert b"memory_query" in stage.counted[-1]


async def test_after_a_bypass_the_count_is_of_what_goes_on_without_our_tools() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        client.headers = {"x-mnemosyne-mode": "off"}
        stage.standin.script = script({"reply": said(think("Hm."), text("Yes."))})
        await client.turn(text("And now?"))
        await counted_then_said(stage, client, text("And now?"))
        assert json.loads(stage.counted[-1])["tools"] == [LOOK]


async def counted_as_it_came(stage: Stage, client: Client) -> None:
    sent = await client.count(text("What is it?"))
    assert stage.counted[-1] == sent


YES = {"reply": said(think("Hm."), text("Yes."))}


@pytest.mark.parametrize("mode", [Mode.MANAGE, Mode.OBSERVE])
async def test_what_is_not_managed_is_counted_as_it_came(mode: Mode) -> None:
    async with open_stage(YES, mode=mode) as stage:
        await counted_as_it_came(stage, Client(stage.url, session="nobody knows it", tools=[]))
        assert await stage.log.streams() == []
        client = Client(stage.url, headers={"x-mnemosyne-mode": "observe"})
        await client.turn(text("one"))
        await counted_as_it_came(stage, client)
        client.headers = {}
        await counted_as_it_came(stage, client)
        other = Client(stage.url, tools=[])  # of the same session, and nothing that was said in it
        await counted_as_it_came(stage, other)


async def test_a_session_that_cannot_be_had_in_time_is_counted_as_its_client_says(
    loopback_clock: trio.testing.MockClock,
) -> None:
    async with open_standin({"rules": [{"reply": said(text("Yes."))}]}) as standin:
        log = StoppableLog()
        async with open_stage(standin=standin, log=log) as stage:
            client = Client(stage.url)
            await client.turn(text("one"))
        log.away = True
        async with open_stage(standin=standin, log=log, patience=USUAL) as stage:
            client.url = stage.url
            before = trio.current_time()
            await counted_as_it_came(stage, client)
            assert USUAL.actor < trio.current_time() - before <= USUAL.loading  # it is read from the log first
            log.away = False
            await trio.sleep(5)
            await counted_then_said(stage, client, text("two"))


async def test_while_the_database_stays_away_only_a_session_s_first_turn_waits_for_it_long(
    loopback_clock: trio.testing.MockClock,
) -> None:
    async with open_standin({"rules": [{"reply": said(text("Yes."))}]}) as standin:
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
            # The clock jumps on while a thread works, too: the others wait for the actor alone, but not exactly that.
            assert took[0] > USUAL.loading > max(took[1:])


async def test_an_error_of_ours_costs_the_count_nothing_as_long_as_what_was_sent_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(*given: Any) -> None:
        raise RuntimeError("a bug")

    async with open_stage({"reply": said(text("Yes."), look(at="it"))}) as stage:
        client = Client(stage.url)
        message = await client.turn(text("one"))
        with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
            broken.setattr(ManagedRounds, "plan", failing)
            sent = await client.count(*results(message))
        assert stage.counted[-1] != sent
        assert "goes on without its upstream history" in caplog.text
        assert len(json.loads(stage.counted[-1])["tools"]) == 5
        await counted_then_said(stage, client, *results(message))
