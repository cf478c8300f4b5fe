"""A coding agent as small as can be: it asks, runs the tools that the model calls, and asks again with the results.

It is a plain client of the Messages API and knows nothing of the proxy, but that it names its session in a header.
"""

from typing import Any, Protocol

import attrs
import orjson

from mnemosyne import __version__
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.exchange import Upstream, UpstreamRequest
from mnemosyne.errors import UpstreamFailed
from mnemosyne.http.sse import FrameReader
from mnemosyne_lab.demo import tools
from mnemosyne_lab.demo.tools import Workshop

SESSION = "demo"
MAX_TOKENS = 4096

_MARKER = {"cache_control": {"type": "ephemeral"}}

Block = dict[str, Any]


class Audience(Protocol):
    """An observer of the agent."""

    async def answering(self) -> None:
        """The head of a reply is here."""

    async def hear(self, kind: str, text: str) -> None:
        """A piece of a `text` or `thinking` block has arrived."""

    async def end_block(self, block: Block) -> None:
        """A block has arrived whole."""

    async def end_reply(self) -> None:
        """The reply is at its end."""

    async def note_result(self, call: Block, result: str) -> None:
        """A tool has run."""

    def deeper(self) -> "Audience":
        """The observer of a sub-agent."""


@attrs.define(kw_only=True)
class Agent:
    """One context window. The main agent has no ``agent_id``."""

    server: Upstream
    workshop: Workshop
    audience: Audience
    model: str
    system: str
    reviewer: str
    tools: list[dict[str, Any]] = attrs.field(
        factory=lambda: [tools.READ, tools.BASH, tools.EDIT, tools.AGENT],
    )
    agent_id: str | None = None
    messages: list[dict[str, Any]] = attrs.field(factory=list)

    async def ask(self, prompt: str) -> str:
        """Work on a prompt until the model calls no more tools; return its final text."""
        self.messages.append({"role": "user", "content": [{"type": "text", "text": prompt}]})
        while True:
            reply = await self._next_reply()
            self.messages.append({"role": "assistant", "content": reply})
            calls = [block for block in reply if is_call(block)]
            if not calls:
                return "".join(block["text"] for block in reply if block["type"] == "text")
            self.messages.append({"role": "user", "content": [await self._result(call) for call in calls]})

    async def _result(self, call: Block) -> Block:
        if call["name"] == tools.AGENT["name"]:
            result = await self._review(call["input"]["prompt"])
        else:
            result = await self.workshop.use(call["name"], call["input"])
            await self.audience.note_result(call, result)
        return {"type": "tool_result", "tool_use_id": call["id"], "content": result}

    async def _review(self, prompt: str) -> str:
        reviewer = attrs.evolve(
            self,
            audience=self.audience.deeper(),
            system=self.reviewer,
            tools=[tools.READ],
            agent_id="reviewer",
            messages=[],
        )
        return await reviewer.ask(prompt)

    async def _next_reply(self) -> list[Block]:
        """One request and its reply, which arrives piece by piece. Raises UpstreamFailed if it is an error."""
        request = UpstreamRequest("POST", b"/v1/messages", self._headers(), orjson.dumps(self._body()))
        async with self.server.exchange(request, lambda: None) as reply:
            if reply.head.status != 200:
                body = b"".join([chunk async for chunk in reply.chunks()])
                raise UpstreamFailed(f"The demo got status {reply.head.status}: {body.decode(errors='replace')}")
            await self.audience.answering()
            reader, message = FrameReader(), _Message(self.audience)
            async for chunk in reply.chunks():
                for frame in reader.feed(chunk):
                    if frame.data is not None:
                        await message.take(orjson.loads(frame.data))
        await self.audience.end_reply()
        return message.blocks

    def _headers(self) -> tuple[tuple[bytes, bytes], ...]:
        headers = {
            "content-type": "application/json",
            "anthropic-version": "2023-06-01",
            "x-api-key": "the stand-in takes any",
            "user-agent": f"mnemosyne-demo/{__version__}",
            "x-mnemosyne-session": SESSION,
        }
        if self.agent_id is not None:
            headers["x-claude-code-agent-id"] = self.agent_id
        return tuple((name.encode(), value.encode()) for name, value in headers.items())

    def _body(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "max_tokens": MAX_TOKENS,
            "stream": True,
            "thinking": {"type": "adaptive"},
            "system": [{"type": "text", "text": self.system, **_MARKER}],
            "tools": self.tools,
            "messages": [*self.messages[:-1], _mark(self.messages[-1])],
        }


def _mark(message: dict[str, Any]) -> dict[str, Any]:
    """The message with a cache marker on its last block."""
    *blocks, last = message["content"]
    return {**message, "content": [*blocks, {**last, **_MARKER}]}


class _Message:
    """Puts a streamed message together, and lets the audience hear it."""

    def __init__(self, audience: Audience) -> None:
        self.blocks: list[Block] = []
        self._audience = audience
        self._input = ""

    async def take(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "content_block_start":
                self.blocks.append(event["content_block"])
                self._input = ""
            case "content_block_delta":
                await self._add(event["delta"])
            case "content_block_stop":
                if self._input:
                    self.blocks[-1]["input"] = orjson.loads(self._input)
                await self._audience.end_block(self.blocks[-1])
            case "error":
                raise UpstreamFailed(f"The demo got an error: {event['error']}")

    async def _add(self, delta: dict[str, Any]) -> None:
        block = self.blocks[-1]
        match delta["type"]:
            case "input_json_delta":
                self._input += delta["partial_json"]
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "text_delta":
                block["text"] += delta["text"]
                await self._audience.hear("text", delta["text"])
            case "thinking_delta":
                block["thinking"] += delta["thinking"]
                await self._audience.hear("thinking", delta["thinking"])
