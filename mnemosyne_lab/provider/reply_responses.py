"""A scripted reply as a response: output items, whole or as events.

Pure. The format is in the Responses documentation (streaming events).
"""

from collections.abc import Iterator
from typing import Any

import attrs

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
from mnemosyne_lab.provider.reading import Json, as_dict, as_list
from mnemosyne_lab.provider.script import Pace, ScriptedReply
from mnemosyne_lab.provider.sealing import name_item, seal
from mnemosyne_lab.provider.stream_events import RESPONSES, Event
from mnemosyne_lab.provider.templates import write_item

_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
"""Stop reasons that leave a response incomplete, in its words."""


def compose_responses(reply: ScriptedReply, context: OpenAiContext) -> Composed:
    """The reply as a response."""
    items = _seal_all([_item(block, context) for block in reply.blocks], reply, context)
    text = "".join(map(write_item, items))
    finished = _finish(reply, context, items, text)
    last = f"response.{finished['status']}"
    rendering = Rendering(
        form=attrs.evolve(RESPONSES, last=last),
        make_whole=lambda: finished,
        make_events=lambda: list(_number(_events(reply.pace, context, items, finished))),
        write_failure=write_failure,
    )
    return Composed(rendering, text)


def _item(block: dict[str, Json], context: OpenAiContext) -> dict[str, Any]:
    """The output item of a scripted block; a block of another type is an item as it stands."""
    made = context.next_id()
    match block["type"]:
        case "text":
            part = {"type": "output_text", "text": block["text"], "annotations": [], "logprobs": []}
            return {
                "id": f"msg_{made}",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        case "thinking" | "redacted_thinking":
            text = str(block.get("thinking", ""))
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"id": f"rs_{made}", "type": "reasoning", "summary": summary}
        case "compaction":
            text = str(block.get("text", ""))
            return {"id": f"cmp_{made}", "type": "compaction", "encrypted_content": seal(context.secret, "", text)}
        case "tool_use":
            return _call(block, context, made)
    return dict(block)


def _call(block: dict[str, Json], context: OpenAiContext, made: str) -> dict[str, Any]:
    name = str(block["name"])
    custom = context.is_custom(name)
    kind, short, field = ("custom_tool_call", "ctc", "input") if custom else ("function_call", "fc", "arguments")
    rest = {key: value for key, value in block.items() if key not in {"type", "id", "name", "input"}}
    namespace = as_dict(context.view.tools.get(name)).get("namespace")
    if namespace is not None:
        rest = {"namespace": namespace, **rest}
    return {
        "id": f"{short}_{made}",
        "type": kind,
        "status": "completed",
        "call_id": block.get("id") or f"call_{made}",
        "name": name,
        field: write_input(block, custom=custom),
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


def name_response(number: int) -> str:
    """The id of the response to a request of this number."""
    return f"resp_{number:024d}"


def _response(context: OpenAiContext, **fields: Any) -> dict[str, Any]:
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
    """The complete response."""
    output, reasoning = count_output(text, reply.blocks)
    usage = {
        "input_tokens": context.prefix.total,
        "input_tokens_details": context.prefix.details,
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": context.prefix.total + output,
        **reply.usage,
    }
    why = _INCOMPLETE.get(reply.stop_reason or "")
    made = _response(
        context,
        status="incomplete" if why else "completed",
        incomplete_details={"reason": why} if why else None,
        output=items,
        usage=usage,
        **({"prompt_cache_diagnostics": context.diagnostics} if context.diagnostics else {}),
    )
    return add_timings(made, context.prefix, output)


def _number(events: Iterator[Event]) -> Iterator[Event]:
    for number, event in enumerate(events):
        yield attrs.evolve(event, data={"sequence_number": number, **event.data})


def _events(
    pace: Pace, context: OpenAiContext, items: list[dict[str, Any]], finished: dict[str, Any]
) -> Iterator[Event]:
    started = _response(context)
    yield Event("response.created", {"response": started})
    yield Event("response.in_progress", {"response": started})
    for index, item in enumerate(items):
        yield from _item_events(index, item, pace)
    yield Event(f"response.{finished['status']}", {"response": finished})


def _item_events(index: int, item: dict[str, Any], pace: Pace) -> Iterator[Event]:
    """Added, its deltas, done. An item without deltas is sent whole in both."""
    opened = dict(item)
    if "status" in item:
        opened["status"] = "in_progress"
    place = {"output_index": index, "item_id": item.get("id")}
    inner: Iterator[Event] = iter(())
    match item["type"]:
        case "message":
            opened["content"] = []
            inner = _text_events(place, item["content"][0], pace)
        case "reasoning":
            opened["summary"] = []
            inner = _summary_events(place, item["summary"], pace)
        case "function_call":
            opened["arguments"] = ""
            inner = _call_events("response.function_call_arguments", "arguments", place, item, pace)
        case "custom_tool_call":
            opened["input"] = ""
            inner = _call_events("response.custom_tool_call_input", "input", place, item, pace)
    yield Event("response.output_item.added", {"output_index": index, "item": opened})
    yield from inner
    yield Event("response.output_item.done", {"output_index": index, "item": item})


def _text_events(place: dict[str, Any], part: dict[str, Any], pace: Pace) -> Iterator[Event]:
    place = {**place, "content_index": 0}
    yield Event("response.content_part.added", {**place, "part": {**part, "text": ""}})
    for piece in cut(part["text"], pace.characters):
        yield Event("response.output_text.delta", {**place, "delta": piece, "logprobs": []}, pace.between)
    yield Event("response.output_text.done", {**place, "text": part["text"], "logprobs": []})
    yield Event("response.content_part.done", {**place, "part": part})


def _summary_events(place: dict[str, Any], summary: list[dict[str, Any]], pace: Pace) -> Iterator[Event]:
    for number, part in enumerate(summary):
        here = {**place, "summary_index": number}
        yield Event("response.reasoning_summary_part.added", {**here, "part": {**part, "text": ""}})
        for piece in cut(part["text"], pace.characters):
            yield Event("response.reasoning_summary_text.delta", {**here, "delta": piece}, pace.between)
        yield Event("response.reasoning_summary_text.done", {**here, "text": part["text"]})
        yield Event("response.reasoning_summary_part.done", {**here, "part": part})


def _call_events(name: str, field: str, place: dict[str, Any], item: dict[str, Any], pace: Pace) -> Iterator[Event]:
    for piece in cut(item[field], pace.characters):
        yield Event(f"{name}.delta", {**place, "delta": piece}, pace.between)
    yield Event(f"{name}.done", {**place, field: item[field]})
