"""A client that behaves as Claude Code 2.1.329: its extra requests and fields, and how it stores replies."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from campaigns.scenarios.spoken import MESSAGES, Json, ReadReply, Spoken
from mnemosyne_lab.provider.script import ScriptedReply, from_data
from tests.http.managing import bare, recall, restore, text, think
from tests.http.raw_client import RawReply, connect, exchange

if TYPE_CHECKING:
    from campaigns.scenarios.scene import Scene

__all__ = ["Agent", "ask", "restore", "text", "think"]

ask = recall

BETAS = (
    "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,per-turn-control-2026-07-01,"
    "mid-conversation-tool-changes-2026-07-01,effort-2025-11-24,prompt-caching-scope-2026-01-05"
)
BILLING = "x-anthropic-billing-header: cc_version=2.1.329.4ef; cc_entrypoint=cli; cch={};"
OPERATOR = "Working directory: /home/u/app. Never push to main. Agents: Explore, Plan. Skills: pdf, commit. " * 20
REMINDER = "<system-reminder>\n# CLAUDE.md\nUse tabs. Never touch the folder vendor.\n</system-reminder>"
NO_SYSTEM_MESSAGES = ("claude-sonnet-4-6", "claude-haiku-4-5", "claude-sonnet-5")


def tool(name: str, **more: Any) -> Json:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {"name": name, "description": f"{name} does what it says. " * 5, "input_schema": schema, **more}


TOOLS = [tool(name) for name in ("Read", "Edit", "Write", "Bash", "Grep", "Task", "WebFetch")]


def redacted() -> Json:
    return {"type": "redacted_thinking"}


def call(name: str, **given: Any) -> Json:
    return {"type": "tool_use", "name": name, "input": given}


def read(path: str) -> Json:
    return call("Read", file_path=path)


def look_up(words: str = "parser") -> Json:
    return call("memory_search", query=words)


def release(*objects: str) -> Json:
    return call("memory_release", object_ids=list(objects), reason="done")


def model_replies(*content: Json, **options: Any) -> ScriptedReply:
    (rule,) = from_data({"rules": [{"reply": {"content": list(content), **options}}]}).rules
    assert rule.reply is not None
    return rule.reply


def fails(status: int, message: str | None = None, **options: Any) -> ScriptedReply:
    return model_replies(failure={"status": status, **({"message": message} if message else {}), **options})


@attrs.define(kw_only=True)
class Agent:
    """One conversation. ``turn`` sends the user's text or tool results, and adds the reply to the history."""

    scene: "Scene" = attrs.field(repr=False)
    name: str
    session: str
    agent: str | None = None
    """The name of a sub-agent."""
    model: str = "claude-opus-5-5"
    tools: list[Json] = attrs.field(factory=lambda: list(TOOLS))
    prompt: str = "You are an interactive agent that helps with software. "
    members: Json = attrs.field(factory=lambda: {"thinking": {"type": "adaptive"}, "max_tokens": 32000})
    betas: str = BETAS
    headers: Json = attrs.field(factory=dict)
    ttl: str | None = None
    tail: Json | None = None
    """The marker of its last messages, if it differs from the system prompt's."""
    stream: bool = True
    marks: int = 1
    """How many of the last messages it marks."""
    target: str = "/v1/messages?beta=true"
    history: list[Json] = attrs.field(factory=list)
    last: ReadReply | None = None
    prompts: int = 0
    spoken: ClassVar[Spoken] = MESSAGES

    # Requests

    @property
    def marker(self) -> Json:
        return {"type": "ephemeral", **({"ttl": self.ttl} if self.ttl else {})}

    def system(self) -> list[Json]:
        identity = f"You are Claude Code. [{self.name}]"
        return [
            text(BILLING.format(f"{self.prompts:05x}")),  # a new one with each prompt
            {**text(identity), "cache_control": self.marker},
            {**text(self.prompt * 40), "cache_control": self.marker},
        ]

    def body(self) -> bytes:
        user = {"device_id": "d" * 64, "account_uuid": "", "session_id": self.session}
        edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
        own: Json = {"model": self.model, "system": self.system(), "messages": self.marked()}
        own |= {"metadata": {"user_id": json.dumps(user)}} | self.members
        if "context-management" in self.betas and self.tools:
            own["context_management"] = edits
        if self.tools:
            own["tools"] = self.tools
        if self.stream:
            own["stream"] = True
        return json.dumps(own, ensure_ascii=False).encode()

    def marked(self) -> list[Json]:
        """The history as sent: a lone text without a marker as a string; markers on the last messages."""
        sent = []
        for number, message in enumerate(self.history):
            if number >= len(self.history) - self.marks and message["content"]:
                *before, last = message["content"]
                markable = last["type"] not in ("thinking", "redacted_thinking")
                sent.append({**message, "content": [*before, {**last, "cache_control": self.tail or self.marker}]})
                assert markable
            elif message["role"] == "user" and [block["type"] for block in message["content"]] == ["text"]:
                sent.append({**message, "content": message["content"][0]["text"]})
            else:
                sent.append(message)
        return sent

    def naming(self) -> Json:
        """The headers that identify its requests."""
        named = {"x-claude-code-session-id": self.session, "x-claude-code-agent-id": self.agent}
        return {key: self.headers.get(key, value) for key, value in named.items()}

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        sent = {
            "content-type": "application/json",
            "x-api-key": "k",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": self.betas,
            "user-agent": "claude-cli/2.1.329 (external, cli)",
            "x-app": "cli",
            **self.naming(),
            **self.headers,
        }
        return [(name.encode(), value.encode()) for name, value in sent.items() if value]

    # Actions

    def hears(self, *replies: ScriptedReply | list[Json]) -> None:
        """The model's replies to the next requests, in order."""
        found = [model_replies(*each) if isinstance(each, list) else each for each in replies]
        self.scene.replies.setdefault(self.name, []).extend(found)

    async def send(self) -> ReadReply:
        """Send the history once, and have the judge check the reply."""
        body = self.body()
        return self.judge_reply(body, await exchange(self.scene.url, self.target, body, headers=self.raw_headers()))

    def judge_reply(self, body: bytes, raw: RawReply) -> ReadReply:
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in raw.headers}
        self.last = self.spoken.read(raw.status, headers, raw.body, cut=raw.cut)
        self.scene.judge.observe(self.spoken, body, self.last, raw.body, raw.headers, self.naming())
        self.scene.check()
        return self.last

    async def disconnect(self, *, shown: bytes = b"", rounds: int = 0) -> RawReply:
        """Send the history, and disconnect as soon as this was ``shown``, or the provider received this many
        ``rounds``.
        """
        body, reply = self.body(), RawReply()
        async with connect(self.scene.url) as connection:
            await connection.send("POST", self.target, body, self.raw_headers())
            if rounds:
                await self.scene.provider_asked(rounds)
            else:
                async with aclosing(connection.pieces(reply)) as pieces:
                    async for _ in pieces:
                        if shown in reply.body:
                            break
        await self.scene.quiet()
        self.scene.judge.observe(self.spoken, body, None, reply.body, reply.headers, self.naming())
        self.scene.check()
        return reply

    def add_prompt(self, *content: Json) -> None:
        """Add a user message to the history; the first one with Claude Code's additions around it."""
        if not any(block["type"] == "tool_result" for block in content):
            self.prompts += 1
        if self.history:
            self.history.append({"role": "user", "content": list(content)})
            return
        with_system = not self.model.startswith(NO_SYSTEM_MESSAGES) and self.agent is None
        if with_system:
            self.history = [{"role": "user", "content": [text(REMINDER), *content]}]
            self.history.append({"role": "system", "content": [text(OPERATOR)]})
        else:
            self.history = [{"role": "user", "content": [text(REMINDER), text(OPERATOR), *content]}]

    async def turn(self, *content: Json) -> ReadReply:
        """Send a message, and add the reply to the history."""
        self.add_prompt(*content)
        return self.take(await self.send())

    async def prompt_with(self, words: str) -> ReadReply:
        return await self.turn(text(words))

    def take(self, reply: ReadReply) -> ReadReply:
        """Add a reply to the history, as JavaScript serializes it."""
        if reply.ended:
            content = [block for block in reply.content if block.get("text", "x") or block["type"] != "text"]
            self.history.append({"role": "assistant", "content": content or [text("(no content)")]})
        return reply

    async def work(self, words: str, output: Callable[[Json], Any] | None = None) -> ReadReply:
        """A prompt and every requested result until the model finishes."""
        reply = await self.prompt_with(words)
        while reply.message.get("stop_reason") == "tool_use":
            reply = await self.turn(*self.results(reply, output))
        return reply

    def results(self, reply: ReadReply, output: Callable[[Json], Any] | None = None) -> list[Json]:
        """The tool results for the calls of a reply; ``output`` makes the content of each, by default the file."""
        calls = [block for block in reply.content if block["type"] == "tool_use"]
        return [
            {"type": "tool_result", "tool_use_id": each["id"], "content": (output or file_of)(each)} for each in calls
        ]

    async def count(self, *content: Json) -> int:
        """The token count of the history with this message, which is not kept."""
        self.history.append({"role": "user", "content": list(content)})
        body = json.loads(self.body())
        self.history.pop()
        asked = {key: body[key] for key in body if key not in ("stream", "max_tokens", "metadata")}
        raw, target = json.dumps(asked).encode(), "/v1/messages/count_tokens?beta=true"
        found = json.loads((await exchange(self.scene.url, target, raw, headers=self.raw_headers())).body)
        assert set(found) == {"input_tokens"}, found
        return int(found["input_tokens"])

    def fork(self, session: str) -> "Agent":
        """The same conversation under another name, as `--resume ID --fork-session` makes it."""
        return attrs.evolve(self, session=session, history=list(bare(self.history)), tools=list(self.tools))

    def sub_agent(self, agent: str, **options: Any) -> "Agent":
        """A sub-agent of the conversation: it shares the session, and has its own prompt, tools and history."""
        return type(self)(
            scene=self.scene,
            name=f"{self.name}/{agent}",
            session=self.session,
            agent=agent,
            tools=self.tools[:4],
            prompt="You look things up for another agent. ",
            headers=dict(self.headers),
            **options,
        )


