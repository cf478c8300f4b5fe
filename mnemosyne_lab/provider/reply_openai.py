"""A scripted reply in OpenAI's dialects: a chat completion, or the output items of a response; whole or as events.

Pure. The formats are in the documentation of Chat Completions and Responses (streaming events); local servers add
`reasoning_content` and `timings`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import orjson

from mnemosyne_lab.provider.api_errors import openai_error_body
from mnemosyne_lab.provider.cache import PrefixUse
from mnemosyne_lab.provider.choosing import RequestView
from mnemosyne_lab.provider.delivery import CHAT, RESPONSES, Event, Rendering, cut
from mnemosyne_lab.provider.openai_messages import name_item, read_chat_message, read_item, seal, write_message
from mnemosyne_lab.provider.reading import Body, Json, as_dict, as_list, tokens
from mnemosyne_lab.provider.script import Failure, Pace, ScriptedReply

CREATED = 1_767_225_600
"""Seconds since 1970 in every reply: the stand-in has no wall clock."""


@attrs.frozen
class OpenAiContext:
    body: Body
    view: RequestView
    number: int
    next_id: Callable[[], str]
    prefix: PrefixUse
    secret: bytes
    diagnostics: dict[str, Any] | None = None
    """The result of the cache comparison, if the request asks for one."""

    def is_custom(self, tool: str) -> bool:
        """Whether the tool of that name takes a text instead of JSON."""
        return as_dict(self.view.tools.get(tool)).get("type") == "custom"


@attrs.frozen
class Composed:
    """A finished reply. `text` is its form in a chat template."""

    rendering: Rendering
    text: str


def _write_failure(failure: Failure) -> bytes:
    return openai_error_body(failure.status, failure.message, failure.type)


def _write_input(block: dict[str, Json], *, custom: bool) -> str:
    """The arguments of a scripted call: JSON, or the text of a custom tool."""
    given = block.get("input", {})
    return str(as_dict(given).get("input", "")) if custom else orjson.dumps(given).decode()


def _count_output(text: str, blocks: list[dict[str, Any]]) -> tuple[int, int]:
    """Tokens of a reply, and how many of them are reasoning."""
    thought = sum(len(str(block.get("thinking", ""))) for block in blocks if block.get("type") == "thinking")
    return max(1, tokens(len(text))), min(tokens(thought), max(1, tokens(len(text))))


def _add_timings(made: dict[str, Any], context: OpenAiContext, output: int) -> dict[str, Any]:
    """The same with the `timings` that a local server adds."""
    timings = context.prefix.report(output)
    return {**made, "timings": timings} if timings else made


# Chat Completions: one object, or chunks that end with `[DONE]`

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}


def compose_chat(reply: ScriptedReply, context: OpenAiContext) -> Composed:
    message = _make_message(reply, context)
    text = write_message(read_chat_message(message))
    reason = reply.stop_reason or ("tool_use" if "tool_calls" in message else "end_turn")
    finish = _REASONS.get(reason, reason)
    output, reasoning = _count_output(text, reply.blocks)
    usage = {
        "prompt_tokens": context.prefix.total,
        "completion_tokens": output,
        "total_tokens": context.prefix.total + output,
        "prompt_tokens_details": {**context.prefix.details, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": 0},
        **reply.usage,
    }

    def frame(kind: str, *choices: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{context.number:024d}",
            "object": kind,
            "created": CREATED,
            "model": context.body.get("model"),
            "choices": list(choices),
        }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return frame("chat.completion.chunk", choice)

    def make_whole() -> dict[str, Any]:
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        made = {**frame("chat.completion", choice), "usage": usage}
        return _add_timings(made, context, usage["completion_tokens"])

    def make_events() -> Iterator[Event]:
        for delta, wait in _list_deltas(reply, message):
            yield Event("chunk", chunk(delta), wait)
        ends = [("finish", chunk({}, finish))]
        if as_dict(context.body.get("stream_options")).get("include_usage") is True:
            ends.append(("usage", {**frame("chat.completion.chunk"), "usage": usage}))
        for name, data in ends[:-1]:
            yield Event(name, data)
        yield Event(ends[-1][0], _add_timings(ends[-1][1], context, usage["completion_tokens"]))
        yield Event("done", {})

    return Composed(Rendering(CHAT, make_whole, make_events, _write_failure), text)


def _make_message(reply: ScriptedReply, context: OpenAiContext) -> dict[str, Any]:
    thoughts = [str(block["thinking"]) for block in reply.blocks if block["type"] == "thinking"]
    texts = [str(block["text"]) for block in reply.blocks if block["type"] == "text"]
    calls = [_make_chat_call(block, context) for block in reply.blocks if block["type"] == "tool_use"]
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None, "refusal": None}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _make_chat_call(block: dict[str, Json], context: OpenAiContext) -> dict[str, Any]:
    name = str(block["name"])
    custom = context.is_custom(name)
    kind, field = ("custom", "input") if custom else ("function", "arguments")
    called = {"name": name, field: _write_input(block, custom=custom)}
    return {"id": block.get("id") or f"call_{context.next_id()}", "type": kind, kind: called}


def _list_deltas(reply: ScriptedReply, message: dict[str, Any]) -> Iterator[tuple[dict[str, Any], float]]:
    """Each delta, and the seconds before it."""
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


# Responses

_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
"""Stop reasons that leave a response incomplete, in its words."""


def name_response(number: int) -> str:
    return f"resp_{number:024d}"


def compose_responses(reply: ScriptedReply, context: OpenAiContext) -> Composed:
    items = _seal_all([_make_item(block, context) for block in reply.blocks], reply, context)
    text = "".join(write_message(read_item(item)) for item in items)
    finished = _finish(reply, context, items, text)
    last = f"response.{finished['status']}"

    def make_events() -> Iterator[Event]:
        started = _make_response(context)
        events = [
            Event("response.created", {"response": started}),
            Event("response.in_progress", {"response": started}),
            *(event for index, item in enumerate(items) for event in _list_item_events(index, item, reply.pace)),
            Event(last, {"response": finished}),
        ]
        for number, event in enumerate(events):
            yield attrs.evolve(event, data={"sequence_number": number, **event.data})

    form = attrs.evolve(RESPONSES, last=last)
    return Composed(Rendering(form, lambda: finished, make_events, _write_failure), text)


def _make_item(block: dict[str, Json], context: OpenAiContext) -> dict[str, Any]:
    """The output item of a scripted block; a block of another type is an item as it stands."""
    made = context.next_id()
    match block["type"]:
        case "text":
            part = {"type": "output_text", "text": block["text"], "annotations": [], "logprobs": []}
            head = {"id": f"msg_{made}", "type": "message", "status": "completed", "role": "assistant"}
            return {**head, "content": [part]}
        case "thinking" | "redacted_thinking":
            text = str(block.get("thinking", ""))
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"id": f"rs_{made}", "type": "reasoning", "summary": summary}
        case "compaction":
            text = str(block.get("text", ""))
            return {"id": f"cmp_{made}", "type": "compaction", "encrypted_content": seal(context.secret, "", text)}
        case "tool_use":
            return _make_call(block, context, made)
    return dict(block)


def _make_call(block: dict[str, Json], context: OpenAiContext, made: str) -> dict[str, Any]:
    name = str(block["name"])
    custom = context.is_custom(name)
    kind, short, field = ("custom_tool_call", "ctc", "input") if custom else ("function_call", "fc", "arguments")
    rest = {key: value for key, value in block.items() if key not in {"type", "id", "name", "input"}}
    namespace = as_dict(context.view.tools.get(name)).get("namespace")
    return {
        "id": f"{short}_{made}",
        "type": kind,
        "status": "completed",
        "call_id": block.get("id") or f"call_{made}",
        "name": name,
        field: _write_input(block, custom=custom),
        **({} if namespace is None else {"namespace": namespace}),
        **rest,
    }


def _seal_all(items: list[dict[str, Any]], reply: ScriptedReply, context: OpenAiContext) -> list[dict[str, Any]]:
    """Bind each reasoning item to the next item of another type, if the client requests encryption."""
    asked = "reasoning.encrypted_content" in as_list(context.body.get("include"))
    following = ""
    sealed: list[dict[str, Any]] = []
    for item, block in zip(reversed(items), reversed(reply.blocks), strict=True):
        if item["type"] == "reasoning":
            text = str(block.get("thinking", ""))
            item = {**item, "encrypted_content": seal(context.secret, following, text) if asked else None}
        else:
            following = name_item(item)
        sealed.append(item)
    return sealed[::-1]


def _make_response(context: OpenAiContext, **fields: Any) -> dict[str, Any]:
    return {
        "id": name_response(context.number),
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": context.body.get("instructions"),
        "model": context.body.get("model"),
        "output": [],
        "parallel_tool_calls": context.body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "store": context.body.get("store", True),
        "tool_choice": context.body.get("tool_choice", "auto"),
        "tools": as_list(context.body.get("tools")),
        "usage": None,
        "metadata": {},
        **fields,
    }


def _finish(reply: ScriptedReply, context: OpenAiContext, items: list[dict[str, Any]], text: str) -> dict[str, Any]:
    output, reasoning = _count_output(text, reply.blocks)
    usage = {
        "input_tokens": context.prefix.total,
        "input_tokens_details": context.prefix.details,
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": context.prefix.total + output,
        **reply.usage,
    }
    why = _INCOMPLETE.get(reply.stop_reason or "")
    made = _make_response(
        context,
        status="incomplete" if why else "completed",
        incomplete_details={"reason": why} if why else None,
        output=items,
        usage=usage,
        **({"prompt_cache_diagnostics": context.diagnostics} if context.diagnostics else {}),
    )
    return _add_timings(made, context, output)


def _list_item_events(index: int, item: dict[str, Any], pace: Pace) -> Iterator[Event]:
    """Added, its deltas, done. An item without deltas is sent whole in both."""
    place = {"output_index": index, "item_id": item.get("id")}
    opened = {**item, "status": "in_progress"} if "status" in item else dict(item)
    inner: list[Event] = []
    match item["type"]:
        case "message":
            opened["content"] = []
            inner = [*_list_part_events("content", "output_text", place, item["content"], pace)]
        case "reasoning":
            opened["summary"] = []
            inner = [*_list_part_events("summary", "reasoning_summary_text", place, item["summary"], pace)]
        case "function_call" | "custom_tool_call":
            is_custom = item["type"] == "custom_tool_call"
            name, field = ("custom_tool_call_input", "input") if is_custom else ("function_call_arguments", "arguments")
            opened[field] = ""
            pieces = cut(item[field], pace.characters)
            inner = [Event(f"response.{name}.delta", {**place, "delta": piece}, pace.between) for piece in pieces]
            inner.append(Event(f"response.{name}.done", {**place, field: item[field]}))
    yield Event("response.output_item.added", {"output_index": index, "item": opened})
    yield from inner
    yield Event("response.output_item.done", {"output_index": index, "item": item})


def _list_part_events(
    list_name: str, name: str, place: dict[str, Any], parts: list[dict[str, Any]], pace: Pace
) -> Iterator[Event]:
    """The events for the texts of a message or of a summary; those of a summary have no log probabilities."""
    part_name = "content_part" if list_name == "content" else "reasoning_summary_part"
    logged: dict[str, Json] = {"logprobs": []} if list_name == "content" else {}
    for number, part in enumerate(parts):
        here = {**place, f"{list_name}_index": number}
        yield Event(f"response.{part_name}.added", {**here, "part": {**part, "text": ""}})
        for piece in cut(part["text"], pace.characters):
            yield Event(f"response.{name}.delta", {**here, "delta": piece, **logged}, pace.between)
        yield Event(f"response.{name}.done", {**here, "text": part["text"], **logged})
        yield Event(f"response.{part_name}.done", {**here, "part": part})
