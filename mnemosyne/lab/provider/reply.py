"""A scripted reply becomes bytes and waits.

Blocks first (ids and signatures are filled in), then either one JSON message or a stream of events, then the faults of
the script, then the framing. Pure. The format of the events is that of the Messages API documentation (streaming).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import orjson

from mnemosyne.lab.provider.api_errors import failure_steps, whole
from mnemosyne.lab.provider.cache import CacheUse
from mnemosyne.lab.provider.faults import apply
from mnemosyne.lab.provider.reading import Body, Headers, Json, as_dict, header, list_placed, messages, text_in, tokens
from mnemosyne.lab.provider.script import Raw, ScriptedReply
from mnemosyne.lab.provider.signatures import Conversation
from mnemosyne.lab.provider.stream_events import Event
from mnemosyne.lab.provider.wire_steps import Chunk, CloseIdle, Cut, Head, HeaderLines, Step, Wait, compress, frame


@attrs.frozen
class ReplyContext:
    """What a reply depends on besides the script."""

    body: Body
    headers: Headers
    message_id: str
    request_id: str
    tool_id: Callable[[], str]
    """Makes the next id of a tool call."""
    use: CacheUse
    conversation: Conversation
    """At the end of the request; thinking blocks are signed with it."""
    transformations: list[dict[str, str]]
    """Entries for `input_transformations`, empty when there is nothing to tell."""
    response_headers: HeaderLines


def steps_for(reply: ScriptedReply, context: ReplyContext) -> list[Step]:
    """Everything that happens on the connection for this reply."""
    if any(fault.kind == "cut_before_reply" for fault in reply.faults):
        reset = any(fault.reset for fault in reply.faults)
        return [*_waiting(reply.pace.first), Cut(reset)]
    headers = [*context.response_headers, *reply.transport.headers]
    if reply.raw is not None:
        return [*_waiting(reply.pace.first), *raw_steps(reply.raw)]
    if reply.failure is not None:
        steps = failure_steps(reply.failure, context.request_id, headers)
    elif context.body.get("stream") is True:
        steps = _stream(reply, context, headers)
    else:
        steps = _at_once(reply, context, headers)
    steps = list(frame(steps, reply.transport.framing))
    if reply.transport.close_after:
        steps.append(CloseIdle())
    if reply.transport.gzip and "gzip" in (header(context.headers, "accept-encoding") or ""):
        steps = list(compress(steps))
    return [*_waiting(reply.pace.first), *steps]


def _waiting(seconds: float) -> list[Step]:
    return [Wait(seconds)] if seconds else []


def raw_steps(raw: Raw) -> list[Step]:
    """A literal response."""
    body = raw.payload()
    names = {name.lower() for name, _ in raw.headers}
    headers = list(raw.headers)
    if not names & {"content-length", "transfer-encoding"}:
        headers.append(("content-length", str(len(body))))
    return [Head(raw.status, headers, raw.reason, literal=True), *([Chunk(body)] if body else [])]


def blocks_of(reply: ScriptedReply, context: ReplyContext) -> list[dict[str, Json]]:
    """The reply's content blocks, complete, as a request without streaming gets them."""
    scripted = list(reply.content)
    if reply.text is not None:
        scripted.append({"type": "text", "text": reply.text})
    shown = as_dict(context.body.get("thinking")).get("display") != "omitted"
    same_id = _id_to_repeat(context) if any(fault.kind == "duplicate_tool_id" for fault in reply.faults) else None
    finished: list[dict[str, Json]] = []
    for block in scripted:
        block = dict(block)
        match block.get("type"):
            case "thinking":
                block["thinking"] = str(block.get("thinking", "")) if shown else ""
                block["signature"] = block.get("signature") or context.conversation.sign(block["thinking"])
            case "redacted_thinking":
                block["data"] = block.get("data") or context.conversation.sign("")
            case "tool_use":
                name, given = block.pop("name", ""), find_in(block.pop("input", {}), context.body)
                block["id"] = same_id or block.get("id") or context.tool_id()
                block = {"type": "tool_use", "id": block["id"], "name": name, "input": given, **block}
                context.conversation.add("assistant", block)
            case _:
                context.conversation.add("assistant", block)
        finished.append(block)
    return finished


def _id_to_repeat(context: ReplyContext) -> str:
    used = [item.block.get("id") for item in list_placed(context.body) if item.type == "tool_use"]
    return str(used[-1]) if used else context.tool_id()


def find_in(value: Json, body: Body) -> Json:
    """The value with each `{"$find": "regex"}` replaced by the expression's last match in the messages' text."""
    if isinstance(value, list):
        return [find_in(entry, body) for entry in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"$find"}:
        return {key: find_in(entry, body) for key, entry in value.items()}
    text = "\n".join(text_in(message) for message in messages(body))
    found = list(re.finditer(str(value["$find"]), text))
    if not found:
        return ""
    return found[-1].group(1) if found[-1].groups() else found[-1].group(0)


