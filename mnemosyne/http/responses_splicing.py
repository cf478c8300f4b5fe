"""Splice several rounds into one response: the rules of ``splicing`` for the Responses API.

A response repeats its request's ``tools``, so the memory tools are removed from them as well.
"""

from collections.abc import Sequence
from typing import Any

from mnemosyne.domain.tools.cleanup_tags import visible
from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.reply import Reply, as_json, json_object
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.responses_items import is_hidden, items_of
from mnemosyne.domain.wire.responses_reply import describe
from mnemosyne.http.splicing import Hidden, Message, Rules, list_openai_usage, splice_usage

OF_THE_FIRST_ROUND = ("id", "object", "created_at", "model")
"""Members taken from the first round, since the client gets them early; all others come from the last round."""

COUNTS = "input_tokens", ("output_tokens", "output_tokens_details")
"""Members of ``usage`` that ``splice_usage`` takes from the last round, and those that it sums."""


def is_client_call(item: Message, hidden: Hidden) -> bool:
    """Whether the client has to answer the call; calls that the provider runs itself have no ``call_id``."""
    return item.get("call_id") is not None and not is_hidden(item, hidden)


def splice_response(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Message:
    """Splice the rounds into one response; if it would have no text and no call, add a notice."""
    items = splice_items(rounds, hidden)
    if rounds[-1].get("status") == "completed" and all(item.get("type") == "reasoning" for item in items):
        items.append(_own_message(rounds[0]))
    first = {key: rounds[0][key] for key in OF_THE_FIRST_ROUND if key in rounds[0]}
    used = {"usage": splice_usage([one.get("usage") for one in rounds], *COUNTS)} if "usage" in rounds[-1] else {}
    return {**without_tools(rounds[-1], hidden), **first, "output": items, **used}


def cut_short(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Reply:
    """Return the client's part of an unfinished reply."""
    begun = [response for response in rounds if response] or [{}]
    response = {**without_tools(begun[0], hidden), "output": splice_items(begun, hidden)}
    return describe(response, as_json(response), complete=False)


def splice_items(rounds: Sequence[Message], hidden: Hidden) -> list[Message]:
    items = (item for response in rounds for item in items_of(response))
    return [show_item(item) for item in items if not is_hidden(item, hidden)]


def show_item(item: Message) -> Message:
    """Remove cleanup blocks from an output item, and parts that are then blank."""
    content = item.get("content")
    if item.get("type") != "message" or not isinstance(content, list):
        return item
    parts = [show_part(part) for part in content]
    return item if parts == content else {**item, "content": [part for part in parts if part is not None]}


def show_part(part: Any) -> Any:
    """Return the visible form of a message part; None if nothing of it is visible."""
    text = part.get("text") if isinstance(part, dict) else None
    shown = visible(text) if isinstance(text, str) else text
    return part if shown == text else {**part, "text": shown} if str(shown).strip() else None


def without_tools(response: Message, hidden: Hidden) -> Message:
    """Remove the memory tools from the response's ``tools``."""
    offered = response.get("tools")
    if not isinstance(offered, list):
        return response
    return {**response, "tools": [tool for tool in offered if not _is_ours(tool, hidden)]}


def cut_tools(raw: bytes, start: int, hidden: Hidden) -> bytes:
    """Remove the memory tools from the bytes of a response at ``start``; all other bytes stay the same."""
    spans = json_spans.elements_of(raw, start, "tools")
    kept = [number for number, (at, end) in enumerate(spans) if not _is_ours(json_object(raw[at:end]), hidden)]
    if len(kept) == len(spans):
        return raw
    # Each tool but the first includes the separator before it.
    pieces = [
        raw[spans[number - 1][1] if place else spans[number][0] : spans[number][1]] for place, number in enumerate(kept)
    ]
    return raw[: spans[0][0]] + b"".join(pieces) + raw[spans[-1][1] :]


def write_failure(rounds: Sequence[Message], error: object, hidden: Hidden) -> Message:
    """Return the response of a ``response.failed`` event after these rounds."""
    first = next((response for response in rounds if response), {})
    given = error if isinstance(error, dict) else {}
    failure = {"code": _text(given.get("code") or given.get("type") or "server_error"), "message": given.get("message")}
    items = splice_items(rounds, hidden)
    return {**without_tools(first, hidden), "status": "failed", "error": failure, "output": items}


def _own_message(first: Message) -> Message:
    part = {"type": "output_text", "text": NO_CONTENT, "annotations": []}
    name = f"msg_{_text(first.get('id')).removeprefix('resp_')}"
    return {"id": name, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def _is_ours(tool: object, hidden: Hidden) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str) and tool["name"] in hidden


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


RULES = Rules(
    dialect=RESPONSES,
    is_reply=lambda response: isinstance(response.get("output"), list),
    has_client_call=lambda response, hidden: any(is_client_call(item, hidden) for item in items_of(response)),
    is_shown_whole=lambda response, hidden: splice_items([response], hidden) == items_of(response),
    splice=splice_response,
    cut_short=cut_short,
    list_hidden_usage=list_openai_usage,
    describe=lambda response, complete: describe(response, as_json(response), complete=complete),
    without_tools=without_tools,
    cut_tools=lambda body, hidden: cut_tools(body, 0, hidden),
)
