r"""Walks: random stories. Each is a list of steps, drawn by a generator, that one client takes after another.

A step can be taken in any state and ends every conversation at the end of an exchange, so any part of a walk is a
walk, too: a generator can shrink a failing one. The judge decides how steps must end.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import attrs
from hypothesis import strategies as st

from campaigns.scenarios.agent import (
    TOOLS,
    Agent,
    after_compaction,
    ask,
    call,
    fails,
    file_of,
    look_up,
    marks_in,
    model_replies,
    read,
    redacted,
    release,
    restore,
    rewind,
    text,
    think,
    tool,
)
from campaigns.scenarios.scene import Scene
from campaigns.scenarios.spoken import MEMORY_TOOLS, MESSAGES, THINKING, Json, ReadReply
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import NotFound
from mnemosyne_lab.provider.script import ScriptedReply

MODELS = ("claude-opus-5-5", "claude-opus-5", "claude-fable-5-2", "claude-opus-4-8")
"""Those whose histories may hold messages of the operator."""

MARKERS: tuple[tuple[str | None, Json | None], ...] = ((None, None), ("1h", None), ("1h", {"type": "ephemeral"}))
"""The life of an entry, and the marker of the last messages where it is another."""

PAUSES = (1, 200, 400, 3_700, 4_000)
"""Seconds: within the life of every entry, around five minutes, around an hour."""

MORE_TOOLS: tuple[list[Json], ...] = ([], [tool("mcp__db__query")], [tool("mcp__db__query"), tool("mcp__db__schema")])

FAULTS: tuple[Json, ...] = (
    *({"kind": "cut", "at": event, "inside": byte} for event in range(12) for byte in (0, 1, 20, 90)),
    {"kind": "cut", "at": "message_delta"},
    {"kind": "cut_before_reply"},
    {"kind": "error_event", "at": "content_block_start"},
    {"kind": "error_event", "at": "content_block_stop"},
    {"kind": "error_event", "at": "message_delta"},
)

CUT_OFF = "Your response above was cut off mid-stream. Resume directly from where it stopped."

SUMMARIZE = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools. Write a <summary> of all of it."

FRAME = {"model", "tools", "prompt"}
"""What signed thinking is bound to, besides the history before it."""

TRIES = 8
"""How often a client sends a request that fails before its user says something else."""

Block = tuple[str, int]
"""What the model says, and which."""

ReplyOrFault = tuple[Sequence[Block], Json | int | None]
"""A reply of the model, and what goes wrong with it: a fault of the stream, or a status."""


@attrs.define
class Walk:
    scene: Scene
    agents: list[Agent]
    at: int = 0
    words: int = 0
    settled: set[str] = attrs.field(factory=set)
    """The sessions whose last request had the tools and the system prompt that the next will have."""

    @property
    def agent(self) -> Agent:
        return self.agents[self.at % len(self.agents)]

    @property
    def is_managed(self) -> bool:
        """Whether the last request offered memory tools."""
        tools = self.scene.sent[-1].get("tools", []) if self.scene.sent else []
        return any(f'"{name}"' in json.dumps(tools) for name in MEMORY_TOOLS)

    def word(self) -> str:
        self.words += 1
        return f"Now do number {self.words} of it."

    def hears(self, agent: Agent, replies: Sequence[ReplyOrFault]) -> None:
        """Set the model's next replies, and drop all earlier ones."""
        self.scene.replies.pop(agent.name, None)
        agent.hears(*(self._reply(agent, blocks, fault) for blocks, fault in replies))

    def _reply(self, agent: Agent, blocks: Sequence[Block], fault: Json | int | None) -> ScriptedReply:
        if isinstance(fault, int):
            return fails(fault, retry_after=0.01)
        if fault and "at" in fault:
            fault = {**fault, "at": agent.spoken.places.get(fault["at"], fault["at"])}
        content = [self._block(kind, number) for kind, number in blocks]
        if not content or content[-1]["type"] in THINKING:  # a client that marks two messages cannot mark it
            content.append(text("Well."))
        return model_replies(*content, faults=[fault] if fault else [])

    def _block(self, kind: str, number: int) -> Json:
        match kind:
            case "think":
                return think(f"Number {number}, let me see.")
            case "redacted":
                return redacted()
            case "text":
                return text(f"I look at number {number}.")
            case "read":
                return read(f"/src/part_{number}.py")
            case "write":
                return call("Write", file_path=f"/src/part_{number}.py", content="x = 1\n" * number)
            case "ask":
                return ask(f"What is value_{number}?")
            case "look_up":
                return look_up(f"part_{number}")
            case _:
                marks = marks_in(self.scene.sent[-1:]) if self.scene.sent else []
                mark = marks[number % len(marks)] if marks else "abc1234"
                return restore(mark) if kind == "restore" else release(mark)

    async def until_whole(self, agent: Agent) -> ReadReply:
        """Repeat a request until it has a complete reply, as Claude Code does."""
        for _ in range(TRIES):
            reply = agent.take(await agent.send())
            if reply.ended:
                self.settled.add(agent.session)
                return reply
            partial = [block for block in reply.content if block["type"] == "text" and block["text"]]
            if partial:
                agent.history.append({"role": "assistant", "content": partial})
                agent.add_prompt(text(CUT_OFF))
        raise AssertionError(f"the provider fails {TRIES} times in a row: {agent.last}")

    async def work(self, agent: Agent, words: str, lines: int = 20) -> None:
        agent.add_prompt(text(words))
        await self.finish(agent, lines)

    async def finish(self, agent: Agent, lines: int = 20) -> None:
        """Send the last message and every requested result until the model finishes; files have this many lines."""
        reply = await self.until_whole(agent)
        while reply.message.get("stop_reason") == "tool_use":
            agent.add_prompt(*agent.results(reply, lambda given: file_of(given, lines)))
            reply = await self.until_whole(agent)


