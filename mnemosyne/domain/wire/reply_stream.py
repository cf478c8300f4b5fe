"""Write a recorded reply as the events of its provider's stream, so that a client can read it again.

The record holds a streamed reply as one message. The events here are those that clients need (Claude Code 2.1.332,
opencode 1.18.4, Codex 0.171.0): reading them with the dialect's ``reader`` gives the message again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from mnemosyne.domain.wire.blocks import is_call, texts_in
from mnemosyne.domain.wire.chat_reply import JOINED
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.normal_form import content_blocks
from mnemosyne.domain.wire.reply import as_json
from mnemosyne.domain.wire.request_matching import EVERYWHERE

PIECE = 64
"""Characters of one delta."""

Message = Mapping[str, Any]
Event = tuple[str, dict[str, Any]]
"""A name and the data without their ``type``."""


def stream_reply(message: Message, dialect: Dialect, *, complete: bool) -> Iterator[bytes]:
    """The frames of a reply. An incomplete one has no end."""
    if dialect.name == "chat":
        yield from _write_chat(message, complete)
        return
    events = _write_messages if dialect.name == "messages" else _write_responses
    for name, data in events(message, complete):
        yield b"event: %s\ndata: %s\n\n" % (name.encode(), as_json({"type": name, **data}))


def join_reply(elements: Sequence[Message], dialect: Dialect, model: object) -> Message:
    """Join a complete reply from the elements of a later request in which the client sent it back."""
    items = [{key: value for key, value in each.items() if key not in EVERYWHERE} for each in elements]
    whole = {"id": f"msg_{sha256(as_json(items)).hexdigest()[:24]}", "model": model}
    if dialect.name == "responses":
        return {**whole, "object": "response", "status": "completed", "output": [*map(_as_output, items)]}
    blocks = [block for each in items for block in content_blocks(dialect.read_message(each).get("content"))]
    calls = any(map(is_call, blocks))
    if dialect.name == "chat":
        content = items[-1].get("content")
        said = {"content": "".join(texts_in(content))} if isinstance(content, list) else {}
        choice = {"index": 0, "message": {**items[-1], **said}, "finish_reason": "tool_calls" if calls else "stop"}
        return {**whole, "object": "chat.completion", "created": 0, "choices": [choice]}
    content = [{key: value for key, value in block.items() if key not in EVERYWHERE} for block in blocks]
    ends = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 0, "output_tokens": 0}
    return {**whole, "type": "message", "role": "assistant", "content": content, **ends, "usage": usage}


def _as_output(item: Message) -> Message:
    """An item of a response; in a request, a message may have a text for its content, and no type."""
    if "role" not in item:
        return item
    content = item.get("content")
    parts = [{"type": "output_text", "text": content, "annotations": []}] if isinstance(content, str) else content
    return {"type": "message", **item, "content": parts}


def _cut(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


# Messages


def _write_messages(message: Message, complete: bool) -> Iterator[Event]:
    ends = {key: message[key] for key in ("stop_reason", "stop_sequence") if key in message}
    error = message.get("error")
    whole = {key: value for key, value in message.items() if key != "error"}
    if whole:
        yield "message_start", {"message": {**whole, "content": [], **dict.fromkeys(ends)}}
    blocks = message.get("content") or ()
    for index, block in enumerate(blocks):
        yield from _write_block(index, block, has_end=complete or index < len(blocks) - 1)
    if error is not None:
        yield "error", {"error": error}
    elif complete:
        yield "message_delta", {"delta": ends, "usage": message.get("usage") or {}}
        yield "message_stop", {}


_EMPTIED: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
    "server_tool_use": {"input": {}},
}
"""What a block has at its start instead of what its deltas bring."""


def _write_block(index: int, block: Message, *, has_end: bool) -> Iterator[Event]:
    empty = {key: value for key, value in _EMPTIED.get(str(block.get("type")), {}).items() if key in block}
    yield "content_block_start", {"index": index, "content_block": {**block, **empty}}
    for key in empty:
        for delta in _write_deltas(key, block[key]):
            yield "content_block_delta", {"index": index, "delta": delta}
    if has_end:  # a client takes a block with an end for a part of the conversation
        yield "content_block_stop", {"index": index}


def _write_deltas(key: str, value: Any) -> Iterator[dict[str, Any]]:
    match key:
        case "input":
            written = value if isinstance(value, str) else as_json(value).decode() if value else ""
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _cut(written))
        case "signature":
            yield {"type": "signature_delta", "signature": value}
        case _:
            yield from ({"type": f"{key}_delta", key: piece} for piece in _cut(str(value)))


# Responses


def _write_responses(message: Message, complete: bool) -> Iterator[Event]:
    items = message.get("output") or []
    begun = {**message, "status": None, "output": [], "usage": None}
    events: list[Event] = [("response.created", {"response": begun})]
    for index, item in enumerate(items):
        events += _write_item(index, item)
    if items and not complete:
        events.pop()  # a client takes an item that is done for a part of the conversation
    status = message.get("status")
    if complete:
        events.append((f"response.{status or 'completed'}", {"response": dict(message)}))
    for number, (name, data) in enumerate(events):
        yield name, {"sequence_number": number, **data}


def _write_item(index: int, item: Message) -> Iterator[Event]:
    place = {"output_index": index, "item_id": item.get("id")}
    emptied: dict[str, Any] = {}
    deltas: Iterator[Event] = iter(())
    match item.get("type"):
        case "message":
            emptied, deltas = {"content": []}, _write_parts(place, item.get("content") or ())
        case "reasoning":
            emptied, deltas = {"summary": []}, _write_summary(place, item.get("summary") or ())
        case "function_call":
            emptied = {"arguments": ""}
            deltas = _write_text("response.function_call_arguments", place, "arguments", item)
        case "custom_tool_call":
            emptied, deltas = {"input": ""}, _write_text("response.custom_tool_call_input", place, "input", item)
    yield "response.output_item.added", {"output_index": index, "item": {**item, **emptied}}
    yield from deltas
    yield "response.output_item.done", {"output_index": index, "item": dict(item)}


def _write_text(name: str, place: Message, key: str, item: Message) -> Iterator[Event]:
    for piece in _cut(str(item.get(key, ""))):
        yield f"{name}.delta", {**place, "delta": piece}
    yield f"{name}.done", {**place, key: item.get(key)}


def _write_parts(place: Message, parts: Iterable[Message]) -> Iterator[Event]:
    for number, part in enumerate(parts):
        here = {**place, "content_index": number}
        key = "refusal" if "refusal" in part else "text"
        yield "response.content_part.added", {**here, "part": {**part, key: ""}}
        yield from _write_text("response.refusal" if key == "refusal" else "response.output_text", here, key, part)
        yield "response.content_part.done", {**here, "part": dict(part)}


def _write_summary(place: Message, parts: Iterable[Message]) -> Iterator[Event]:
    for number, part in enumerate(parts):
        here = {**place, "summary_index": number}
        yield "response.reasoning_summary_part.added", {**here, "part": {**part, "text": ""}}
        yield from _write_text("response.reasoning_summary_text", here, "text", part)
        yield "response.reasoning_summary_part.done", {**here, "part": dict(part)}


# Chat Completions


def _write_chat(message: Message, complete: bool) -> Iterator[bytes]:
    same = {key: value for key, value in message.items() if key not in ("choices", "usage")}
    same["object"] = "chat.completion.chunk"

    def frame(choices: list[dict[str, Any]], **more: Any) -> bytes:
        return b"data: %s\n\n" % as_json({**same, "choices": choices, **more})

    choices = message.get("choices") or ()
    for choice in choices:
        for delta in _write_choice(choice.get("message") or {}):
            yield frame([{"index": choice.get("index", 0), "delta": delta, "finish_reason": None}])
    if complete:
        for choice in choices:
            reason = {"finish_reason": choice.get("finish_reason")}
            yield frame([{"index": choice.get("index", 0), "delta": {}, **reason}])
        if message.get("usage") is not None:
            yield frame([], usage=message["usage"])
        yield b"data: [DONE]\n\n"


def _write_choice(message: Message) -> Iterator[dict[str, Any]]:
    texts = {key: value for key, value in message.items() if key in JOINED and isinstance(value, str)}
    rest = {key: value for key, value in message.items() if key not in texts and key != "tool_calls"}
    yield {"role": "assistant", **rest}
    for key, text in texts.items():
        yield from ({key: piece} for piece in _cut(text))
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield {"tool_calls": [{"index": index, **call}]}
