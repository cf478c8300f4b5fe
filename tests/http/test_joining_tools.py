"""A conversation is observed until a rewrite pays; then the memory tools join behind the cached head."""

import json
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import attrs
import pytest

from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.tools.memory_tools import NAMES, find_offer
from mnemosyne.domain.window.rounds import BEHIND_REFUSED
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.tools_behind import IN_MESSAGES
from mnemosyne.replay.deciding import review
from mnemosyne_lab.provider import from_data
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http import test_epochs
from tests.http.evicting import DECIDED, RECALL, Index, exchange, read_and_evict
from tests.http.managing import (
    Client,
    Stage,
    bare,
    model_says,
    open_stage,
    open_talk,
    recall,
    script,
    text,
    think,
)
from tests.http.test_epochs import SMALL, TOOLS, answer, read
from tests.http.test_managed_dialects import LOOP, OWN_LOOP, ChatTalk, ResponsesTalk, Talk
from tests.plain.archive import MemoryArchive
from tests.profiles import rarely

OFFER = find_offer(MESSAGES) or b""
BETA = (IN_MESSAGES.header or (b"", b""))[1]


@asynccontextmanager
async def open_known(mode: Mode = Mode.MANAGE, breaks: Collection[str] = ()) -> AsyncIterator[tuple[Stage, Client]]:
    """A managing proxy that takes the strict provider for one that takes tools behind the head."""
    log = StoppableLog()
    async with (
        open_standin({"rules": []}) as standin,
        open_stage(log=log, standin=standin, mode=mode, window=SMALL, index=Index(log), breaks=breaks) as stage,
    ):
        registry = stage.process.opener.registry
        registry.settings = attrs.evolve(registry.settings, host="api.anthropic.com")
        yield stage, stage.client(tools=TOOLS)
        found = await review(MemoryArchive(log), str(await stage.stream()))
        assert (found.differences, found.skipped) == ([], [])


def offered(stage: Stage) -> list[bool]:
    """Whether each request adds the memory tools in its messages."""
    return [json.loads(OFFER) in bare(each["messages"]) for each in stage.upstream]


def betas(stage: Stage) -> list[bool]:
    return [(b"anthropic-beta", BETA) in each.headers for each in messages(stage)]


def messages(stage: Stage) -> Sequence[Any]:
    return stage.standin.messages


def assert_head_unchanged(stage: Stage) -> None:
    """Every request has the client's own tools and system prompt."""
    assert {json.dumps(bare([each["tools"], each["system"]])) for each in stage.upstream} == {
        json.dumps(bare([TOOLS, stage.upstream[0]["system"]]))
    }


async def test_requests_are_the_clients_own_until_the_tools_join_with_the_first_eviction() -> None:
    async with open_known() as (stage, client):
        await read_and_evict(client, stage)
        before = offered(stage).index(True)
        assert before > 2
        assert [each.body for each in messages(stage)[:before]] == client.bodies[:before]
        assert betas(stage) == offered(stage) == [number >= before for number in range(len(offered(stage)))]
        assert_head_unchanged(stage)
        modes = [(each.mode, each.late, each.behind) for each in await stage.modes()]
        assert modes == [(Mode.OBSERVE, True, True), (Mode.MANAGE, True, True)]


@pytest.mark.release
async def test_tools_behind_the_head_stay_where_they_are_and_answer() -> None:
    async with open_known() as (stage, client):
        await read_and_evict(client, stage)
        first = len(stage.upstream) - 1
        reply = await exchange(client, stage, RECALL, [think(), recall(RECALL)], [think(), text("Seven.")])
        assert reply["content"][-1] == text("Seven.")
        assert DECIDED[:60] in json.dumps(stage.upstream[-1]["messages"])
        done = [think(), text("Done.")]
        for number in range(3):
            reads = [think(), read(f"/src/more_{number}.py")]
            await exchange(client, stage, "Read more.", reads, done, size=900)
        assert len(await stage.events_of(EpochBegan)) > 1
        places = [bare(each["messages"]).index(json.loads(OFFER)) for each in stage.upstream[first:]]
        assert places == [1] * len(places)
        assert_head_unchanged(stage)


