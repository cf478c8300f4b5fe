"""A scripted reply in the Messages dialect: blocks with ids and signatures, then a message or events.

Pure. The format of the events is in the Messages API documentation (streaming).
"""

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import orjson

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne_lab.provider.api_errors import error_body
from mnemosyne_lab.provider.cache import PrefixUse
from mnemosyne_lab.provider.delivery import MESSAGES, Event, Rendering, cut
from mnemosyne_lab.provider.reading import Body, Json, as_dict, tokens
from mnemosyne_lab.provider.script import ScriptedReply
from mnemosyne_lab.provider.signatures import Conversation


@attrs.frozen
class ReplyContext:
    body: Body
    message_id: str
    request_id: str
    tool_id: Callable[[], str]
    use: Tokens
    conversation: Conversation
    """At the end of the request; thinking blocks are signed with it."""
    transformations: list[dict[str, str]]
    """Entries for `input_transformations`, possibly empty."""
    prefix: PrefixUse | None = None
    """Tokens that a local server found in its slots."""
    diagnostics: Json = None
    """The result of the cache comparison, if the request asks for one."""


def render_message(reply: ScriptedReply, context: ReplyContext) -> Rendering:
    return Rendering(
        form=MESSAGES,
        make_whole=lambda: _make_whole(reply, context, blocks_of(reply, context)),
        make_events=lambda: _list_events(reply, context, blocks_of(reply, context)),
        write_failure=lambda failure: error_body(failure.status, context.request_id, failure.message, failure.type),
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


def _count_use(context: ReplyContext) -> dict[str, Any]:
    use = context.use
    return {
        "input_tokens": use.input,
        "cache_creation_input_tokens": use.write_5m + use.write_1h,
        "cache_read_input_tokens": use.read,
    }


def _count_all(reply: ScriptedReply, context: ReplyContext, output: int) -> dict[str, Any]:
    writes = {"ephemeral_5m_input_tokens": context.use.write_5m, "ephemeral_1h_input_tokens": context.use.write_1h}
    rest = {"cache_creation": writes, "output_tokens": output, "service_tier": "standard"}
    return {**_count_use(context), **rest, **reply.usage}


def _stop(reply: ScriptedReply, blocks: list[dict[str, Json]]) -> dict[str, Any]:
    calls = any(block.get("type") == "tool_use" for block in blocks)
    reason = reply.stop_reason or ("tool_use" if calls else "end_turn")
    details = {} if reply.stop_details is None else {"stop_details": reply.stop_details}
    return {"stop_reason": reason, "stop_sequence": reply.stop_sequence, **details}


def _count_output(blocks: list[dict[str, Json]]) -> int:
    return max(1, tokens(sum(len(orjson.dumps(block)) for block in blocks)))


def _make_message(context: ReplyContext, blocks: list[dict[str, Json]]) -> dict[str, Any]:
    head = {"id": context.message_id, "type": "message", "role": "assistant", "model": context.body.get("model")}
    diagnostics = {"diagnostics": context.diagnostics} if context.body.get("diagnostics") else {}
    return {**head, "content": blocks, **_report_transformations(context), **diagnostics}


def _report_transformations(context: ReplyContext) -> dict[str, Any]:
    return {"input_transformations": context.transformations} if context.transformations else {}


def _report_timings(context: ReplyContext, output: int) -> dict[str, Any]:
    timings = context.prefix.report(output) if context.prefix else None
    return {"timings": timings} if timings else {}


def _make_whole(reply: ScriptedReply, context: ReplyContext, blocks: list[dict[str, Json]]) -> dict[str, Any]:
    output = _count_output(blocks)
    return {
        **_make_message(context, blocks),
        **_stop(reply, blocks),
        "usage": _count_all(reply, context, output),
        **_report_timings(context, output),
    }


def _list_events(reply: ScriptedReply, context: ReplyContext, blocks: list[dict[str, Json]]) -> Iterator[Event]:
    started = {
        **_make_message(context, []),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _count_all(reply, context, 1),
    }
    yield Event("message_start", {"message": started})
    if reply.pace.ping:
        yield Event("ping", {})
    kinds = {fault.kind for fault in reply.faults}
    for number, block in enumerate(blocks):
        index = 0 if "restart_index" in kinds else number + ("index_gap" in kinds and number > 0)
        yield from _list_block_events(index, block, reply)
    output = _count_output(blocks)
    usage = {**_count_use(context), "output_tokens": output, **reply.usage}
    ends = {**_report_transformations(context), **_report_timings(context, output)}
    yield Event("message_delta", {"delta": _stop(reply, blocks), "usage": usage, **ends})
    yield Event("message_stop", {})


def _list_block_events(index: int, block: dict[str, Json], reply: ScriptedReply) -> Iterator[Event]:
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
