r"""Conversations that continue under another name: a client resumes a session as a fork with an id of its own.

The provider signed the model's thinking against the history that the proxy had sent, so such a fork must continue
from there.
"""

import copy
import json

import attrs
import pytest
import trio

from mnemosyne.adapters.plain.directory import PlainDirectory
from mnemosyne.domain.objects.events import ObjectDegraded, ObjectRestored
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import BranchKind, BranchOpened, TurnBegan
from mnemosyne.domain.session.round_events import FallbackSent, Mode
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import PATIENT, StoppableLog, events_of
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_nothing_of_ours,
    assert_prefixes,
    look,
    model_says,
    open_stage,
    prompt_blocks,
    recall,
    results,
    script,
    text,
    think,
)
from tests.http.test_epochs import SMALL, answer, client_of, epochs_of, read, reads, restore, results_of
from tests.http.test_managed import LOOP
from tests.http.test_switching import MODE, broken_rules

SHORT: Json = {"reply": model_says(think("Hm."), text("Yes."))}


def fork(client: Client, session: str, messages: int | None = None) -> Client:
    """The client under another name, with this many messages of the history."""
    history = copy.deepcopy(client.history[:messages])
    return Client(client.url, session=session, history=history, tools=client.tools)


async def kinds(stage: Stage, session: str) -> list[BranchKind]:
    """The kinds of a session's branches."""
    events = await events_of(stage.log, stream_of("t", session))
    return [each.kind for each in events if isinstance(each, BranchOpened)]


def refused(stage: Stage) -> list[int | None]:
    return [each.status for each in stage.standin.messages if each.status != 200]


@pytest.mark.parametrize("exchanges", [1, 3])
@pytest.mark.parametrize("rule", [LOOP, SHORT], ids=["loop", "short"])
async def test_fork_continues_from_the_history_sent_for_its_session(exchanges: int, rule: Json) -> None:
    async with open_stage(rule) as stage:
        client = Client(stage.url)
        for number in range(exchanges):
            await client.work(f"Where is it, {number}?")
        other = fork(client, "forked")
        for number in range(2):
            await other.work(f"And where is the other, {number}?")
        assert refused(stage) == []
        assert stage.standin.violations == []
        assert_prefixes(stage.upstream)  # nothing is uncached, and no thinking is lost
        assert_nothing_of_ours(other)
        await stage.rounds()


async def test_session_fork_and_fork_of_the_fork_all_continue() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        other = fork(client, "forked")
        await client.work("And now?")
        before = len(stage.upstream)
        await other.work("And what else?")
        third = fork(other, "third")
        await other.work("And then?")
        await third.work("And otherwise?")
        await client.work("And later?")
        assert refused(stage) == []
        assert stage.standin.violations == []
        shared = prompt_blocks(stage.upstream[4])  # the last round of the first exchange
        assert all(prompt_blocks(body)[: len(shared)] == shared for body in stage.upstream[before:])
        assert await kinds(stage, "s") == [BranchKind.MAIN, BranchKind.FORK, BranchKind.FORK]
        await stage.rounds()


async def test_fork_that_repeats_its_sibling_continues_from_its_own_reply() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        message = await client.turn(text("Where is it?"))
        other = fork(client, "forked")
        for each in (other, client):
            said_next = await each.turn(*results(message))
            await each.turn(*results(said_next))
        assert stage.standin.violations == []
        for body in (stage.upstream[-1], stage.upstream[-4]):  # the last request of each
            assert "and that?" in json.dumps(body["messages"])  # the hidden call in its reply
        await stage.rounds()


async def test_fork_leaves_its_session_unchanged() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        before = stage.upstream[-1]
        other = fork(client, "forked")
        other.headers = {MODE: "off"}
        stage.standin.script = script(SHORT)
        for _ in range(2):
            await other.work("And now?")
        after = len(stage.upstream)
        stage.standin.script = script(LOOP)
        await client.work("And what else?")
        assert_prefixes([before, *stage.upstream[after:]])
        assert [(each.branch, each.mode) for each in await stage.modes()] == [
            ("main", Mode.MANAGE),
            ("fork-1", Mode.BYPASS),
        ]
        assert [each.branch for each in await stage.events() if isinstance(each, TurnBegan)][-2:] == ["main", "main"]
        assert refused(stage) == []
        assert broken_rules(stage) == []
        assert_nothing_of_ours(client)
        await stage.rounds()