async def test_refused_beta_costs_one_retry_and_is_remembered_for_the_account_and_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuses = {"refused_betas": [BETA.decode()]}
    monkeypatch.setattr(test_epochs, "script", lambda *rules: from_data({"rules": list(rules), **refuses}))
    async with open_known(breaks=["R10"]) as (stage, client):
        await read_and_evict(client, stage)
        assert [each.status for each in messages(stage)].count(400) == 1
        assert [each["tools"] == TOOLS for each in bare(stage.upstream[-2:])] == [True, False]
        assert offered(stage)[-2:] == betas(stage)[-2:] == [True, False]
        assert [(each.mode, each.behind) for each in await stage.modes()][-1] == (Mode.MANAGE, False)
        await exchange(client, stage, RECALL, [think(), recall(RECALL)], [think(), text("Seven.")])
        other = stage.client(tools=TOOLS, headers={"x-claude-code-agent-id": "a1"})
        answer(stage, [think(), text("Hello.")])
        await other.turn(text("Hello."))
        assert NAMES & {each["name"] for each in stage.upstream[-1]["tools"]}
        assert [each.status for each in messages(stage)].count(400) == 1


def begin_scripts(monkeypatch: pytest.MonkeyPatch, *rules: dict[str, Any]) -> None:
    """Begin each later script of the provider with these rules: ``read_and_evict`` writes several, turn by turn."""
    monkeypatch.setattr(test_epochs, "script", lambda *others: script(*rules, *others))


