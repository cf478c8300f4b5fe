"""Small requests and scripts for the tests of the scripted provider, and an HTTP client for one exchange."""

import json
from typing import Any

import httpx2

from mnemosyne_lab.provider import open_standin
from mnemosyne_lab.provider.server import HttpExchange

Json = dict[str, Any]

HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
TOOL: Json = {"name": "Look", "description": "Looks at a thing.", "input_schema": {"type": "object", "properties": {}}}
TWO_BLOCKS = {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
LOOK = {"content": [{"type": "tool_use", "name": "Look", "input": {"at": "it"}}]}


def user(*content: Json | str) -> Json:
    """A user message of text blocks and others."""
    return {"role": "user", "content": [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]}


def assistant(*content: Json | str) -> Json:
    """An assistant message of text blocks and others."""
    return {**user(*content), "role": "assistant"}


def call(tool_id: str, name: str = "Look", **given: Any) -> Json:
    return {"type": "tool_use", "id": tool_id, "name": name, "input": given}


def result(tool_id: str, text: str = "seen") -> Json:
    """The answer to a tool call."""
    return {"type": "tool_result", "tool_use_id": tool_id, "content": text}


def body(*messages: Json, **fields: Any) -> Json:
    """A request of a current model; `user("hello")` when no message is given."""
    said = list(messages) or [user("hello")]
    return {"model": "claude-opus-5-5", "max_tokens": 100, "messages": said, "tools": [TOOL], **fields}


async def post(url: str, request: Json, path: str = "/v1/messages", **headers: str) -> httpx2.Response:
    """Send one request on a connection of its own."""
    sent = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    # No timeout: under a clock that jumps, waiting costs nothing.
    async with httpx2.AsyncClient(timeout=None) as client:
        return await client.post(url + path, json=request, headers=sent)


def events(payload: bytes) -> list[str]:
    """Names of the events in a stream, in order."""
    return [line[7:] for line in payload.decode().splitlines() if line.startswith("event: ")]


def always(reply: Json, **rule: Any) -> Json:
    return {"rules": [{"reply": reply, **rule}]}


async def streamed(script: Json, *messages: Json, **fields: Any) -> HttpExchange:
    """The server's events for one streaming request."""
    async with open_standin(script) as server:
        await post(server.url, body(*messages, stream=True, **fields))
        return server.exchanges[0]


def datas(exchange: HttpExchange) -> list[Json]:
    return [json.loads(line[6:]) for line in exchange.payload.decode().splitlines() if line.startswith("data: ")]


def deltas(exchange: HttpExchange) -> list[Json]:
    return [data["delta"] for data in datas(exchange) if data["type"] == "content_block_delta"]
