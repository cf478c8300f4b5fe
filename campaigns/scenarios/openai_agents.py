r"""Clients of OpenAI's two dialects with the same behaviour as the others: Codex 0.169.0, and opencode 1.18.33 with
a Chat Completions provider.

Their histories are kept in the form of the Messages API, and converted to their own form when sent.
"""

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

import attrs

from campaigns.scenarios.agent import OPERATOR, REMINDER, Agent, text
from campaigns.scenarios.spoken import CHAT, RESPONSES, Json, ReadReply, Spoken

MODELS: Mapping[str, str] = {
    "claude-opus-5-5": "gpt-5.5",
    "claude-opus-5": "gpt-5.6",
    "claude-fable-5-2": "gpt-5.5-mini",
    "claude-opus-4-8": "gpt-5.4",
}
"""What such a client asks where others ask a model of Anthropic's."""


@attrs.define(kw_only=True)
class OpenAiAgent(Agent):
    def add_prompt(self, *content: Json) -> None:
        self.prompts += not any(block["type"] == "tool_result" for block in content)
        opening = [] if self.history else [text(REMINDER), text(OPERATOR)]
        self.history.append({"role": "user", "content": [*opening, *content]})

    def take(self, reply: ReadReply) -> ReadReply:
        if reply.ended:
            self.history.append({"role": "assistant", "content": self.spoken.kept(reply.content) or [text("Nothing.")]})
        return reply

    async def count(self, *content: Json) -> int:
        """These dialects have no token count request."""
        return 0

    def instructions(self) -> str:
        return f"You are Claude Code. [{self.name}] " + self.prompt * 40

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        sent = {"content-type": "application/json", "authorization": "Bearer k", **self.naming(), **self.headers}
        return [(name.encode(), value.encode()) for name, value in sent.items() if value]


@attrs.define(kw_only=True)
class ResponsesAgent(OpenAiAgent):
    """A Responses client, which keeps every item unchanged."""

    target: str = "/v1/responses"
    headers: Json = attrs.field(factory=lambda: {"user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown"})
    spoken: ClassVar[Spoken] = RESPONSES

    def naming(self) -> Json:
        return {"session-id": self.session, "thread-id": self.agent or self.session}

    def body(self) -> bytes:
        tools = [{"type": "function", **_function(each)} for each in self.tools]
        own: Json = {"model": MODELS[self.model], "instructions": self.instructions(), "store": False}
        own |= {"input": [item for each in self.history for item in _items(each)]}
        own |= {"include": ["reasoning.encrypted_content"], "prompt_cache_key": self.session, "stream": self.stream}
        return json.dumps(own | ({"tools": tools} if tools else {}), ensure_ascii=False).encode()


def _items(message: Json) -> Iterator[Json]:
    """A message as items; adjacent texts are one."""
    texts: list[Json] = []
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    for block in [*message["content"], {"type": "end"}]:
        if block["type"] == "text" and (kind == "input_text" or not texts):
            texts.append({"type": kind, "text": block["text"]})
            continue
        if texts:
            yield {"type": "message", "role": message["role"], "content": texts}
            texts = [{"type": kind, "text": block["text"]}] if block["type"] == "text" else []
        match block["type"]:
            case "thinking":
                yield block["item"]
            case "tool_use":
                named = {"call_id": block["id"], "name": block["name"], "arguments": block["raw"]}
                yield {"type": "function_call", **named}
            case "tool_result":
                yield {"type": "function_call_output", "call_id": block["tool_use_id"], "output": block["content"]}


@attrs.define(kw_only=True)
class ChatAgent(OpenAiAgent):
    """A Chat Completions client, which keeps no thinking."""

    target: str = "/v1/chat/completions"
    headers: Json = attrs.field(factory=lambda: {"user-agent": "opencode/1.18.33 ai-sdk/provider-utils/4.0.46"})
    spoken: ClassVar[Spoken] = CHAT

    def naming(self) -> Json:
        return {"x-session-id": self.agent or self.session, "x-parent-session-id": self.session if self.agent else None}

    def body(self) -> bytes:
        tools = [{"type": "function", "function": _function(each)} for each in self.tools]
        own: Json = {"model": MODELS[self.model], "stream": self.stream}
        own["messages"] = [
            {"role": "system", "content": self.instructions()},
            *(each for message in self.history for each in _messages(message)),
        ]
        own |= {"stream_options": {"include_usage": True}} if self.stream else {}
        return json.dumps(own | ({"tools": tools} if tools else {}), ensure_ascii=False).encode()


def _messages(message: Json) -> Iterator[Json]:
    words = [block["text"] for block in message["content"] if block["type"] == "text"]
    if message["role"] == "assistant":
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        called: list[Json] = [
            {"id": each["id"], "type": "function", "function": {"name": each["name"], "arguments": each["raw"]}}
            for each in calls
        ]
        said: Json = {"role": "assistant", "content": "\n".join(words) or None}
        yield {**said, "tool_calls": called} if called else said
        return
    for block in message["content"]:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
    if words:
        yield {"role": "user", "content": [{"type": "text", "text": each} for each in words]}


def _function(tool: Json) -> Json:
    """A tool of the Messages API in the form of this dialect."""
    return {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