@pytest.mark.parametrize(("status", "both"), [(400, True), *rarely([(400, False), (500, False), (500, True)])])
async def test_refusal_is_remembered_only_if_its_replacement_succeeds_and_never_for_a_failure_of_the_provider(
    status: int, both: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_known(breaks=["R10"]) as (stage, client):
        await read_and_evict(client, stage)
        joined = offered(stage).index(True) + 1
    failure = {"reply": {"failure": {"status": status, "message": "Your credit balance is too low."}}}
    begin_scripts(monkeypatch, *({"when": {"request": joined + number}} | failure for number in range(1 + both)))
    async with open_known(breaks=["R10"]) as (stage, client):
        with pytest.raises(AssertionError) if both else nullcontext():
            await read_and_evict(client, stage)
        assert offered(stage)[joined - 1 : joined + 1] == [True, False]
        assert [each.status for each in messages(stage)].count(status) == 1 + both
        is_kept = status == 400 and not both
        assert (await stage.modes())[-1].behind is not is_kept
        assert (BEHIND_REFUSED in [each.why for each in await stage.modes()]) is is_kept
        begin_scripts(monkeypatch)
        if both:
            answer(stage, [think(), text("Hello.")])
            await client.turn(text("And now?"))
            assert (offered(stage)[-1], stage.upstream[-1]["tools"]) == (True, stage.upstream[0]["tools"])
        other = stage.client(tools=TOOLS, headers={"x-claude-code-agent-id": "a1"})
        answer(stage, [think(), text("Hello.")])
        await other.turn(text("Hello."))
        assert bool(NAMES & {each["name"] for each in stage.upstream[-1]["tools"]}) is is_kept


@pytest.mark.parametrize("status", [403, *rarely([500])])
async def test_refusal_that_may_be_due_to_the_tools_is_replaced_once_and_a_count_is_the_clients_own(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_known(breaks=["R10"]) as (stage, client):
        await read_and_evict(client, stage)
        joined = offered(stage).index(True) + 1
    failure = {"reply": {"failure": {"status": status, "message": "That did not work."}}}
    begin_scripts(monkeypatch, {"when": {"request": joined}} | failure)
    async with open_known(breaks=["R10"]) as (stage, client):
        await read_and_evict(client, stage)
        assert [each.status for each in messages(stage)].count(status) == 1
        assert offered(stage)[joined - 1 : joined + 1] == [True, False]
        assert (await stage.modes())[-1].behind is (status == 500)
        stage.standin.script = from_data({"rules": [{"counting": True, "times": 1} | failure]})
        raw = json.loads(await client.count(text("And now?")))
        ours, own = map(json.loads, stage.counted)
        at_head = {each["name"] for each in ours["tools"]} > {each["name"] for each in raw["tools"]}
        assert (at_head, json.loads(OFFER) in bare(ours["messages"])) == (status == 403, status == 500)
        assert (own["tools"], len(own["messages"])) == (raw["tools"], len(raw["messages"]))


@pytest.mark.parametrize("kept", [None, *rarely([4])], ids=["as it is", "rewound"])
async def test_switched_on_session_joins_with_its_next_rewrite_and_after_a_restart(kept: int | None) -> None:
    async with open_known(Mode.OBSERVE) as (stage, client):
        for number in range(3):
            await exchange(client, stage, f"Read {number}.", [read("/docs/notes.md")], [text("Done.")], holds=DECIDED)
        assert await stage.modes() == []
        client.history = client.history[:kept]
        await stage.switch(on=True, stream=await stage.stream())
        stage.process.registry.use(stage.process.registry.settings)
        for number in range(6):
            reads = [think(), read(f"/src/more_{number}.py")]
            await exchange(client, stage, "Read more.", reads, [think(), text("Done.")], size=300)
        modes = [(each.mode, each.behind) for each in await stage.modes()]
        assert modes == [(Mode.OBSERVE, True), (Mode.MANAGE, True)]
        joined = offered(stage).index(True)
        assert [each.body for each in messages(stage)[:joined]] == client.bodies[:joined]
        assert_head_unchanged(stage)


async def switch_on_after(turns: int) -> None:
    """Switch managing on after this many turns with signed thinking; the tools join behind an unchanged head."""
    async with open_known(Mode.OBSERVE) as (stage, client):
        answer(stage, [think(), text("Done.")])
        for number in range(turns):
            await client.turn(text(f"Say {number}. " + "word " * (1500 // turns)))
        assert await stage.modes() == []
        await switch_on(stage)
        for number in range(8):
            reads = [think(), read(f"/src/more_{number}.py")]
            await exchange(client, stage, "Read more.", reads, [think(), text("Done.")])
        modes = [(each.mode, each.behind) for each in await stage.modes()]
        assert modes == [(Mode.OBSERVE, True), (Mode.MANAGE, True)]
        joined = offered(stage).index(True)
        assert joined > turns
        assert [each.body for each in messages(stage)[:joined]] == client.bodies[:joined]
        assert_head_unchanged(stage)
        assert {each.status for each in messages(stage)} == {200}


async def switch_on(stage: Stage) -> None:
    await stage.switch(on=True, stream=await stage.stream())
    stage.process.registry.use(stage.process.registry.settings)


async def switch_on_openai_after(make: type[Talk], turns: int) -> None:
    """The same in OpenAI's dialects. In Responses an item adds the tools; in Chat Completions nothing can, so they join
    at the head when that costs next to nothing.
    """
    log = StoppableLog()
    async with (
        open_standin({"rules": [{"reply": model_says(think(), text("Done."))}]}) as standin,
        open_stage(log=log, standin=standin, mode=Mode.OBSERVE, window=8_000) as stage,
    ):
        registry = stage.process.opener.registry
        registry.settings = attrs.evolve(registry.settings, host="api.openai.com")
        talk = stage.join(make(size=200))
        for number in range(turns):
            await talk.work(f"Say {number}. " + "word " * (1500 // turns))
        await switch_on(stage)
        standin.script = script(OWN_LOOP)
        while "memory_query" not in json.dumps(stage.upstream[-1]):
            assert (await talk.work("Where is it?")).endswith("It is there.")
        joined = ["memory_query" in json.dumps(each) for each in stage.upstream].index(True)
        assert joined >= turns
        assert [each.body for each in messages(stage)[:joined]] == talk.bodies[:joined]
        at_head = bool(NAMES & {*talk.tool_names(stage.upstream[-1])})
        assert at_head is (make is ChatTalk)
        waited = [(Mode.OBSERVE, not at_head)][: joined - turns]  # none if the window is full
        modes = [(each.mode, each.behind) for each in await stage.modes()]
        assert modes == [*waited, (Mode.MANAGE, not at_head)]
        assert {each.status for each in messages(stage)} == {200}
        assert (await review(MemoryArchive(log), str(await stage.stream()))).differences == []


LATE = pytest.param(500, marks=pytest.mark.soak)


@pytest.mark.parametrize("turns", [1, LATE])
@pytest.mark.parametrize("make", [ResponsesTalk, *rarely([ChatTalk])])
async def test_switch_after_a_turn_changes_no_byte_before_the_tools_join_in_openai_s_dialects(
    make: type[Talk], turns: int
) -> None:
    await switch_on_openai_after(make, turns)


@pytest.mark.release
@pytest.mark.parametrize("turns", [1, 50, LATE])
async def test_switch_changes_neither_the_head_nor_any_byte_before_the_first_eviction(turns: int) -> None:
    await switch_on_after(turns)


async def test_responses_take_the_tools_in_an_item_and_chat_completions_at_the_head() -> None:
    log = StoppableLog()
    async with (
        open_standin({"rules": [OWN_LOOP]}) as standin,
        open_stage(log=log, standin=standin, window=8_000) as stage,
    ):
        registry = stage.process.opener.registry
        registry.settings = attrs.evolve(registry.settings, host="api.openai.com")
        talk = stage.join(ResponsesTalk(size=200))
        tools = ResponsesTalk.body["tools"]
        while "additional_tools" not in json.dumps(stage.upstream[-1:]):
            assert (await talk.work("Where is it?")).endswith("It is there.")
        standin.script = script(LOOP)
        assert (await talk.work("And the other?")).endswith("It is there.")
        assert [each["tools"] for each in stage.upstream] == [tools] * len(stage.upstream)
        added = [[each.get("type") for each in body["input"]].count("additional_tools") for body in stage.upstream]
        assert sorted(added) == added
        assert (added[0], added[-1]) == (0, 1)
        assert {each.status for each in standin.messages} == {200}
        assert (await review(MemoryArchive(log), str(await stage.stream()))).differences == []
        chat = stage.join(ChatTalk())
        await chat.work("Where is it?")
        assert NAMES & {*chat.tool_names(stage.upstream[-1])}


async def test_model_that_does_not_take_tools_in_messages_gets_them_at_its_head() -> None:
    async with open_known(breaks=["R10"]) as (stage, client):
        await read_and_evict(client, stage)
        client.model = "claude-sonnet-5"
        await exchange(client, stage, "And now?", [think(), text("Yes.")])
        assert (offered(stage)[-1], betas(stage)[-1]) == (False, False)
        assert NAMES & {each["name"] for each in stage.upstream[-1]["tools"]}
        assert {each.status for each in messages(stage)} == {200}


@pytest.mark.release
async def test_turn_of_a_model_that_does_not_take_tools_in_messages_does_not_move_them_to_the_head() -> None:
    async with open_known() as (stage, client):
        for model in (client.model, "claude-sonnet-5", client.model):
            client.model = model
            await exchange(client, stage, "Hello.", [think(), text("Hello.")])
        assert [each.behind for each in await stage.modes()] == [True, False, True]
        for number in range(3):
            await exchange(client, stage, "Read.", [think(), read(f"/{number}.py")], [text("Done.")], size=900)
        assert offered(stage)[-1]


@pytest.mark.release
async def test_tools_stay_through_rewinds_and_changes_by_the_client_and_go_when_their_names_are_taken() -> None:
    async with open_known(breaks=["R10"]) as (stage, client):
        done = [think(), text("Done.")]
        await read_and_evict(client, stage)
        for number in range(2):
            client.tools = [*TOOLS, {**TOOLS[0], "name": f"More{number}"}]
            await exchange(client, stage, "Go on.", [text("Done.")])
        client.tools, whole = TOOLS, list(client.history)
        typed = [number for number, each in enumerate(whole) if each["content"][0]["type"] == "text"]
        for kept in (typed[-2], typed[2]):
            client.history = whole[:kept]
            await exchange(client, stage, "Read more.", [think(), read("/src/more.py")], done, size=600)
            assert offered(stage)[-2:] == [True, True]
        client.tools = [*TOOLS, {**TOOLS[0], "name": "memory_query"}]
        await exchange(client, stage, "And now?", done)
        assert offered(stage)[-1] is False
        assert (await stage.modes())[-1].mode is Mode.BYPASS
        assert {each.status for each in messages(stage)} == {200}


@pytest.mark.release
async def test_managing_switched_off_before_the_tools_join_changes_nothing_and_can_begin_later() -> None:
    async with open_known(Mode.OBSERVE) as (stage, client):
        await exchange(client, stage, "Hello.", [think(), text("Hello.")])
        for on in (True, True, False, True, True):
            await stage.switch(on=on, stream=await stage.stream())
            await exchange(client, stage, "Go on.", [think(), text("Done.")])
        assert [each.body for each in messages(stage)] == client.bodies
        assert [(each.mode, each.behind) for each in await stage.modes()] == [(Mode.OBSERVE, True)]
        for number in range(4):
            reads = [think(), read(f"/src/more_{number}.py")]
            await exchange(client, stage, "Read more.", reads, [think(), text("Done.")], size=900)
        assert offered(stage)[-1]


@pytest.mark.parametrize("open_", [open_known, *rarely([open_talk])], ids=["behind the head", "at the head"])
async def test_request_without_tools_goes_without_the_thinking_that_was_signed_for_another_prompt(
    open_: Callable[[], AbstractAsyncContextManager[tuple[Stage, Client]]],
) -> None:
    async with open_() as (stage, client):
        client.tools, done = TOOLS, [think(), text("Done.")]
        for number in range(3):
            await exchange(client, stage, "Read.", [think(), read(f"/{number}.py")], done, size=900)
        for tools in ([], [], TOOLS):
            client.tools = tools
            reply = await exchange(client, stage, "And now?", [think(), text("Yes.")])
            assert reply["content"][-1] == text("Yes.")
