"""Items of the Responses API as bytes in a history, which never change once written.

The items of the client and the model are sent verbatim. The result of a hidden call directly follows it, so that a
history can be cut after any item. Reasoning belongs to the item that follows it, and is only sent with that item.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from mnemosyne.domain.wire.blocks import is_call, is_result
from mnemosyne.domain.wire.flat_history import Followed
from mnemosyne.domain.wire.fragments import read_block, read_parts
from mnemosyne.domain.wire.history import NOT_RUN, Round, Visible
from mnemosyne.domain.wire.reply import as_json, json_object

Item = dict[str, Any]
Block = dict[str, Any]

CALLS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
}
"""The types of calls, and the member of each that holds the call's input."""


def is_hidden(item: object, hidden: Collection[str]) -> bool:
    """Return whether an item is a call of one of these tools. The name may be any JSON value."""
    if not isinstance(item, dict) or item.get("type") != "function_call":
        return False
    name = item.get("name")
    return isinstance(name, str) and name in hidden


def write_tool(tool: Mapping[str, Any]) -> Item:
    """Write the definition of a function."""
    described = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", **described, "strict": False}


def write_result(call: str, text: str, is_error: bool = False, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """Write the JSON of a result. The API has no error flag, so only the text shows a failure."""
    return as_json({"type": "function_call_output", "call_id": call, "output": text})


def of_client(item: bytes) -> tuple[bytes, ...]:
    """Return the items to send for a client's item if the items that led to it are unknown: reasoning is omitted."""
    return () if json_object(item).get("type") == "reasoning" else (item,)


def items_of(response: Mapping[str, Any]) -> list[Item]:
    """Return the output items of a response."""
    output = response.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def write_round(round_: Round, hidden: Collection[str]) -> list[bytes]:
    """Return the items to send upstream for a reply: its own, with a result after each hidden call."""
    return [raw for item in items_of(round_.native) for raw in _with_result(item, round_.results, hidden)]


def _with_result(item: Item, results: Mapping[str, bytes], hidden: Collection[str]) -> Iterator[bytes]:
    yield as_json(item)
    if is_hidden(item, hidden):
        call = str(item.get("call_id"))
        yield results.get(call) or write_result(call, NOT_RUN)


# Replies as the client shows them


def follow(rounds: Sequence[Round], echo: Sequence[bytes], hidden: Collection[str], visible: Visible) -> Followed:
    """Return the upstream elements for each item in which a client shows a reply of these ``rounds``, and how many of
    the rounds it shows completely.

    A completely shown round with hidden calls is sent verbatim, with their results; for anything else the client's
    items are sent. Items of incompletely shown rounds lose their reasoning, which may have led to a hidden call.
    """
    shown = [json_object(item) for item in echo]
    groups: list[list[bytes]] = []
    waiting: list[bytes] = []
    whole = 0
    for round_ in rounds:
        items, results = items_of(round_.native), round_.results
        places = _find_shown(items, shown[len(groups) :], hidden, visible)
        if places is None:
            break
        whole += 1
        own = not any(is_hidden(item, hidden) or _texts(item, visible) != _texts(item) for item in items)
        for item, is_shown in zip(items, places, strict=True):
            if is_shown:
                groups.append([*waiting, echo[len(groups)] if own else as_json(item)])
                waiting = []
            elif not own:
                waiting += _with_result(item, results, hidden)
    for raw in echo[len(groups) :]:
        groups.append([*waiting, *of_client(raw)])
        waiting = []
    if groups:
        groups[-1] += waiting
    return whole, groups


def _find_shown(
    items: Sequence[Item], echo: Sequence[Item], hidden: Collection[str], visible: Visible
) -> list[bool] | None:
    """Return which items of a round the echo begins with; None unless it shows every message and call that it may
    show.
    """
    are_shown, at = [], 0
    for item in items:
        is_shown = not is_hidden(item, hidden) and at < len(echo) and _is_same(item, echo[at], visible)
        if not is_shown and not is_hidden(item, hidden) and _is_needed(item, visible):
            return None
        are_shown.append(is_shown)
        at += is_shown
    return are_shown


def _is_needed(item: Item, visible: Visible) -> bool:
    """Return whether the reply would differ without the item. Clients omit the actions of the provider itself."""
    return item.get("call_id") is not None or (item.get("type") == "message" and bool(_texts(item, visible)))


def _is_same(item: Item, echoed: Item, visible: Visible) -> bool:
    """Return whether a client's item is this one, even if the client rewrote the rest of it."""
    if item.get("type") != echoed.get("type", "message"):
        return False
    for name in ("call_id", "encrypted_content"):
        if item.get(name) is not None:
            return str(item[name]) == str(echoed.get(name))
    if item.get("type") == "message":
        return _texts(item, visible) == _texts(echoed)
    return bool(item.get("id") == echoed.get("id"))


def _texts(item: Item, visible: Visible | None = None) -> list[object]:
    blocks = read_parts(item.get("content"))
    return [block.get("text") for block in (blocks if visible is None else visible(blocks))]


# Rendering


def write_message(message: Mapping[str, Any], natives: Sequence[Item]) -> list[Item]:
    """Write the items of a rendered message. It was rendered from ``natives``, none if the proxy created it.

    Unchanged parts keep their form.
    """
    native = next(iter(natives), {})
    made: list[Item] = []
    for is_words, blocks in groupby(message["content"], lambda block: not (is_call(block) or is_result(block))):
        if is_words:
            made += _words(list(blocks), str(message.get("role")), native)
        else:
            made += [_piece(block, native) for block in blocks]
    return made


def _piece(block: Block, native: Item) -> Item:
    """Write a call or a result with its current content."""
    if read_block(native) == block:
        return native
    bare = {key: value for key, value in native.items() if key != "id"}
    if is_result(block):
        return {**bare, "output": block["content"]}
    member = CALLS[str(native["type"])]
    arguments = block["input"]
    is_text = member == "arguments" and not isinstance(arguments, str)
    return {**bare, member: json.dumps(arguments, ensure_ascii=False) if is_text else arguments}


def _words(blocks: Sequence[Block], role: str, native: Item) -> list[Item]:
    """Write a message of texts, keeping the client's unchanged parts."""
    content = native.get("content")
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    whole = [part for part in parts if isinstance(part, str | dict)]
    known = [(read_block(part), part) for part in whole]
    kind = "output_text" if role == "assistant" else "input_text"
    written: list[object] = []
    for block in blocks:
        same = next((part for read, part in known if read == block and isinstance(part, dict)), None)
        written.append({"type": kind, "text": block["text"]} if same is None else same)
    author = native.get("role") if role == "system" else role
    return [{"type": "message", "role": author, "content": written}]


def add_text(element: bytes, text: str) -> bytes:
    """Append a text to a user's message."""
    item = json_object(element)
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    held = parts if isinstance(parts, list) else []
    return as_json({**item, "content": [*held, {"type": "input_text", "text": text}]})