def _usage(reply: ScriptedReply, context: ReplyContext, output: int, final: bool) -> dict[str, Any]:
    use = context.use
    usage: dict[str, Any] = {
        "input_tokens": use.uncached,
        "cache_creation_input_tokens": use.write_5m + use.write_1h,
        "cache_read_input_tokens": use.read,
    }
    if not final:
        usage["cache_creation"] = {
            "ephemeral_5m_input_tokens": use.write_5m,
            "ephemeral_1h_input_tokens": use.write_1h,
        }
    usage["output_tokens"] = output
    if not final:
        usage["service_tier"] = "standard"
    return {**usage, **reply.usage}


def _stop(reply: ScriptedReply, blocks: list[dict[str, Json]]) -> dict[str, Any]:
    calls = any(block.get("type") == "tool_use" for block in blocks)
    reason = reply.stop_reason or ("tool_use" if calls else "end_turn")
    stop: dict[str, Any] = {"stop_reason": reason, "stop_sequence": reply.stop_sequence}
    if reply.stop_details is not None:
        stop["stop_details"] = reply.stop_details
    return stop


def _output_tokens(blocks: list[dict[str, Json]]) -> int:
    return max(1, tokens(sum(len(orjson.dumps(block)) for block in blocks)))


def _message(context: ReplyContext, blocks: list[dict[str, Json]]) -> dict[str, Any]:
    return {
        "id": context.message_id,
        "type": "message",
        "role": "assistant",
        "model": context.body.get("model"),
        "content": blocks,
    }


def _transformations(context: ReplyContext) -> dict[str, Any]:
    return {"input_transformations": context.transformations} if context.transformations else {}


def _at_once(reply: ScriptedReply, context: ReplyContext, headers: HeaderLines) -> list[Step]:
    blocks = blocks_of(reply, context)
    usage = _usage(reply, context, _output_tokens(blocks), final=False)
    message = {**_message(context, blocks), **_stop(reply, blocks), "usage": usage, **_transformations(context)}
    steps = whole(200, headers, orjson.dumps(message))
    for fault in reply.faults:
        if fault.kind == "silence":
            steps.insert(0, Wait(fault.seconds))
        elif fault.kind == "cut":
            assert isinstance(steps[-1], Chunk)
            kept = steps[-1].data[: fault.inside or len(steps[-1].data) // 2]
            return [*steps[:-1], Chunk(kept), Cut(fault.reset)]
    return steps


def _stream(reply: ScriptedReply, context: ReplyContext, headers: HeaderLines) -> list[Step]:
    blocks = blocks_of(reply, context)
    events = list(_events(reply, context, blocks))
    head = Head(200, [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"), *headers])
    return [head, *apply(reply.faults, events)]


def _events(reply: ScriptedReply, context: ReplyContext, blocks: list[dict[str, Json]]) -> Iterator[Event]:
    started = {
        **_message(context, []),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(reply, context, 1, final=False),
        **_transformations(context),
    }
    yield Event("message_start", {"message": started})
    if reply.pace.ping:
        yield Event("ping", {})
    gap = any(fault.kind == "index_gap" for fault in reply.faults)
    restart = any(fault.kind == "restart_index" for fault in reply.faults)
    for number, block in enumerate(blocks):
        index = 0 if restart else number + (gap and number > 0)
        yield from block_events(index, block, reply)
    usage = _usage(reply, context, _output_tokens(blocks), final=True)
    yield Event("message_delta", {"delta": _stop(reply, blocks), "usage": usage, **_transformations(context)})
    if not any(fault.kind == "no_message_stop" for fault in reply.faults):
        yield Event("message_stop", {})


def block_events(index: int, block: dict[str, Json], reply: ScriptedReply) -> Iterator[Event]:
    """Start, deltas and stop of one block. A type without deltas is sent whole in its start."""
    pieces: list[tuple[str, str, str]] = []
    opened = dict(block)
    match block.get("type"):
        case "text":
            opened["text"] = ""
            pieces = [("text_delta", "text", part) for part in _cut(str(block["text"]), reply.pace.characters)]
        case "thinking":
            opened = {**block, "thinking": "", "signature": ""}
            pieces = [("thinking_delta", "thinking", part) for part in _cut(block["thinking"], reply.pace.characters)]
            pieces.append(("signature_delta", "signature", block["signature"]))
        case "tool_use":
            opened["input"] = {}
            written = orjson.dumps(block["input"]).decode() if block["input"] else ""
            fragments = ["", *_cut(written, reply.pace.characters)]
            pieces = [("input_json_delta", "partial_json", part) for part in fragments]
    yield Event("content_block_start", {"index": index, "content_block": opened})
    for kind, field, part in pieces:
        delta = {"type": kind, field: part}
        yield Event("content_block_delta", {"index": index, "delta": delta}, reply.pace.between)
    yield Event("content_block_stop", {"index": index})


def _cut(text: str, size: int) -> list[str]:
    size = max(1, size)
    return [text[start : start + size] for start in range(0, len(text), size)]