Step = Callable[[Walk], Awaitable[None]]


@attrs.frozen
class Works:
    """The user types a prompt, and the model gives these replies in order; files have this many lines."""

    replies: Sequence[ReplyOrFault]
    lines: int = 20

    async def __call__(self, walk: Walk) -> None:
        walk.hears(walk.agent, self.replies)
        await walk.work(walk.agent, walk.word(), self.lines)


@attrs.frozen
class LosesReply:
    """A reply does not reach the client, which repeats the request and gets another reply."""

    replies: Sequence[ReplyOrFault]

    async def __call__(self, walk: Walk) -> None:
        agent = walk.agent
        agent.add_prompt(text(walk.word()))
        walk.hears(agent, self.replies)
        await agent.send()
        await walk.finish(agent)


@attrs.frozen
class Interrupts:
    """The user stops the model at its first calls, and sends another prompt."""

    replies: Sequence[ReplyOrFault]

    async def __call__(self, walk: Walk) -> None:
        agent = walk.agent
        walk.hears(agent, self.replies)
        agent.add_prompt(text(walk.word()))
        reply = await walk.until_whole(agent)
        stopped = [{**each, "content": "[Request interrupted by user]"} for each in agent.results(reply)]
        agent.add_prompt(*stopped, text("[Request interrupted by user for tool use]"), text(walk.word()))
        await walk.finish(agent)


@attrs.frozen
class Disconnects:
    """The client disconnects during a reply, and sends the request again."""

    replies: Sequence[ReplyOrFault]

    async def __call__(self, walk: Walk) -> None:
        agent = walk.agent
        walk.hears(agent, [])
        agent.hears(model_replies(think(), text("A long story."), pace={"between": 3600, "characters": 4}))
        agent.add_prompt(text(walk.word()))
        await agent.disconnect(shown=agent.spoken.begun, rounds=0 if agent.spoken.begun else 1)
        walk.hears(agent, self.replies)
        await walk.finish(agent)


@attrs.frozen
class Rewinds:
    """The user goes back to an earlier prompt and types another."""

    prompt: int
    replies: Sequence[ReplyOrFault]

    async def __call__(self, walk: Walk) -> None:
        agent = walk.agent
        typed = sum(
            message["role"] == "user" and message["content"][0]["type"] != "tool_result" for message in agent.history
        )
        if typed:
            rewind(agent, self.prompt % typed)
        walk.hears(agent, self.replies)
        await walk.work(agent, walk.word())


async def fork(walk: Walk) -> None:
    """The conversation also continues under another name; the new one is the current one."""
    if walk.agent.history:
        walk.agents.append(walk.agent.fork(f"{walk.agent.session}-{len(walk.agents)}"))
        walk.at = len(walk.agents) - 1


async def compact(walk: Walk) -> None:
    """The client has its history summarized, and continues from the summary. It keeps no thinking, which is bound to
    the dropped history. Only Claude Code does so here; Codex's compaction is tested with Codex.
    """
    agent = walk.agent
    if len(agent.history) < 2 or agent.spoken is not MESSAGES:
        return
    agent.history.append({"role": "user", "content": [text(SUMMARIZE)]})
    walk.hears(agent, [([("think", 0), ("text", 0)], None)])
    await walk.until_whole(agent)
    after_compaction(agent, _without_thinking(agent.history[-3]))
    await walk.work(agent, walk.word())


