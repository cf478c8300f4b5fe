"""A scripted reply in the Messages dialect: blocks with ids and signatures, then a message or events.

Pure. The format of the events is in the Messages API documentation (streaming).
"""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import orjson

from mnemosyne_lab.provider.api_errors import error_body
from mnemosyne_lab.provider.cache import CacheUse
from mnemosyne_lab.provider.delivery import Rendering, cut, deliver
from mnemosyne_lab.provider.prefix_cache import PrefixUse
from mnemosyne_lab.provider.reading import Body, Json, as_dict, tokens
from mnemosyne_lab.provider.script import ScriptedReply
from mnemosyne_lab.provider.signatures import Conversation
from mnemosyne_lab.provider.stream_events import MESSAGES, Event
from mnemosyne_lab.provider.view import RequestView
from mnemosyne_lab.provider.wire_steps import HeaderLines, Step


@attrs.frozen
class ReplyContext:
    """The context of a reply besides the script."""

    body: Body
    view: RequestView
    message_id: str
    request_id: str
    tool_id: Callable[[], str]
    """Makes the next id of a tool call."""
    use: CacheUse
    conversation: Conversation
    """At the end of the request; thinking blocks are signed with it."""
    transformations: list[dict[str, str]]
    """Entries for `input_transformations`, possibly empty."""
    response_headers: HeaderLines
    prefix: PrefixUse | None = None
    """Tokens that a local server found in its slots."""
    diagnostics: Json = None
    """The result of the cache comparison, if the request asks for one."""


def steps_for(reply: ScriptedReply, context: ReplyContext) -> list[Step]:
    """Everything that happens on the connection for this reply."""
    rendering = Rendering(
        form=MESSAGES,
        make_whole=lambda: _whole(reply, context, blocks_of(reply, context)),
        make_events=lambda: list(_events(reply, context, blocks_of(reply, context))),
        write_failure=lambda failure: error_body(failure.status, context.request_id, failure.message, failure.type),
    )
    return deliver(
        reply, rendering, stream=context.view.stream, asked=context.view.headers, headers=context.response_headers
    )


def blocks_of(reply: ScriptedReply, context: ReplyContext) -> list[dict[str, Json]]:
    """The reply's content blocks, complete, as a request without streaming gets them."""
    shown = as_dict(context.body.get("thinking")).get("display") != "omitted"
    finished: list[dict[str, Json]] = []
    for block in reply.blocks:
        block = dict(block)
        match block.get("type"):
            case "thinking":
                block["thinking"] = str(block.get("thinking", "")) if shown else ""
                block["signature"] = block.get("signature") or context.conversation.sign(block["thinking"])
            case "redacted_thinking":
                block["data"] = block.get("data") or context.conversation.sign("")
            case "tool_use":
                name, given = block.pop("name", ""), block.pop("input", {})
                block["id"] = block.get("id") or context.tool_id()
                block = {"type": "tool_use", "id": block["id"], "name": name, "input": given, **block}
                context.conversation.add("assistant", block)
            case _:
                context.conversation.add("assistant", block)
        finished.append(block)
    return finished


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


def _reports(context: ReplyContext) -> dict[str, Any]:
    diagnosed = {"diagnostics": context.diagnostics} if context.body.get("diagnostics") else {}
    return {**_transformations(context), **diagnosed}


def _transformations(context: ReplyContext) -> dict[str, Any]:
    return {"input_transformations": context.transformations} if context.transformations else {}


def _timings(context: ReplyContext, output: int) -> dict[str, Any]:
    timings = context.prefix.report(output) if context.prefix else None
    return {"timings": timings} if timings else {}


def _whole(reply: ScriptedReply, context: ReplyContext, blocks: list[dict[str, Json]]) -> dict[str, Any]:
    output = _output_tokens(blocks)
    usage = _usage(reply, context, output, final=False)
    ends = {**_reports(context), **_timings(context, output)}
    return {**_message(context, blocks), **_stop(reply, blocks), "usage": usage, **ends}


def _events(reply: ScriptedReply, context: ReplyContext, blocks: list[dict[str, Json]]) -> Iterator[Event]:
    started = {
        **_message(context, []),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(reply, context, 1, final=False),
        **_reports(context),
    }
    yield Event("message_start", {"message": started})
    if reply.pace.ping:
        yield Event("ping", {})
    gap = any(fault.kind == "index_gap" for fault in reply.faults)
    restart = any(fault.kind == "restart_index" for fault in reply.faults)
    for number, block in enumerate(blocks):
        index = 0 if restart else number + (gap and number > 0)
        yield from block_events(index, block, reply)
    output = _output_tokens(blocks)
    usage = _usage(reply, context, output, final=True)
    ends = {**_transformations(context), **_timings(context, output)}
    yield Event("message_delta", {"delta": _stop(reply, blocks), "usage": usage, **ends})
    yield Event("message_stop", {})


def block_events(index: int, block: dict[str, Json], reply: ScriptedReply) -> Iterator[Event]:
    """Start, deltas and stop of one block. A type without deltas is sent whole in its start."""
    pieces: list[tuple[str, str, str]] = []
    opened = dict(block)
    match block.get("type"):
        case "text":
            opened["text"] = ""
            pieces = [("text_delta", "text", part) for part in cut(str(block["text"]), reply.pace.characters)]
        case "thinking":
            opened = {**block, "thinking": "", "signature": ""}
            pieces = [("thinking_delta", "thinking", part) for part in cut(block["thinking"], reply.pace.characters)]
            pieces.append(("signature_delta", "signature", block["signature"]))
        case "tool_use":
            opened["input"] = {}
            written = orjson.dumps(block["input"]).decode() if block["input"] else ""
            fragments = ["", *cut(written, reply.pace.characters)]
            pieces = [("input_json_delta", "partial_json", part) for part in fragments]
    yield Event("content_block_start", {"index": index, "content_block": opened})
    for kind, field, part in pieces:
        delta = {"type": kind, field: part}
        yield Event("content_block_delta", {"index": index, "delta": delta}, reply.pace.between)
    yield Event("content_block_stop", {"index": index})