def file_of(given: Json, lines: int = 50) -> str:
    """A client tool's result: each file is the same whenever it is read."""
    name = str(given["input"].get("file_path") or given["input"] or given["name"])
    if given["name"] in ("Write", "Edit"):
        return f"The file {name} has been updated."
    return "".join(f"{number + 1:6}\tvalue_{number} = '{name}'\n" for number in range(lines))


def marks_in(messages: Sequence[Json]) -> list[str]:
    """The object ids in the memory marks of a request."""
    return list(dict.fromkeys(re.findall(r"#([a-z0-9]{7})[ \]]", json.dumps(messages))))


def rewind(agent: Agent, prompt: int) -> None:
    """Esc Esc: the prompt of that number is typed again."""
    typed = [
        number
        for number, message in enumerate(agent.history)
        if message["role"] == "user" and message["content"][0]["type"] != "tool_result"
    ]
    del agent.history[typed[prompt] :]


def after_compaction(agent: Agent, last: Json) -> None:
    """Claude Code's history after a compaction: the assistant's last text stays, and two user messages follow."""
    first = "This session is being continued from a previous conversation that ran out of context. It was about files."
    kept = [block for block in last["content"] if block["type"] != "tool_use"]
    agent.history = [
        {"role": "user", "content": [text(first)]},
        {"role": "system", "content": [], "output_config": {"effort": "medium"}},
        {"role": "assistant", "content": kept},
        {"role": "user", "content": [text("<system-reminder>The file /a.py was read before.</system-reminder>")]},
    ]