def _without_thinking(message: Json) -> Json:
    content = [block for block in message["content"] if block["type"] not in THINKING]
    return {**message, "content": content or [text("(no content)")]}


async def look_around(walk: Walk) -> None:
    """A sub-agent works in parallel to the conversation."""
    sub = walk.agent.sub_agent(f"sub{walk.words}")
    sub.hears([think(), ask(), read("/src/part_1.py")], [think(), look_up("part_1")])
    await walk.work(sub, walk.word())


async def count_tokens(walk: Walk) -> None:
    """The client asks for the token count of its next request. One that has just changed its tools would be refused
    for its signed thinking, with or without the proxy.
    """
    if walk.agent.session in walk.settled:
        await walk.agent.count(text("How long is this?"))


async def turn_off(walk: Walk) -> None:
    """The user switches managing off for the session."""
    with suppress(NotFound):  # an empty fork is not one yet
        await walk.scene.turn_off(walk.agent.session)


@attrs.frozen
class SwitchesConversation:
    number: int

    async def __call__(self, walk: Walk) -> None:
        walk.at = self.number


@attrs.frozen
class Changes:
    """The client changes its requests from now on."""

    members: dict[str, Any]

    async def __call__(self, walk: Walk) -> None:
        agent = walk.agent
        walk.settled.discard(agent.session)
        if not walk.is_managed and self.members.keys() & FRAME:  # managed, the proxy tracks what thinking is bound to
            agent.history = [_without_thinking(each) if each["role"] == "assistant" else each for each in agent.history]
        for name, value in self.members.items():
            setattr(agent, name, value)


@attrs.frozen
class Pauses:
    seconds: int

    async def __call__(self, walk: Walk) -> None:
        walk.scene.clock.pause(self.seconds)


@attrs.frozen
class Restarts:
    mode: Mode

    async def __call__(self, walk: Walk) -> None:
        await walk.scene.restart(self.mode)


_numbers = st.integers(0, 7)
_shown = st.tuples(st.sampled_from(["text", "read", "write"]), _numbers)
_hidden = st.tuples(st.sampled_from(["ask", "look_up", "restore", "release"]), _numbers)
_thoughts = st.tuples(st.sampled_from(["think", "think", "redacted"]), _numbers)
_blocks = st.builds(
    lambda thoughts, said: [*thoughts, *said],
    st.lists(_thoughts, max_size=1),
    st.lists(st.one_of(_shown, _shown, _hidden), max_size=4),
)
_faults = st.one_of(*([st.none()] * 9), st.sampled_from(FAULTS), st.sampled_from([429, 500, 529]))
_replies = st.lists(st.tuples(_blocks, _faults), min_size=1, max_size=5)
_works = st.builds(Works, _replies, st.sampled_from([5, 20, 120]))
_changes: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(MODELS).map(lambda model: {"model": model}),
    st.sampled_from(MORE_TOOLS).map(lambda more: {"tools": [*TOOLS, *more]}),
    st.sampled_from(MARKERS).map(lambda pair: {"ttl": pair[0], "tail": pair[1]}),
    st.booleans().map(lambda stream: {"stream": stream}),
    st.sampled_from([1, 2]).map(lambda marks: {"marks": marks}),
    st.just({"prompt": "You are an interactive agent; today is another day. "}),
)
_steps: st.SearchStrategy[Step] = st.one_of(
    *([_works] * 6),
    st.builds(LosesReply, _replies),
    st.builds(Interrupts, _replies),
    st.builds(Disconnects, _replies),
    st.builds(Rewinds, _numbers, _replies),
    st.builds(SwitchesConversation, _numbers),
    st.builds(Changes, _changes),
    st.builds(Pauses, st.sampled_from(PAUSES)),
    st.builds(Restarts, st.sampled_from([Mode.MANAGE, Mode.MANAGE, Mode.OBSERVE])),
    st.sampled_from([fork, compact, look_around, count_tokens, turn_off]),
)

walks = st.lists(_steps, min_size=1, max_size=16)


async def take(scene: Scene, steps: Sequence[Step], kind: type[Agent] = Agent) -> None:
    """Take a complete walk with a client of this kind."""
    walk = Walk(scene, [scene.agent(kind=kind)])
    for step in steps:
        await step(walk)
