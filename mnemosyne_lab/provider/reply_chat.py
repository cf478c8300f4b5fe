"""A scripted reply as a chat completion: one object, or chunks that end with `[DONE]`.

Pure. The format is in the Chat Completions documentation; local servers add `reasoning_content`.
"""

from collections.abc import Iterator
from typing import Any

from mnemosyne_lab.provider.composing import (
    CREATED,
    Composed,
    OpenAiContext,
    add_timings,
    count_output,
    write_failure,
    write_input,
)
from mnemosyne_lab.provider.delivery import Rendering, cut
from mnemosyne_lab.provider.reading import Json, as_dict
from mnemosyne_lab.provider.script import ScriptedReply
from mnemosyne_lab.provider.stream_events import CHAT, Event
from mnemosyne_lab.provider.templates import write_chat_message

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}


def compose_chat(reply: ScriptedReply, context: OpenAiContext) -> Composed:
    """The reply as a chat completion."""
    message = _message(reply, context)
    text = write_chat_message(message)
    rendering = Rendering(
        form=CHAT,
        make_whole=lambda: _whole(reply, context, message),
        make_events=lambda: list(_events(reply, context, message)),
        write_failure=write_failure,
    )
    return Composed(rendering, text)


def _message(reply: ScriptedReply, context: OpenAiContext) -> dict[str, Any]:
    thoughts = [str(block["thinking"]) for block in reply.blocks if block["type"] == "thinking"]
    texts = [str(block["text"]) for block in reply.blocks if block["type"] == "text"]
    calls = [_call(block, context) for block in reply.blocks if block["type"] == "tool_use"]
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None, "refusal": None}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: dict[str, Json], context: OpenAiContext) -> dict[str, Any]:
    name = str(block["name"])
    custom = context.is_custom(name)
    kind, field = ("custom", "input") if custom else ("function", "arguments")
    called = {"name": name, field: write_input(block, custom=custom)}
    return {"id": block.get("id") or f"call_{context.next_id()}", "type": kind, kind: called}


def _finish(reply: ScriptedReply, message: dict[str, Any]) -> str:
    reason = reply.stop_reason or ("tool_use" if "tool_calls" in message else "end_turn")
    return _REASONS.get(reason, reason)


def _usage(reply: ScriptedReply, context: OpenAiContext, message: dict[str, Any]) -> dict[str, Any]:
    output, reasoning = count_output(write_chat_message(message), reply.blocks)
    return {
        "prompt_tokens": context.prefix.total,
        "completion_tokens": output,
        "total_tokens": context.prefix.total + output,
        "prompt_tokens_details": {**context.prefix.details, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
        **reply.usage,
    }


def _frame(context: OpenAiContext, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{context.number:024d}",
        "object": kind,
        "created": CREATED,
        "model": context.body.get("model"),
        "choices": choices,
    }


def _whole(reply: ScriptedReply, context: OpenAiContext, message: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply, message)}
    usage = _usage(reply, context, message)
    made = {**_frame(context, "chat.completion", [choice]), "usage": usage}
    return add_timings(made, context.prefix, usage["completion_tokens"])


def _events(reply: ScriptedReply, context: OpenAiContext, message: dict[str, Any]) -> Iterator[Event]:
    for delta, wait in _deltas(reply, message):
        yield Event("chunk", _chunk(context, delta), wait)
    usage = _usage(reply, context, message)
    output = usage["completion_tokens"]
    last = _chunk(context, {}, _finish(reply, message))
    if as_dict(context.body.get("stream_options")).get("include_usage") is True:
        yield Event("finish", last)
        counted = {**_frame(context, "chat.completion.chunk", []), "usage": usage}
        yield Event("usage", add_timings(counted, context.prefix, output))
    else:
        yield Event("finish", add_timings(last, context.prefix, output))
    yield Event("done", {})


def _chunk(context: OpenAiContext, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _frame(context, "chat.completion.chunk", [choice])


def _deltas(reply: ScriptedReply, message: dict[str, Any]) -> Iterator[tuple[dict[str, Any], float]]:
    """Each delta and the seconds before it."""
    yield {"role": "assistant", "content": None if message["content"] is None else ""}, 0
    for field in ("reasoning_content", "content"):
        for part in cut(message.get(field) or "", reply.pace.characters):
            yield {field: part}, reply.pace.between
    for index, call in enumerate(message.get("tool_calls", ())):
        kind = call["type"]
        field = "input" if kind == "custom" else "arguments"
        opened = {**call, kind: {**call[kind], field: ""}}
        yield {"tool_calls": [{"index": index, **opened}]}, 0
        for part in cut(call[kind][field], reply.pace.characters):
            yield {"tool_calls": [{"index": index, kind: {field: part}}]}, reply.pace.between
