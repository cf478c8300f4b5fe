"""One conversation, in each dialect as its clients and servers write it."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from tests.http import streams

Json = dict[str, Any]


@attrs.frozen
class Call:
    """A tool call with its arguments and its result."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    result: str = "done"


@attrs.frozen
class ModelReply:
    text: str = ""
    thought: str = ""
    calls: Sequence[Call] = ()


@attrs.frozen
class Exchange:
    """A user's message, and the model's replies up to the first without a call."""

    asked: str
    replies: Sequence[ModelReply]


TALK = (
    Exchange(
        "Why does the import fail?",
        [
            ModelReply(
                "Let me look.", "The path may be wrong.", [Call("call_1", "read", {"path": "/app/main.py"}, "import x")]
            ),
            ModelReply(
                calls=[
                    Call("call_2", "bash", {"command": "ls"}, "a\nb"),
                    Call("call_3", "bash", {"command": "pwd"}, "/app"),
                ]
            ),
            ModelReply("The module is missing."),
        ],
    ),
    Exchange("Then add it: zwölf 😀, please.", [ModelReply("Added.")]),
)
PROMPT = "You are a careful agent."


@attrs.frozen
class Written:
    """How a dialect is written: a request with these exchanges (without the last reply), and a reply, whole and
    streamed.
    """

    dialect: Dialect
    request: Callable[[Sequence[Exchange]], Json]
    whole: Callable[[ModelReply], Json]
    stream: Callable[[ModelReply], bytes]


def _arguments(call: Call) -> str:
    return json.dumps(call.arguments)


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


# Messages


def _messages_content(reply: ModelReply) -> list[Json]:
    thought = [{"type": "thinking", "thinking": reply.thought, "signature": "c2ln"}] if reply.thought else []
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)} for call in reply.calls
    ]
    return [*thought, *text, *calls]


def _messages_request(talk: Sequence[Exchange]) -> Json:
    messages: list[Json] = []
    for exchange in talk:
        messages.append({"role": "user", "content": exchange.asked})
        for reply in exchange.replies:
            messages.append({"role": "assistant", "content": _messages_content(reply)})
            if reply.calls:
                results = [
                    {"type": "tool_result", "tool_use_id": call.id, "content": call.result} for call in reply.calls
                ]
                messages.append({"role": "user", "content": results})
    tools = [{"name": "bash", "description": "Run.", "input_schema": {"type": "object"}}]
    return {"model": "claude-opus-5-5", "max_tokens": 99, "system": PROMPT, "tools": tools, "messages": messages}


def _messages_whole(reply: ModelReply) -> Json:
    usage = {"input_tokens": 12, "cache_read_input_tokens": 100, "output_tokens": 9}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": _messages_content(reply),
        "usage": usage,
    }


def _messages_stream(reply: ModelReply) -> bytes:
    def block(value: Json) -> streams.Block:
        match value["type"]:
            case "thinking":
                sealed = {"type": "signature_delta", "signature": value["signature"]}
                return [
                    {**value, "thinking": "", "signature": ""},
                    {"type": "thinking_delta", "thinking": value["thinking"]},
                    sealed,
                ]
            case "text":
                return [{"type": "text", "text": ""}, {"type": "text_delta", "text": value["text"]}]
            case _:
                return [
                    {**value, "input": {}},
                    {"type": "input_json_delta", "partial_json": json.dumps(value["input"])},
                ]

    return streams.stream(streams.message(*map(block, _messages_content(reply))))


# Chat Completions


def _chat_message(reply: ModelReply) -> Json:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
        for call in reply.calls
    ]
    thought = {"reasoning_content": reply.thought} if reply.thought else {}
    return {"role": "assistant", **thought, "content": reply.text or None, **({"tool_calls": calls} if calls else {})}


def _chat_request(talk: Sequence[Exchange]) -> Json:
    messages: list[Json] = [{"role": "system", "content": PROMPT}]
    for exchange in talk:
        messages.append({"role": "user", "content": [{"type": "text", "text": exchange.asked}]})
        for reply in exchange.replies:
            messages.append({key: value for key, value in _chat_message(reply).items() if key != "reasoning_content"})
            messages += [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in reply.calls]
    tools = [
        {"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": {"type": "object"}}}
    ]
    return {
        "model": "qwen",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": tools,
        "messages": messages,
    }


