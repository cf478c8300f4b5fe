r"""Forked sub-agents, which begin with their parent's history: the provider cached and signed the parent's requests,
so a fork continues from there.

A fork has its session's id and its own agent id. It repeats its parent's history, keeps from the last reply only the
call that started it, and adds its task (Claude Code 2.1.332).
"""

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from mnemosyne.domain.session.events import BranchKind, BranchOpened
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_nothing_of_ours,
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
from tests.http.test_epochs import SMALL, client_of, reads
from tests.http.test_two_proxies import two_stages

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


def fork(parent: Client, call: Json, agent: str, *, messages: int | None = None, **changes: Any) -> Client:
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
    opened = [each for each in await stage.events() if isinstance(each, BranchOpened)]
    return [(each.kind, each.parent, each.forked_at, each.agent_id) for each in opened[1:]]


async def test_parallel_forks_share_everything_sent_for_their_parent_with_hidden_rounds() -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = Client(stage.url)
        one, two = calls_of(message := await parent.turn(text("Begin.")))
        sent = stage.upstream[-1]
        assert "memory_query" in json.dumps(sent["messages"])
        forks = [(fork(parent, one, "x1"), one), (fork(parent, two, "x2"), two)]
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


async def test_late_fork_begins_where_its_parent_started_it() -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = Client(stage.url)
        _, two = calls_of(message := await parent.turn(text("Begin.")))
        sent = stage.upstream[-1]
        left = len(parent.history) - 1
        await parent.turn(*results(message))
        await parent.turn(text("Go on."))
        await work(fork(parent, two, "x2", messages=left), two)
        assert refusals(stage) == []
        assert all(shared(sent, body) for body in stage.upstream[-2:])
        assert await forks_of(stage) == [(BranchKind.FORK, "main", 1, "x2")]
        await parent.turn(text("And now?"))
        assert refusals(stage) == []
        await stage.rounds()


async def test_fork_of_a_fork_and_fork_of_an_agent_continue_from_their_own_parents() -> None:
    once = {"when": {"prompt": "Alone"}, "replies": [model_says(think("I divide."), look(part="c")), DONE, DONE]}
    async with open_stage(PART, once, ASKS) as stage:
        parent = Client(stage.url)
        one, _ = calls_of(await parent.turn(text("Begin.")))
        child = fork(parent, one, "x1")
        [call] = calls_of(await begin(child, one))
        sent = stage.upstream[-1]
        await work(fork(child, call, "x2"), call)
        assert shared(sent, stage.upstream[-1])
        other = Client(stage.url, headers={AGENT: "y"})
        [call] = calls_of(await other.turn(text("Alone.")))
        sent = stage.upstream[-1]
        await work(fork(other, call, "y1"), call)
        assert shared(sent, stage.upstream[-1])
        assert refusals(stage) == []
        assert await forks_of(stage) == [
            (BranchKind.FORK, "main", 1, "x1"),
            (BranchKind.FORK, "fork-1", 2, "x2"),
            (BranchKind.AGENT, "main", 1, "y"),
            (BranchKind.FORK, "agent-1", 1, "y1"),
        ]


@pytest.mark.parametrize("messages", [2, 4, 8])
async def test_fork_of_a_rewritten_history_stays_within_the_window(messages: int) -> None:
    async with open_stage(window=SMALL) as stage:
        parent = client_of(stage)
        await reads(parent, stage, {"content": []}, 12)
        assert [each for each in await stage.events() if isinstance(each, EpochBegan)]
        sizes = [len(json.dumps(body)) for body in stage.upstream]
        history, parent.history = parent.history, parent.history[: -messages or None]
        while not (parent.history[-1]["role"] == "assistant" and calls_of(parent.history[-1])):
            parent.history.pop()
        call = calls_of(parent.history[-1])[0]
        agent = fork(parent, call, "x")
        stage.standin.script = script({"reply": DONE})
        await begin(agent, call)
        await agent.turn(text("And then?"))
        assert refusals(stage) == []
        assert all(len(json.dumps(body)) <= max(sizes) for body in stage.upstream[-2:])
        assert len({each["name"] for each in stage.upstream[-1]["tools"]} & NAMES) == 4
        [(kind, owner, *_)] = await forks_of(stage)
        assert (kind, owner) == (BranchKind.FORK, "main")
        parent.history = history
        await stage.rounds()


