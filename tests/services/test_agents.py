"""A sub-agent's type is in the call that started it: the one whose prompt its first request contains."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.domain.ports import Append
from mnemosyne.domain.session.events import BranchOpened
from mnemosyne.services.agents import read_agent_uses, read_agents
from mnemosyne.services.unstructuring import as_json
from mnemosyne.services.usage import AgentType
from tests.actors.support import StoppableLog, events_of, open_process
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.raw_client import exchange
from tests.plain.archive import MemoryArchive
from tests.services.answers import Answers

Json = dict[str, Any]

HEADERS = [
    (b"content-type", b"application/json"),
    (b"user-agent", b"claude-cli/2.1.332 (external)"),
    (b"x-claude-code-session-id", b"s"),
]
TOOLS = [{"name": "Agent", "input_schema": {"type": "object"}}]


def call(prompt: str, kind: str | None) -> Json:
    given = {"prompt": prompt, "description": "x"} | ({"subagent_type": kind} if kind is not None else {})
    return {"type": "tool_use", "id": f"toolu_{prompt}", "name": "Agent", "input": given}


def reply(*content: Json) -> tuple[str, bytes]:
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "usage": usage}
    return "application/json", json.dumps({**message, "content": list(content)}).encode()


def ask(*messages: tuple[str, Sequence[Json] | str], agent: str | None = None, caller: str | None = None) -> Json:
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "tools": TOOLS}
    names = {"x-claude-code-agent-id": agent, "x-claude-code-parent-agent-id": caller}
    return {
        "body": {**body, "messages": [{"role": role, "content": content} for role, content in messages]},
        "headers": [(name.encode(), value.encode()) for name, value in names.items() if value is not None],
    }


async def talk(*turns: tuple[Json, tuple[str, bytes]]) -> StoppableLog:
    """Send requests, each with the reply to play back."""
    log = StoppableLog()
    async with (
        open_playback([answer for _, answer in turns]) as provider,
        open_process(log) as process,
        open_proxy(provider.url, process.opener) as proxy,
    ):
        for asked, _ in turns:
            body = json.dumps(asked["body"]).encode()
            await exchange(proxy.url, "/v1/messages", body, headers=[*HEADERS, *asked["headers"]])
    return log


async def branches_in(log: StoppableLog) -> tuple[UUID, list[Json]]:
    """The session, and its branches as the read model has them."""
    (stream,) = await log.streams()
    opened = [event for event in await events_of(log, stream) if isinstance(event, BranchOpened)]
    return stream, [{**as_json(attrs.asdict(event)), "stream": stream} for event in opened]


async def agents_in(log: StoppableLog) -> Mapping[str, AgentType]:
    stream, rows = await branches_in(log)
    models = Answers({("timeline", "listed_branches"): rows, ("timeline", "sessions"): [{"stream": stream}]})
    return {branch: agent for (_, branch), agent in (await read_agents(models, MemoryArchive(log))).items()}


REMINDER = {"type": "text", "text": "<system-reminder>x</system-reminder>"}
MAIN = ask(("user", "Delegate."))
CALLS = reply(call("Look", "Explore"), call("Look at the tests", "Plan"), call("Go", None))
DONE = reply({"type": "text", "text": "Done."})


def task(prompt: str, agent: str, caller: str | None = None) -> Json:
    return ask(("user", [REMINDER, {"type": "text", "text": prompt}]), agent=agent, caller=caller)


async def test_parallel_agents_are_told_apart_by_their_prompts() -> None:
    plan, look, unnamed = task("Look at the tests", "a1"), task("Look", "a2"), task("Go", "a3")
    agents = await agents_in(await talk((MAIN, CALLS), (plan, DONE), (look, DONE), (unnamed, DONE)))
    assert agents == {
        "main": AgentType("main agent"),
        "agent-1": AgentType("Plan", 1),
        "agent-2": AgentType("Explore", 1),
        "agent-3": AgentType("sub-agent", 1),
    }


async def test_an_agent_that_a_sub_agent_called_is_one_deeper() -> None:
    nested = reply(call("Deeper", "Review"))
    turns = [(MAIN, CALLS), (task("Look", "a1"), nested), (task("Deeper", "a2", "a1"), DONE)]
    agents = await agents_in(await talk(*turns))
    assert (agents["agent-1"], agents["agent-2"]) == (AgentType("Explore", 1), AgentType("Review", 2))
    assert str(agents["agent-2"]) == "Review, depth 2"


async def test_a_fork_is_named_by_its_history() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_Go on", "content": "Fork started."}
    answer = [result, {"type": "text", "text": "Go on"}]
    forked = ask(("user", "Delegate."), ("assistant", [call("Go on", "fork")]), ("user", answer), agent="a1")
    agents = await agents_in(await talk((MAIN, reply(call("Go on", "fork"))), (forked, DONE)))
    assert agents["fork-1"] == AgentType("fork", 1)


async def test_agents_of_a_damaged_session_have_no_type() -> None:
    whole, damaged = await talk((MAIN, CALLS), (task("Look", "a1"), DONE)), StoppableLog()
    stream, rows = await branches_in(whole)
    events = [each.envelope for each in await whole.read(stream)]
    kept = [each for each in events if not isinstance(each.event, BranchOpened)]
    await damaged.append(Append(stream, 0, tuple(kept)))
    models = Answers({("timeline", "listed_branches"): rows})
    agents = await read_agents(models, MemoryArchive(damaged), [stream])
    assert agents[stream, "agent-1"] == AgentType("sub-agent", 1)


@pytest.mark.parametrize("has_agents", [True, False])
async def test_usage_of_a_session_adds_up_by_agent(has_agents: bool) -> None:
    log = await talk((MAIN, CALLS), *([(task("Look", "a1"), DONE)] if has_agents else []))
    stream, rows = await branches_in(log)
    terms = {
        "replied": None,
        "size": 0,
        "service_tier": None,
        "inference_geo": None,
        "speed": None,
        "web_searches": 0,
        "replies": 1,
    }
    counts = {"input": 10, "output": 1, "read": 0, "write_5m": 0, "write_1h": 0, "model": "claude-opus-5-5", **terms}
    models = Answers(
        {
            ("timeline", "listed_branches"): rows,
            ("timeline", "branches"): rows,
            ("usage", "used_by_turn"): [{**counts, "branch": row["branch"]} for row in rows],
        }
    )
    uses = await read_agent_uses(MemoryArchive(log), models, stream)
    assert [(use.agent.name, use.agents, use.use.tokens.input) for use in uses] == (
        [("main agent", 1, 10), ("Explore", 1, 10)] if has_agents else []
    )