_CHAT_USAGE = {"prompt_tokens": 112, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 100}}


def _chat_whole(reply: ModelReply) -> Json:
    choice = {"index": 0, "message": _chat_message(reply), "finish_reason": "tool_calls" if reply.calls else "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": _CHAT_USAGE}


def _chat_stream(reply: ModelReply) -> bytes:
    deltas: list[Json] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": piece} for piece in (reply.thought[:3], reply.thought[3:]) if piece]
    deltas += [{"content": piece} for piece in (reply.text[:5], reply.text[5:]) if piece]
    for index, call in enumerate(reply.calls):
        begun = {"name": call.name, "arguments": ""}
        head: Json = {"index": index, "id": call.id, "type": "function", "function": begun}
        pieces = _arguments(call)[:4], _arguments(call)[4:]
        deltas += [
            {"tool_calls": [head]},
            *({"tool_calls": [{"index": index, "function": {"arguments": p}}]} for p in pieces),
        ]
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if reply.calls else "stop"}]})
    chunks.append({"choices": [], "usage": _CHAT_USAGE})
    named = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
    return b"".join(b"data: " + _dump({**named, **chunk}) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


# Responses


def _items(reply: ModelReply) -> list[Json]:
    items: list[Json] = []
    if reply.thought:
        summary = [{"type": "summary_text", "text": reply.thought}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "c2VhbGVk"})
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    for made in reply.calls:
        call = {"name": made.name, "arguments": _arguments(made), "call_id": made.id}
        items.append({"type": "function_call", "id": f"fc_{made.id}", **call, "status": "completed"})
    return items


def _responses_request(talk: Sequence[Exchange]) -> Json:
    developer_message = {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "Be brief."}],
    }
    items: list[Json] = [developer_message]
    for exchange in talk:
        asked = [{"type": "input_text", "text": exchange.asked}]
        items.append({"type": "message", "role": "user", "content": asked})
        for reply in exchange.replies:
            items += [
                {key: value for key, value in item.items() if key not in ("id", "status")} for item in _items(reply)
            ]
            items += [
                {"type": "function_call_output", "call_id": call.id, "output": call.result} for call in reply.calls
            ]
    tools = [{"type": "function", "name": "bash", "parameters": {"type": "object"}}, {"type": "web_search"}]
    return {"model": "gpt-5.6", "instructions": PROMPT, "tools": tools, "input": items, "store": False, "stream": True}


_RESPONSES_USAGE = {"input_tokens": 112, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 9}


def _responses_whole(reply: ModelReply) -> Json:
    base = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "error": None}
    return {**base, "output": _items(reply), "usage": _RESPONSES_USAGE}


_BEGUN: Mapping[str, Json] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
}
"""The members that are empty when an item begins."""


def _responses_stream(reply: ModelReply) -> bytes:
    whole = _responses_whole(reply)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        empty = _BEGUN.get(item["type"], {})
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}})
        if item["type"] == "message":
            delta = {"output_index": index, "content_index": 0, "delta": item["content"][0]["text"]}
            events.append({"type": "response.output_text.delta", **delta})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return b"".join(map(streams.frame, events))


WRITTEN = (
    Written(MESSAGES, _messages_request, _messages_whole, _messages_stream),
    Written(CHAT, _chat_request, _chat_whole, _chat_stream),
    Written(RESPONSES, _responses_request, _responses_whole, _responses_stream),
)


def conversation(written: Written) -> str:
    """Return the conversation of the main agent in a dialect."""
    return "main" if written.dialect is MESSAGES else f"{written.dialect.name}/main"


def bodies(written: Written, talk: Sequence[Exchange] = TALK) -> list[bytes]:
    """Return the bodies of all requests of a conversation, as its client sends them."""
    sent: list[bytes] = []
    for number, exchange in enumerate(talk):
        for reached in range(len(exchange.replies)):
            so_far = [*talk[:number], Exchange(exchange.asked, exchange.replies[:reached])]
            sent.append(_dump(written.request(so_far)))
    return sent


def replies(talk: Sequence[Exchange] = TALK) -> list[ModelReply]:
    """Return the model's replies in a conversation."""
    return [reply for exchange in talk for reply in exchange.replies]
