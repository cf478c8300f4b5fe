"""Forks: sessions resumed under another name, and sub-agents that begin with their parent's history.

The provider cached and signed the requests that the proxy sent for the parent, so a fork must continue from there. A
forked agent has its session's id and its own agent id; it repeats its parent's history, keeps from the last reply only
the call that started it, and adds its task (Claude Code 2.1.332).
"""

import copy
import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.domain.objects.events import ObjectDegraded, ObjectRestored
from mnemosyne.domain.session.directory import stream_of
from mnemosyne.domain.session.events import BranchKind, BranchOpened, TurnBegan, TurnFinished
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.window.rounds import THINKING_REFUSED
from mnemosyne.replay.deciding import review
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import PATIENT, StoppableLog, events_of
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_nothing_of_ours,
    assert_prefixes,
    bare_stage,
    look,
    model_says,
    open_stage,
    open_talk,
    prompt_blocks,
    recall,
    restore,
    results,
    script,
    text,
    think,
)
from tests.http.test_epochs import SMALL, answer, client_of, read, reads, results_of
from tests.http.test_managed import LOOP
from tests.http.test_switching import MODE
from tests.plain.archive import MemoryArchive
from tests.plain.directory import PlainDirectory
from tests.profiles import rarely

SHORT: Json = {"reply": model_says(think("Hm."), text("Yes."))}


def fork(stage: Stage, client: Client, session: str, messages: int | None = None) -> Client:
    """The client under another name, with this many messages of the history."""
    history = copy.deepcopy(client.history[:messages])
    return stage.join(Client(session=session, history=history, tools=client.tools))


async def kinds(stage: Stage, session: str) -> list[BranchKind]:
    events = await events_of(stage.log, stream_of("t", session))
    return [each.kind for each in events if isinstance(each, BranchOpened)]


def refused(stage: Stage) -> list[int | None]:
    return [each.status for each in stage.standin.messages if each.status != 200]


async def test_session_fork_and_fork_of_the_fork_all_continue() -> None:
    async with open_talk(LOOP) as (stage, client):
        await client.work("Where is it?")
        other = fork(stage, client, "forked")
        await client.work("And now?")
        before = len(stage.upstream)
        await other.work("And what else?")
        third = fork(stage, other, "third")
        await other.work("And then?")
        await third.work("And otherwise?")
        await client.work("And later?")
        assert refused(stage) == []
        shared = prompt_blocks(stage.upstream[4])  # the last round of the first exchange
        assert all(prompt_blocks(body)[: len(shared)] == shared for body in stage.upstream[before:])
        assert await kinds(stage, "s") == [BranchKind.MAIN, BranchKind.FORK, BranchKind.FORK]


async def test_fork_does_not_change_its_session() -> None:
    async with open_talk(LOOP) as (stage, client):
        await client.work("Where is it?")
        before = stage.upstream[-1]
        other = fork(stage, client, "forked")
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
        assert [each.branch for each in await stage.events_of(TurnBegan)][-2:] == ["main", "main"]
        assert refused(stage) == []


@pytest.mark.parametrize("server", [Mode.MANAGE, *rarely([Mode.OBSERVE])])
async def test_restarted_server_recognizes_a_fork_and_its_session(server: Mode) -> None:
    async with open_standin({"rules": [LOOP]}) as standin:
        log = StoppableLog()
        async with open_talk(log=log, standin=standin) as (stage, client):
            await client.work("Where is it?")
        other = fork(stage, client, "forked")
        for number in range(3):
            async with open_stage(log=log, standin=standin, mode=server) as stage:
                stage.join(other)
                await other.work(f"And now, {number}?")
        assert refused(stage) == []
        await stage.check(grows=True)