@pytest.mark.parametrize("server", [Mode.MANAGE, Mode.OBSERVE])
async def test_restarted_server_recognizes_the_parent_of_a_fork_and_the_fork(server: Mode) -> None:
    async with open_standin({"rules": [PART, ASKS]}) as standin:
        log = StoppableLog()
        async with open_stage(log=log, standin=standin) as stage:
            parent = Client(stage.url)
            one, _ = calls_of(await parent.turn(text("Begin.")))
            sent = stage.upstream[-1]
        agent = fork(parent, one, "x")
        async with open_stage(log=log, standin=standin, mode=server) as stage:
            agent.url = stage.url
            message = await begin(agent, one)
        async with open_stage(log=log, standin=standin, mode=server) as stage:
            agent.url = stage.url
            await agent.turn(*results(message))
            assert refusals(stage) == []
            assert all(shared(sent, body) for body in stage.upstream[-2:])
            assert await forks_of(stage) == [(BranchKind.FORK, "main", 1, "x")]
            await stage.rounds()


async def test_fork_through_another_server_on_the_same_log_continues_from_its_parent() -> None:
    async with two_stages(PART, ASKS) as (one, two):
        first = Client(two.url, headers={AGENT: "early"})
        await first.turn(text("Begin."))  # the other server knows the session but not its next turns
        parent = Client(one.url)
        call, _ = calls_of(await parent.turn(text("Begin.")))
        sent = one.upstream[-1]
        agent = fork(parent, call, "x")
        agent.url = two.url
        await work(agent, call)
        assert refusals(one) == []
        assert shared(sent, one.upstream[-1])
        assert (BranchKind.FORK, "main", 1, "x") in await forks_of(one)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.MANAGE])
async def test_fork_of_an_observed_session_is_a_fork_and_stays_observed(mode: Mode) -> None:
    async with open_standin({"rules": [PART, ASKS]}) as standin:
        log = StoppableLog()
        async with open_stage(log=log, standin=standin, mode=Mode.OBSERVE) as stage:
            parent = Client(stage.url)
            standin.script = script(PART, {"replies": [BOTH, DONE, DONE]})
            one, _ = calls_of(await parent.turn(text("Begin.")))
        async with open_stage(log=log, standin=standin, mode=mode) as stage:
            agent = fork(parent, one, "x")
            agent.url = stage.url
            await work(agent, one)
            assert [each.body for each in standin.messages][1:] == agent.bodies
            assert await forks_of(stage) == [(BranchKind.FORK, "main", 1, "x")]
            assert refusals(stage) == []


@pytest.mark.parametrize("more", [True, False])
async def test_fork_with_other_tools_than_its_parent_still_continues(more: bool) -> None:
    other = {"name": "Other", "description": "Another.", "input_schema": {"type": "object"}}
    async with open_stage(PART, ASKS) as stage:
        parent = Client(stage.url)
        if not more:
            parent.tools = [*parent.tools, other]
        one, _ = calls_of(await parent.turn(text("Begin.")))
        asked = len(stage.upstream)
        agent = fork(parent, one, "x", tools=[*parent.tools, other] if more else parent.tools[:1])
        assert (await work(agent, one))["content"][-1] == text("It is done.")
        assert [each.status for each in stage.standin.messages].count(200) == asked + 2
        assert await forks_of(stage) == [(BranchKind.FORK, "main", 1, "x")]


def _bare_agent(parent: Client, **headers: str) -> Client:
    return Client(parent.url, session=parent.session, headers={AGENT: "y"} | headers)


async def test_agent_with_a_prompt_of_its_own_is_not_a_fork() -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = Client(stage.url)
        await parent.turn(text("Begin."))
        same, own = _bare_agent(parent), Client(stage.url, headers={AGENT: "z"})
        await same.turn(text("Begin."))  # the same prompt without a reply of the model
        await own.work("Your part.")
        assert await forks_of(stage) == [(BranchKind.AGENT, "main", 1, "y"), (BranchKind.AGENT, "main", 1, "z")]


async def test_agents_with_the_same_prompt_and_other_replies_are_not_forks() -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = Client(stage.url)
        await parent.turn(text("Begin."))
        other = _bare_agent(parent)
        other.history = [parent.history[0], {"role": "assistant", "content": [text("Another reply.")]}]
        await other.turn(text("Go on."))
        assert await forks_of(stage) == [(BranchKind.AGENT, "main", 1, "y")]


@pytest.mark.parametrize("stranger", ["another key", "another session"])
async def test_another_client_or_session_inherits_nothing(stranger: str) -> None:
    async with open_stage(PART, ASKS) as stage:
        parent = Client(stage.url)
        one, _ = calls_of(await parent.turn(text("Begin.")))
        agent = fork(parent, one, "x")
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
