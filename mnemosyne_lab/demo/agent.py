"""A minimal coding agent: it asks, runs the tools that the model calls, and asks again with the results.

It is a plain client of the Messages API and knows nothing of the proxy, except that it names its session in a header.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import orjson

from mnemosyne import __version__
from mnemosyne.domain.wire.blocks import is_call
from mnemosyne.domain.wire.exchange import Upstream, UpstreamRequest
from mnemosyne.errors import UpstreamFailed
from mnemosyne_lab.demo.tools import TOOLS, Workshop

SESSION = "demo"
MAX_TOKENS = 4096

_MARKER = {"cache_control": {"type": "ephemeral"}}

Block = dict[str, Any]


@attrs.define(kw_only=True)
class Agent:
    """One conversation. ``watch`` gets each reply before its calls are run."""

    server: Upstream
    workshop: Workshop
    model: str
    system: str
    watch: Callable[[list[Block]], Awaitable[None]]
    messages: list[dict[str, Any]] = attrs.field(factory=list)

    async def ask(self, prompt: str) -> None:
        """Work on a prompt until the model calls no more tools."""
        content: list[Block] = [{"type": "text", "text": prompt}]
        while content:
            self.messages.append({"role": "user", "content": content})
            reply = await self._next_reply()
            self.messages.append({"role": "assistant", "content": reply})
            await self.watch(reply)
            content = [await self._result(call) for call in reply if is_call(call)]

    async def _result(self, call: Block) -> Block:
        result = await self.workshop.use(call["name"], call["input"])
        return {"type": "tool_result", "tool_use_id": call["id"], "content": result}

    async def _next_reply(self) -> list[Block]:
        """One request and its reply. Raises UpstreamFailed if it is an error."""
        request = UpstreamRequest("POST", b"/v1/messages", _headers(), orjson.dumps(self._body()))
        async with self.server.exchange(request, lambda: None) as reply:
            body = b"".join([chunk async for chunk in reply.chunks()])
            if reply.head.status != 200:
                raise UpstreamFailed(f"The demo got status {reply.head.status}: {body.decode(errors='replace')}")
        content: list[Block] = orjson.loads(body)["content"]
        return content

    def _body(self) -> dict[str, Any]:
        *before, last = self.messages
        return {
            "model": self.model,
            "max_tokens": MAX_TOKENS,
            "system": [{"type": "text", "text": self.system, **_MARKER}],
            "tools": TOOLS,
            "messages": [*before, _mark(last)],
        }


def _headers() -> tuple[tuple[bytes, bytes], ...]:
    headers = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": "the stand-in takes any",
        "user-agent": f"mnemosyne-demo/{__version__}",
        "x-mnemosyne-session": SESSION,
    }
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


def _mark(message: dict[str, Any]) -> dict[str, Any]:
    """The message with a cache marker on its last block."""
    *blocks, last = message["content"]
    return {**message, "content": [*blocks, {**last, **_MARKER}]}