@pytest.mark.parametrize(
    ("slow", "server"),
    [
        ("root_of", Mode.MANAGE),
        ("modes_of", Mode.OBSERVE),
        *rarely([("find_managed", Mode.OBSERVE), ("the session", Mode.MANAGE)]),
    ],
)
async def test_history_of_unknown_origin_is_sent_without_thinking_and_looked_up_later(
    slow: str, server: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stage({"when": {"prompt": "it?"}, **LOOP}, SHORT, mode=server, breaks=["R10"]) as stage:
        client = stage.client(headers={MODE: "manage"})
        await client.work("Where is it?")
        sent = stage.upstream[-1]
        stream, registry = await stage.stream(), stage.process.registry
        other = fork(stage, client, "forked")
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
        assert_prefixes([sent, stage.upstream[-1]])
        assert await kinds(stage, "s") == [BranchKind.MAIN, BranchKind.FORK]


@pytest.mark.parametrize(
    ("server", "in_loop"),
    [(Mode.MANAGE, True), (Mode.OBSERVE, False), *rarely([(Mode.MANAGE, False), (Mode.OBSERVE, True)])],
)
async def test_session_that_another_database_managed_continues_without_its_thinking(
    server: Mode, in_loop: bool
) -> None:
    async with open_standin({}) as standin:
        async with bare_stage(standin=standin, window=SMALL) as stage:
            client = client_of(stage)
            message = await reads(client, stage, {"content": []}, 6)
            assert len(await stage.events_of(EpochBegan)) > 0
            answer(stage, [think(), recall()], [think(), read("/src/last.py")])
            message = await client.turn(*results_of(message))
            if not in_loop:
                answer(stage, [think(), text("It is there.")])
                message = await client.turn(*results_of(message))
        log, before = StoppableLog(), len(standin.messages)
        async with bare_stage(standin=standin, log=log, mode=server) as stage:
            stage.join(client)
            answer(stage, [], *[[think(), read(f"/src/again_{number}.py")] for number in range(3)])
            for _ in range(3):
                message = await client.turn(*(results_of(message) or [text("And the other?")]))
                assert "error" not in message, message
            assert [each.status for each in standin.messages[before:]] == [400, 200, 200, 200]
            assert_prefixes(stage.upstream[before + 1 :])
            assert (await stage.modes())[-1].why == THINKING_REFUSED
            ended = [event.status for event in await stage.events_of(TurnFinished)]
            assert ended == [400, 200, 200, 200]
            again = await review(MemoryArchive(log), str(await stage.stream()))
            assert (again.differences, again.skipped) == ([], [])


@pytest.mark.parametrize("server", [Mode.MANAGE, *rarely([Mode.OBSERVE])])
async def test_client_that_alternates_between_databases_gets_no_refused_thinking(server: Mode) -> None:
    async with (
        open_standin({"rules": [LOOP]}) as standin,
        bare_stage(standin=standin) as one,
        bare_stage(standin=standin, mode=server) as two,
    ):
        client = one.client()
        for number in range(4):
            client.url = (one, two)[number % 2].url
            message = await client.work(f"Where is it, {number}?")
            assert message["content"][-1] == text("It is there.")
        for stage in (one, two):
            again = await review(MemoryArchive(stage.log), str(await stage.stream()))
            assert (again.differences, again.skipped) == ([], [])


async def test_request_that_is_refused_without_thinking_is_not_sent_again() -> None:
    async with open_talk(SHORT, mode=Mode.OBSERVE) as (stage, client):
        await client.work("Where is it?")
        words = "The block is bound to a different conversation."
        stage.standin.script = script({"reply": {"failure": {"status": 400, "message": words}}})
        assert (await client.turn(text("And the other?")))["error"]["message"] == words
        assert [each.status for each in stage.standin.messages] == [200, 400, 400]


async def _never(*_: object) -> None:
    await trio.sleep_forever()


@pytest.mark.release
async def test_fork_after_an_epoch_shows_and_remembers_what_the_session_showed() -> None:
    async with open_stage(window=3 * SMALL) as stage:
        client, message = client_of(stage), Json(content=[])
        while not message["content"] or not await stage.events_of(EpochBegan):
            message = await reads(client, stage, message, 1, first=len(client.history), size=150)
        gone = next(each.object for each in await stage.events_of(ObjectDegraded))
        other = fork(stage, client, "forked")
        before = len(stage.upstream)
        answer(stage, [think(), restore(gone)], [read("/another.py")])
        message = await other.turn(*results_of(message, size=5))
        assert_prefixes(stage.upstream[before - 1 :])
        assert [each.object for each in await stage.events_of(ObjectRestored)] == [gone]
        await reads(other, stage, message, 12, first=20)
        assert refused(stage) == []
        assert max(len(json.dumps(body)) for body in stage.upstream) < len(other.bodies[-1])


async def test_session_with_the_same_first_words_is_not_a_fork() -> None:
    async with bare_stage(SHORT) as stage:
        client = stage.client()
        await client.work("Where is it?")
        other = stage.client(session="another", tools=client.tools)
        stage.standin.script = script({"reply": model_says(think("No."), text("No."))})
        for prompt in ("Where is it?", "And now?"):
            await other.work(prompt)
        assert {*await stage.log.streams()} == {stream_of("t", "s"), stream_of("t", "another")}
        # A history that a client made up, with the same first words and another reply.
        third = fork(stage, other, "third")
        third.history[1]["content"] = [text("Perhaps.")]
        await third.work("And now?")
        *_, own, again = stage.standin.messages
        assert (own.body, own.status, again.status) == (third.bodies[-1], 400, 200)  # its thinking is of the other
        assert len(await stage.log.streams()) == 3


AGENT = "x-claude-code-agent-id"
BOTH = model_says(think("I divide it."), text("Two parts."), look(part="a"), look(part="b"))
DONE = model_says(think("Done."), text("It is done."))
ASKS = {
    "when": {"prompt": "Begin"},
    "replies": [model_says(think("Where?"), text("Let me see."), recall()), BOTH, DONE, DONE, DONE],
}
PART = {"when": {"last": "Your part"}, "reply": model_says(think("I look."), look(at="it"))}


def calls_of(message: Json) -> list[Json]:
    return [block for block in message["content"] if block["type"] == "tool_use"]


def fork_agent(parent: Client, call: Json, agent: str, *, messages: int | None = None, **changes: Any) -> Client:
    """The agent that this call of the parent's last reply started, with this many messages of the history before it."""
    history = copy.deepcopy(parent.history[: -1 if messages is None else messages])
    history.append({"role": "assistant", "content": [call]})
    headers = parent.headers | {AGENT: agent}
    given: dict[str, Any] = {"session": parent.session, "tools": parent.tools, "model": parent.model} | changes
    return Client(parent.url, headers=headers, history=history, **given)


async def begin(agent: Client, call: Json, task: str = "Your part.") -> Json:
    """The agent's first request."""
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "Fork started: you are it."}
    return await agent.turn(result, text(task))