async def test_fork_from_the_middle_of_a_session_begins_there() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        for number in range(3):
            await client.work(f"Where is it, {number}?")
        other = fork(client, "forked", messages=6)  # after the first exchange
        await other.work("Something else.")
        assert refused(stage) == []
        assert stage.standin.violations == []
        await stage.rounds()


@pytest.mark.parametrize("server", [Mode.MANAGE, Mode.OBSERVE])
async def test_restarted_server_recognizes_a_fork_and_its_session(server: Mode) -> None:
    async with open_standin({"rules": [LOOP]}) as standin:
        log = StoppableLog()
        async with open_stage(log=log, standin=standin) as stage:
            client = Client(stage.url)
            await client.work("Where is it?")
        other = fork(client, "forked")
        for number in range(3):
            async with open_stage(log=log, standin=standin, mode=server) as stage:
                other.url = stage.url
                await other.work(f"And now, {number}?")
        assert refused(stage) == []
        assert standin.violations == []
        assert_prefixes(stage.upstream)
        await stage.rounds()


@pytest.mark.parametrize("slow", ["root_of", "modes_of", "find_managed", "the session"])
@pytest.mark.parametrize("server", [Mode.MANAGE, Mode.OBSERVE])
async def test_history_of_unknown_origin_is_sent_without_thinking_and_looked_up_later(
    slow: str, server: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stage({"when": {"prompt": "it?"}, **LOOP}, SHORT, mode=server) as stage:
        client = Client(stage.url, headers={MODE: "manage"})
        await client.work("Where is it?")
        sent = stage.upstream[-1]
        stream, registry = await stage.stream(), stage.process.registry
        other = fork(client, "forked")
        with monkeypatch.context() as patch:
            if slow == "the session":
                registry.discard(stream, registry._awake[stream].actor)
                registry.patience = attrs.evolve(PATIENT, loading=0.0)
            else:
                patch.setattr(PlainDirectory, slow, _never)
                registry.patience = attrs.evolve(PATIENT, database=0.0)
            for _ in range(2):
                assert "error" not in await other.turn(text("And the other?"))
            assert len(stage.upstream[-1]["tools"]) == 1
        registry.patience = PATIENT
        assert "error" not in await other.turn(text("And now?"))
        assert refused(stage) == []
        assert broken_rules(stage) == []
        assert_prefixes([sent, stage.upstream[-1]])
        assert await kinds(stage, "s") == [BranchKind.MAIN, BranchKind.FORK]
        assert_nothing_of_ours(other)


async def _never(*_: object) -> None:
    await trio.sleep_forever()


async def without_its_actor(stage: Stage, client: Client, *content: Json) -> Json:
    """A turn that the proxy sends while the session's actor still reads the log."""
    registry = stage.process.registry
    registry.discard(await stage.stream(), registry._awake[await stage.stream()].actor)
    registry.patience = attrs.evolve(PATIENT, loading=0.0)
    message = await client.turn(*content)
    registry.patience = PATIENT
    assert await stage.events_until(FallbackSent)
    return message


async def test_fork_whose_first_request_bypassed_its_actor_still_sends_the_hidden_result() -> None:
    asks = {"when": {"last": "Begin"}, "reply": model_says(think("I look."), look(at="a"), recall())}
    async with open_stage(asks, SHORT) as stage:
        client = Client(stage.url)
        await client.turn(text("Hello."))
        message = await client.turn(text("Begin."))
        shown = len(client.history)
        await client.turn(*results(message))
        await client.turn(text("Go on."))
        del client.history[shown:]
        refusal = {**results(message)[0], "content": "The user said no.", "is_error": True}
        await without_its_actor(stage, client, refusal, text("Do otherwise."))
        for words in ("And now?", "And then?"):
            assert "error" not in await client.turn(text(words))
        assert refused(stage) == []
        answered = [each for each in stage.upstream[-1]["messages"] if "The user said no." in json.dumps(each)]
        assert [block["type"] for block in answered[0]["content"]] == ["tool_result", "tool_result", "text"]
        assert_nothing_of_ours(client)


async def test_fork_whose_first_request_bypassed_its_actor_continues_from_all_earlier_rounds() -> None:
    async with open_stage({"when": {"prompt": "it?"}, **LOOP}, SHORT) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        before = len(stage.upstream)
        other = fork(client, "forked")
        await other.count(text("How much would it be?"))  # by now the origin of the history is known
        await without_its_actor(stage, other, text("And the other?"))
        await other.turn(text("Go on."))
        assert refused(stage) == []
        assert_prefixes([stage.upstream[before - 1], stage.upstream[before + 1]])


async def test_fork_after_an_epoch_shows_and_remembers_what_the_session_showed() -> None:
    async with open_stage(window=3 * SMALL) as stage:
        client, message = client_of(stage), Json(content=[])
        while not message["content"] or not await epochs_of(stage):
            message = await reads(client, stage, message, 1, first=len(client.history), size=150)
        gone = next(each.object for each in await stage.events() if isinstance(each, ObjectDegraded))
        other = fork(client, "forked")
        before = len(stage.upstream)
        answer(stage, [think(), restore(gone)], [read("/another.py")])
        message = await other.turn(*results_of(message, size=5))
        assert_prefixes(stage.upstream[before - 1 :])
        assert [each.object for each in await stage.events() if isinstance(each, ObjectRestored)] == [gone]
        await reads(other, stage, message, 12, first=20)
        assert refused(stage) == []
        assert broken_rules(stage) == []
        assert max(len(json.dumps(body)) for body in stage.upstream) < len(other.bodies[-1])
        await stage.rounds()


async def test_fork_can_be_switched_off() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        other = fork(client, "forked")
        other.headers = {MODE: "off"}
        stage.standin.script = script(SHORT)
        for _ in range(2):
            await other.work("And now?")
        assert refused(stage) == []
        assert broken_rules(stage) == []


async def test_session_with_the_same_first_words_is_not_a_fork() -> None:
    async with open_stage(SHORT) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        other = Client(stage.url, session="another", tools=client.tools)
        stage.standin.script = script({"reply": model_says(think("No."), text("No."))})
        for prompt in ("Where is it?", "And now?"):
            await other.work(prompt)
        assert {*await stage.log.streams()} == {stream_of("t", "s"), stream_of("t", "another")}
        # A history that a client made up, with the same first words and another reply.
        third = fork(other, "third")
        third.history[1]["content"] = [text("Perhaps.")]
        await third.work("And now?")
        assert stage.standin.messages[-1].body == third.bodies[-1]
        assert len(await stage.log.streams()) == 3


async def test_fork_of_an_observed_session_is_a_session_of_its_own() -> None:
    async with open_stage(SHORT, mode=Mode.OBSERVE) as stage:
        client = Client(stage.url)
        for prompt in ("Where is it?", "And now?"):
            await client.work(prompt)
        other = fork(client, "forked")
        await other.work("And then?")
        assert stage.standin.messages[-1].body == other.bodies[-1]
        assert stage.standin.violations == []
        assert {*await stage.log.streams()} == {stream_of("t", "s"), stream_of("t", "forked")}


async def test_fork_may_ask_for_a_title_first_and_call_a_sub_agent() -> None:
    async with open_stage(LOOP) as stage:
        client = Client(stage.url)
        await client.work("Where is it?")
        other = fork(client, "forked")
        title = Client(stage.url, session="forked", tools=[])
        stage.standin.script = script(SHORT)
        for _ in range(2):
            await title.turn(text("A title?"))
        await other.work("And now?")
        agent = Client(stage.url, session="forked", headers={"x-claude-code-agent-id": "a1"})
        await agent.work("Look at it.")
        assert refused(stage) == []
        assert stage.standin.violations == []
        assert await kinds(stage, "s") == [BranchKind.MAIN, BranchKind.FORK, BranchKind.AGENT]
        assert await kinds(stage, "forked") == [BranchKind.SIDE]
