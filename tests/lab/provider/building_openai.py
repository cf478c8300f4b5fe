"""Small requests in the two dialects of OpenAI, and their replies."""

import json
from typing import Any

import httpx2

from mnemosyne_lab.provider.server import HttpExchange, Standin
from tests.lab.provider.building import Json

KEY = {"authorization": "Bearer any"}
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
CHAT_TOOL: Json = {"type": "function", "function": {"name": "Look", "parameters": {"type": "object"}}}
TOOL: Json = {"type": "function", "name": "Look", "parameters": {"type": "object"}}
PATCH: Json = {"type": "custom", "name": "Patch"}
THINK: Json = {"type": "thinking", "thinking": "I should look."}
SAY: Json = {"type": "text", "text": "Let me look at it from here."}
LOOK: Json = {"type": "tool_use", "name": "Look", "input": {"at": "the long way round"}}


def chat(*messages: Json, **fields: Any) -> Json:
    """A Chat Completions request; one greeting when no message is given."""
    said = list(messages) or [{"role": "user", "content": "hello"}]
    return {"model": "gpt-5.6", "messages": said, "tools": [CHAT_TOOL], **fields}


def chat_call(call_id: str) -> Json:
    """An assistant's message with one call."""
    function = {"name": "Look", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def chat_result(call_id: str, text: str = "seen") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def asked(*items: Json, **fields: Any) -> Json:
    """A Responses request as stateless clients send it; one greeting when no item is given."""
    said = list(items) or [{"role": "user", "content": "hello"}]
    included = ["reasoning.encrypted_content"]
    return {"model": "gpt-5.6", "input": said, "tools": [TOOL, PATCH], "store": False, "include": included, **fields}


def item_call(call_id: str, kind: str = "function_call") -> Json:
    field = "input" if kind == "custom_tool_call" else "arguments"
    return {"type": kind, "call_id": call_id, "name": "Look", field: "{}"}


def item_result(call_id: str, kind: str = "function_call_output", text: str = "seen") -> Json:
    return {"type": kind, "call_id": call_id, "output": text}


async def send(server: Standin, path: str, request: Json, **headers: str) -> httpx2.Response:
    """One request on a connection of its own."""
    sent = {**KEY, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with httpx2.AsyncClient(timeout=None) as client:
        return await client.post(server.url + path, json=request, headers=sent)


def chunks(exchange: HttpExchange) -> list[Json]:
    """The decoded data of a stream, without the end mark of Chat Completions."""
    lines = [line[6:] for line in exchange.payload.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