async def work(agent: Client, call: Json) -> Json:
    """Everything that the agent does for its task."""
    message = await begin(agent, call)
    while message.get("stop_reason") == "tool_use":
        message = await agent.turn(*results(message))
    return message


def shared(before: Json, after: Json) -> bool:
    """Whether the provider reads all of one request from its cache for another."""
    earlier = prompt_blocks(before)
    return prompt_blocks(after)[: len(earlier)] == earlier


def refusals(stage: Stage) -> list[object]:
    return [each.status for each in stage.standin.messages if each.status != 200] + [*stage.standin.violations]


async def forks_of(stage: Stage) -> list[tuple[BranchKind, str | None, int, str | None]]:
    """Kind, parent, turn and agent of the branches after the first."""
    opened = await stage.events_of(BranchOpened)
    return [(each.kind, each.parent, each.forked_at, each.agent_id) for each in opened[1:]]


async def test_parallel_forks_share_everything_sent_for_their_parent_with_hidden_rounds() -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = stage.client()
        one, two = calls_of(message := await parent.turn(text("Begin.")))
        sent = stage.upstream[-1]
        assert "memory_query" in json.dumps(sent["messages"])
        forks = [(fork_agent(parent, one, "x1"), one), (fork_agent(parent, two, "x2"), two)]
        async with trio.open_nursery() as nursery:
            for agent, call in forks:
                nursery.start_soon(work, agent, call)
            nursery.start_soon(parent.turn, *results(message))
        assert refusals(stage) == []
        assert all(shared(sent, body) for body in stage.upstream[2:])
        assert {each["name"] for each in stage.upstream[-1]["tools"]} >= {"memory_query", "memory_restore"}
        assert sorted(await forks_of(stage), key=str) == [
            (BranchKind.FORK, "main", 1, "x1"),
            (BranchKind.FORK, "main", 1, "x2"),
        ]
        for agent, _ in forks:
            assert_nothing_of_ours(agent)
        await stage.rounds(at_once=True)


async def test_two_forks_with_one_task_and_their_repeated_requests_are_two_agents() -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = stage.client()
        one, _ = calls_of(await parent.turn(text("Begin.")))
        sent = stage.upstream[-1]
        for agent in ("x1", "x2"):
            await work(fork_agent(parent, one, agent), one)
        await begin(fork_agent(parent, one, "x1"), one)
        assert refusals(stage) == []
        assert all(shared(sent, body) for body in stage.upstream[2:])
        assert await forks_of(stage) == [
            (BranchKind.FORK, "main", 1, "x1"),
            (BranchKind.FORK, "main", 1, "x2"),
        ]
        await stage.rounds(at_once=True)
        (stream,) = await stage.log.streams()
        again = await review(MemoryArchive(stage.log), str(stream))
        assert (again.differences, again.skipped) == ([], [])


