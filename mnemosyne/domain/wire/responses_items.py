"""Items of the Responses API as they stand in a wire history: the bytes of each, made once and never again.

An item is sent as it came, the client's and the model's. The result of a hidden call stands directly behind it, so that
a history can be cut behind any item. Reasoning is bound to the item that it led to, and to nothing else: it goes with
that one, or not at all.
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

_GIVEN: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
"""Calls, and where each holds what it was called with."""


def is_hidden(item: object, hidden: Collection[str]) -> bool:
    """Whether an item is a call of one of these tools. The name may be anything that JSON can hold."""
    if not isinstance(item, dict) or item.get("type") != "function_call":
        return False
    name = item.get("name")
    return isinstance(name, str) and name in hidden


def write_tool(tool: Mapping[str, Any]) -> Item:
    """The definition of a function."""
    described = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", **described, "strict": False}


def write_result(call: str, text: str, is_error: bool = False, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """The JSON of a result. Nothing but its text tells of an error."""
    return as_json({"type": "function_call_output", "call_id": call, "output": text})


def of_client(item: bytes) -> tuple[bytes, ...]:
    """A client's item as it goes upstream where nothing of what led to it is known: without reasoning."""
    return () if json_object(item).get("type") == "reasoning" else (item,)


def items_of(response: Mapping[str, Any]) -> list[Item]:
    """The output items of a response."""
    output = response.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def write_round(each: Round, hidden: Collection[str]) -> list[bytes]:
    """What goes upstream for a reply: its items as they came, each hidden call with its result behind it."""
    return [raw for item in items_of(each.native) for raw in _with_result(item, each.results, hidden)]


def _with_result(item: Item, results: Mapping[str, bytes], hidden: Collection[str]) -> Iterator[bytes]:
    yield as_json(item)
    if is_hidden(item, hidden):
        call = str(item.get("call_id"))
        yield results.get(call) or write_result(call, NOT_RUN)


# What a client shows of a reply


def follow(rounds: Sequence[Round], echo: Sequence[bytes], hidden: Collection[str], visible: Visible) -> Followed:
    """What goes upstream for each item in which a client shows a reply of these ``rounds``: items, and the results of
    the hidden calls in them.

    A round with hidden calls that is shown whole goes as it came; everything else as the client says it, and what is
    shown of no whole round without reasoning, which may have led to a call that was hidden.
    """
    shown = [json_object(item) for item in echo]
    groups: list[list[bytes]] = []
    waiting: list[bytes] = []
    whole = 0
    for each in rounds:
        items, results = items_of(each.native), each.results
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
    """Which items of a round an echo begins with; None unless it shows every message and call of it that it may."""
    found, at = [], 0
    for item in items:
        is_shown = not is_hidden(item, hidden) and at < len(echo) and _is_same(item, echo[at], visible)
        if not is_shown and not is_hidden(item, hidden) and _is_needed(item, visible):
            return None
        found.append(is_shown)
        at += is_shown
    return found


def _is_needed(item: Item, visible: Visible) -> bool:
    """Whether a reply is another one without it. Clients leave out what the provider did by itself."""
    return item.get("call_id") is not None or (item.get("type") == "message" and bool(_texts(item, visible)))


def _is_same(item: Item, echoed: Item, visible: Visible) -> bool:
    """Whether a client means this item, whatever it makes of the rest of it."""
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


# What is rendered


def write_message(message: Mapping[str, Any], natives: Sequence[Item]) -> list[Item]:
    """The items of a message that was made of one of the client's, if of any, and differs from it: a result before what
    else is said there. What did not change in it keeps its form.
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
    """A call or a result with what is now in it."""
    if read_block(native) == block:
        return native
    bare = {key: value for key, value in native.items() if key != "id"}
    if is_result(block):
        return {**bare, "output": block["content"]}
    held = _GIVEN[str(native["type"])]
    given = block["input"]
    is_text = held == "arguments" and not isinstance(given, str)
    return {**bare, held: json.dumps(given, ensure_ascii=False) if is_text else given}


def _words(blocks: Sequence[Block], role: str, native: Item) -> list[Item]:
    """A message of texts, and of the parts that are as they were."""
    content = native.get("content")
    parts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    whole = [part for part in parts if isinstance(part, str | dict)]
    known = [(read_block(part), part) for part in whole]
    kind = "output_text" if role == "assistant" else "input_text"
    said: list[object] = []
    for block in blocks:
        same = next((part for read, part in known if read == block and isinstance(part, dict)), None)
        said.append({"type": kind, "text": block["text"]} if same is None else same)
    speaker = native.get("role") if role == "system" else role
    return [{"type": "message", "role": speaker, "content": said}]


def add_text(element: bytes, text: str) -> bytes:
    """A user's message with a text behind its content."""
    item = json_object(element)
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    held = parts if isinstance(parts, list) else []
    return as_json({**item, "content": [*held, {"type": "input_text", "text": text}]})
