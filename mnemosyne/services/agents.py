"""The agents of sessions: the main agent, and each sub-agent with its type and its depth.

Clients name a sub-agent's type in the call that started it. That call is the one, in the replies of the agent that
called it, whose prompt is in the sub-agent's first request.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.history.time_travel import History, TurnPlace, history_of
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.domain.wire import transcript
from mnemosyne.domain.wire.blocks import CALL, text_of, type_of
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.errors import ContentForgotten, LogDamaged, LogFailed, NotFound, UnknownEvent
from mnemosyne.services import contexts
from mnemosyne.services.quota import add_up_shares, ask_limits, shares_of
from mnemosyne.services.read_models import EVERY_SESSION, Question, ReadModels, Row
from mnemosyne.services.sessions import Archive
from mnemosyne.services.usage import HELPER, AgentType, Consumption, add_up

UNKNOWN = "sub-agent"
"""The type of a sub-agent whose call is not recorded or names none."""

FORK = "fork"
"""The type of a sub-agent that began with the history of the agent that called it."""

TYPES, PROMPTS = ("subagent_type", "agent_type"), ("prompt", "message")
"""The members of a call that starts a sub-agent: Claude Code 2.1.332 and opencode 1.18.33, then Codex 0.171.0."""

TURNS_SEARCHED = 20
"""How many of the caller's turns before a sub-agent's first request are searched for its call."""


@attrs.frozen(kw_only=True)
class AgentUse:
    """The usage of all agents of a type and depth in a session. ``agents`` is their number, ``quota`` the use of a
    subscription's windows by length.
    """

    agent: AgentType
    agents: int
    use: Consumption
    quota: Mapping[str, float]


async def read_agents(
    models: ReadModels, archive: Archive | None, streams: Collection[UUID] | None = None
) -> Mapping[tuple[UUID, str], AgentType]:
    """The agent of each branch, of all sessions or some ``streams``. The types of sub-agents are unknown without an
    archive, and in a damaged session.
    """
    if streams is None:
        (sessions,) = await models.answers(EVERY_SESSION)
        streams = [row["stream"] for row in sessions]
    (rows,) = await models.answers(Question("timeline", "listed_branches", {"streams": list(streams)}))
    agents: dict[tuple[UUID, str], AgentType] = {}
    for stream in dict.fromkeys(row["stream"] for row in rows):
        own = [row for row in rows if row["stream"] == stream]
        history = None
        if archive is not None and any(map(_is_sub_agent, own)):
            with suppress(LogDamaged, UnknownEvent):
                history = history_of(str(stream), await archive.events.read(stream))
        for branch, agent in (await _name_agents(archive, stream, own, history)).items():
            agents[stream, branch] = agent
    return agents


async def read_agent_uses(archive: Archive, models: ReadModels, stream: UUID) -> list[AgentUse]:
    """The usage of a session by agent, in the order of appearance; empty without sub-agents."""
    replies, limits, branches, helpers = await models.answers(
        Question("usage", "used_by_turn", {"stream": stream}),
        ask_limits(stream),
        Question("timeline", "branches", {"stream": stream}),
        Question("budget", "helpers_of", {"stream": stream}),
    )
    if not any(map(_is_sub_agent, branches)):
        return []
    agents = await read_agents(models, archive, [stream])
    helper = AgentType(HELPER)

    def agent_of(branch: str) -> AgentType:
        return agents.get((stream, branch), AgentType(UNKNOWN))

    groups = add_up([*replies, *helpers], lambda row: agent_of(row["branch"]) if "branch" in row else helper)
    shares = {
        span: add_up_shares(
            {key: share for key, share in of_span.items() if key[0] == stream}, lambda key: agent_of(key[1])
        )
        for span, of_span in shares_of(limits).items()
    }
    members = {(agent_of(row["branch"]), row["agent_id"]) for row in branches}
    return [
        AgentUse(
            agent=agent,
            agents=sum(each == agent for each, _ in members),
            use=use,
            quota={span: of_span.get(agent, 0.0) for span, of_span in shares.items()},
        )
        for agent, use in groups.items()
    ]


def _is_sub_agent(row: Row) -> bool:
    return row["agent_id"] is not None or BranchKind(row["kind"]) is BranchKind.AGENT


async def _name_agents(
    archive: Archive | None, stream: UUID, rows: Sequence[Row], history: History | None
) -> Mapping[str, AgentType]:
    """The agent of each branch of one session, from its rows in order. An agent's later windows are its own."""
    by_branch: dict[str, AgentType] = {}
    by_id: dict[str, AgentType] = {}
    owners = {row["branch"]: row["agent_id"] for row in rows}
    for row in rows:
        kind, agent_id = BranchKind(row["kind"]), row["agent_id"]
        if not _is_sub_agent(row):
            by_branch[row["branch"]] = AgentType("main agent" if kind.is_interactive else kind.value)
            continue
        agent = by_id.get(agent_id or row["branch"])
        if agent is None:
            parent = row["parent"]
            depth = by_branch[parent].depth + 1 if parent in by_branch else 1
            is_fork = row["inherits"] and owners.get(parent) != agent_id
            name = FORK if is_fork else await _find_type(archive, stream, history, row)
            agent = by_id[agent_id or row["branch"]] = AgentType(name, depth)
        by_branch[row["branch"]] = agent
    return by_branch


async def _find_type(archive: Archive | None, stream: UUID, history: History | None, row: Row) -> str:
    """The type in the call that started the agent of a branch."""
    if archive is None or history is None or row["parent"] is None:
        return UNKNOWN
    try:
        first = history.at(row["branch"], TurnPlace(1))
        body = (await contexts.rebuild(archive, stream, history, first)).body
        read = transcript.read(body, None, conversation=row["lane"]).transcript
        texts = [
            text_of(block)
            for number, message in enumerate(read.messages)
            if message.role == "user"
            for block in read.blocks(number)
        ]
        for turn in islice(range(row["forked_at"], 0, -1), TURNS_SEARCHED):
            for attempt in history.turn(row["parent"], turn):
                reply = await contexts.read_reply(archive, stream, attempt) or b""
                found = {
                    name: prompt
                    for name, prompt in _list_calls(history.dialect_of(row["parent"]).reply_content(json_object(reply)))
                    if any(prompt in text for text in texts)
                }
                if found:
                    return max(found, key=lambda name: len(found[name]))
    except (NotFound, ContentForgotten, LogFailed):
        pass
    return UNKNOWN


def _list_calls(content: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The calls in a reply that start an agent of a named type: the type, and the prompt."""
    for block in content:
        given = block.get("input") if type_of(block) == CALL else None
        if isinstance(given, dict):
            types = [given[name] for name in TYPES if isinstance(given.get(name), str)]
            prompts = [given[name] for name in PROMPTS if isinstance(given.get(name), str) and given[name].strip()]
            if types and prompts:
                yield types[0], prompts[0]