async def test_late_fork_begins_where_its_parent_started_it() -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = stage.client()
        _, two = calls_of(message := await parent.turn(text("Begin.")))
        sent = stage.upstream[-1]
        left = len(parent.history) - 1
        await parent.turn(*results(message))
        await parent.turn(text("Go on."))
        await work(fork_agent(parent, two, "x2", messages=left), two)
        assert refusals(stage) == []
        assert all(shared(sent, body) for body in stage.upstream[-2:])
        assert await forks_of(stage) == [(BranchKind.FORK, "main", 1, "x2")]
        await parent.turn(text("And now?"))
        assert refusals(stage) == []


async def test_fork_of_a_fork_and_fork_of_an_agent_continue_from_their_own_parents() -> None:
    once = {"when": {"prompt": "Alone"}, "replies": [model_says(think("I divide."), look(part="c")), DONE, DONE]}
    async with open_stage(PART, once, ASKS) as stage:
        parent = stage.client()
        one, _ = calls_of(await parent.turn(text("Begin.")))
        child = fork_agent(parent, one, "x1")
        [call] = calls_of(await begin(child, one))
        sent = stage.upstream[-1]
        await work(fork_agent(child, call, "x2"), call)
        assert shared(sent, stage.upstream[-1])
        other = stage.client(headers={AGENT: "y"})
        [call] = calls_of(await other.turn(text("Alone.")))
        sent = stage.upstream[-1]
        await work(fork_agent(other, call, "y1"), call)
        assert shared(sent, stage.upstream[-1])
        assert refusals(stage) == []
        assert await forks_of(stage) == [
            (BranchKind.FORK, "main", 1, "x1"),
            (BranchKind.FORK, "fork-1", 2, "x2"),
            (BranchKind.AGENT, "main", 1, "y"),
            (BranchKind.FORK, "agent-1", 1, "y1"),
        ]


@pytest.mark.parametrize("messages", [2, *rarely([8])])
async def test_fork_of_a_rewritten_history_stays_within_the_window(messages: int) -> None:
    async with open_stage(window=SMALL) as stage:
        parent = client_of(stage)
        await reads(parent, stage, {"content": []}, 8)
        assert await stage.events_of(EpochBegan)
        sizes = [len(json.dumps(body)) for body in stage.upstream]
        history, parent.history = parent.history, parent.history[: -messages or None]
        while not (parent.history[-1]["role"] == "assistant" and calls_of(parent.history[-1])):
            parent.history.pop()
        call = calls_of(parent.history[-1])[0]
        agent = fork_agent(parent, call, "x")
        stage.standin.script = script({"reply": DONE})
        await begin(agent, call)
        await agent.turn(text("And then?"))
        assert refusals(stage) == []
        assert all(len(json.dumps(body)) <= max(sizes) for body in stage.upstream[-2:])
        assert len({each["name"] for each in stage.upstream[-1]["tools"]} & NAMES) == 4
        [(kind, owner, *_)] = await forks_of(stage)
        assert (kind, owner) == (BranchKind.FORK, "main")
        parent.history = history


@pytest.mark.parametrize("server", [Mode.MANAGE, *rarely([Mode.OBSERVE])])
async def test_restarted_server_recognizes_the_parent_of_a_fork_and_the_fork(server: Mode) -> None:
    async with open_standin({"rules": [PART, ASKS]}) as standin:
        log = StoppableLog()
        async with open_stage(log=log, standin=standin) as stage:
            parent = stage.client()
            one, _ = calls_of(await parent.turn(text("Begin.")))
            sent = stage.upstream[-1]
        agent = fork_agent(parent, one, "x")
        async with open_stage(log=log, standin=standin, mode=server) as stage:
            stage.join(agent)
            message = await begin(agent, one)
        async with open_stage(log=log, standin=standin, mode=server) as stage:
            stage.join(agent)
            await agent.turn(*results(message))
            assert refusals(stage) == []
            assert all(shared(sent, body) for body in stage.upstream[-2:])
            assert await forks_of(stage) == [(BranchKind.FORK, "main", 1, "x")]


@pytest.mark.parametrize("stranger", ["another key", "another session"])
async def test_another_client_or_session_inherits_nothing(stranger: str) -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = stage.client()
        one, _ = calls_of(await parent.turn(text("Begin.")))
        agent = fork_agent(parent, one, "x")
        if stranger == "another key":
            agent.headers["x-api-key"] = "another"
        else:
            agent.session = "s2"
        await begin(agent, one)
        assert "memory_query" not in json.dumps(stage.upstream[-1])
        streams: Sequence[Any] = await stage.log.streams()
        if stranger == "another key":
            assert (await forks_of(stage))[0][0] is BranchKind.AGENT
        else:
            assert len(streams) == 2
