"""One response for the client, made of several rounds with the provider: what is hidden and what the end must say.

These are the rules of ``splicing`` in the words of the Responses API. A response says again what its request offered,
so ours are left out of its ``tools``, too.
"""

from collections.abc import Sequence
from typing import Any

from mnemosyne.domain.cost.prices import Tokens, tokens_of
from mnemosyne.domain.tools.cleanup_tags import visible
from mnemosyne.domain.wire import json_spans
from mnemosyne.domain.wire.chat_reply import usage_of
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.reply import Reply, as_json, json_object
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.domain.wire.responses_items import is_hidden, items_of
from mnemosyne.domain.wire.responses_reply import describe
from mnemosyne.http.splicing import Hidden, Message, Rules, list_given, sum_counts

OF_THE_FIRST_ROUND = ("id", "object", "created_at", "model")
"""What the client is told before later rounds are known; every other member of a response is the last round's."""


def is_client_call(item: Message, hidden: Hidden) -> bool:
    """Whether the client has to answer it: what the provider runs itself names no call."""
    return item.get("call_id") is not None and not is_hidden(item, hidden)


def splice_response(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Message:
    """The one response that these rounds are to the client; one that would hold no words and no call says so."""
    items = splice_items(rounds, hidden)
    if rounds[-1].get("status") == "completed" and all(item.get("type") == "reasoning" for item in items):
        items.append(_own_message(rounds[0]))
    first = {key: rounds[0][key] for key in OF_THE_FIRST_ROUND if key in rounds[0]}
    used = {"usage": splice_usage([each.get("usage") for each in rounds])} if "usage" in rounds[-1] else {}
    return {**without_tools(rounds[-1], hidden), **first, "output": items, **used}


def cut_short(rounds: Sequence[Message], hidden: Hidden, itemized: bool) -> Reply:
    """What the client sees of a reply that has not ended."""
    begun = [each for each in rounds if each] or [{}]
    response = {**without_tools(begun[0], hidden), "output": splice_items(begun, hidden)}
    return describe(response, as_json(response), complete=False)


def splice_items(rounds: Sequence[Message], hidden: Hidden) -> list[Message]:
    """The items of these rounds that the client sees, as it sees them."""
    items = (item for response in rounds for item in items_of(response))
    return [show_item(item) for item in items if not is_hidden(item, hidden)]


def show_item(item: Message) -> Message:
    """An output item without cleanup blocks, and without parts of which only blanks are left then."""
    content = item.get("content")
    if item.get("type") != "message" or not isinstance(content, list):
        return item
    parts = [show_part(part) for part in content]
    return item if parts == content else {**item, "content": [part for part in parts if part is not None]}


def show_part(part: Any) -> Any:
    """A part of a message as the client sees it; None where it sees nothing of it."""
    said = part.get("text") if isinstance(part, dict) else None
    shown = visible(said) if isinstance(said, str) else said
    return part if shown == said else {**part, "text": shown} if str(shown).strip() else None


def splice_usage(rounds: Sequence[object]) -> object:
    """The ``usage`` of a response that took these rounds: the last one's input, because clients compact their history
    by it, and the output of all. A single round's is its own.
    """
    counted = [each for each in rounds if isinstance(each, dict)]
    if len(rounds) == 1 or not counted or not isinstance(rounds[-1], dict):
        return rounds[-1]
    shown = dict(rounds[-1])
    for key in ("output_tokens", "output_tokens_details"):
        if key in shown:
            shown[key] = sum_counts([each[key] for each in counted if key in each])
    if isinstance(shown.get("total_tokens"), int):
        shown["total_tokens"] = sum(_number(shown.get(key)) for key in ("input_tokens", "output_tokens"))
    return shown


def list_hidden_usage(rounds: Sequence[Message], itemized: bool) -> list[Tokens]:
    """What the model was given in rounds of which ``splice_usage`` does not tell that."""
    return list_given(tokens_of(usage_of(each.get("usage"))) for each in rounds[:-1])


def without_tools(response: Message, hidden: Hidden) -> Message:
    """The response without our tools among those that it was offered."""
    offered = response.get("tools")
    if not isinstance(offered, list):
        return response
    return {**response, "tools": [each for each in offered if not _is_ours(each, hidden)]}


def cut_tools(raw: bytes, start: int, hidden: Hidden) -> bytes:
    """The same of the bytes that hold a response at ``start``; whatever else is in them stays as it is."""
    spans = json_spans.elements_of(raw, start, "tools")
    kept = [number for number, (at, end) in enumerate(spans) if not _is_ours(json_object(raw[at:end]), hidden)]
    if len(kept) == len(spans):
        return raw
    # Each but the first with what stands between it and the tool before it.
    pieces = [
        raw[spans[number - 1][1] if place else spans[number][0] : spans[number][1]] for place, number in enumerate(kept)
    ]
    return raw[: spans[0][0]] + b"".join(pieces) + raw[spans[-1][1] :]


def write_failure(rounds: Sequence[Message], error: object, hidden: Hidden) -> Message:
    """The response of these rounds as it is told to have failed, in the midst of it."""
    first = next((each for each in rounds if each), {})
    said = error if isinstance(error, dict) else {}
    told = {"code": _text(said.get("code") or said.get("type") or "server_error"), "message": said.get("message")}
    items = splice_items(rounds, hidden)
    return {**without_tools(first, hidden), "status": "failed", "error": told, "output": items}


def _own_message(first: Message) -> Message:
    part = {"type": "output_text", "text": NO_CONTENT, "annotations": []}
    name = f"msg_{_text(first.get('id')).removeprefix('resp_')}"
    return {"id": name, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def _is_ours(tool: object, hidden: Hidden) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str) and tool["name"] in hidden


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


RULES = Rules(
    dialect=RESPONSES,
    is_reply=lambda response: isinstance(response.get("output"), list),
    has_client_call=lambda response, hidden: any(is_client_call(item, hidden) for item in items_of(response)),
    is_shown_whole=lambda response, hidden: splice_items([response], hidden) == items_of(response),
    splice=splice_response,
    cut_short=cut_short,
    list_hidden_usage=list_hidden_usage,
    describe=lambda response, complete: describe(response, as_json(response), complete=complete),
    without_tools=without_tools,
    cut_tools=lambda body, hidden: cut_tools(body, 0, hidden),
)
