"""Histories of Chat Completions: what a reply is sent back as, and what is written where a message is shown at less.

A client shows a reply of several rounds as one message, their texts behind each other. Reasoning goes back as the
server gave it: some servers refuse a loop of tools without it, and none has it signed. Where nothing was said beside a
call, the content is an empty text: null is what some servers refuse (llama-cpp-python), and none at all what others do.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any

from mnemosyne.domain.wire.blocks import is_call, is_result, type_of
from mnemosyne.domain.wire.flat_history import Followed
from mnemosyne.domain.wire.fragments import read_block, read_parts
from mnemosyne.domain.wire.history import NOT_RUN, Round, Visible, is_hidden
from mnemosyne.domain.wire.message_bytes import NO_CONTENT
from mnemosyne.domain.wire.reply import as_json, json_object

Message = dict[str, Any]
Block = dict[str, Any]

THOUGHTS = frozenset({"reasoning_content", "reasoning"})
"""Where local servers put what a model thought (llama.cpp, vLLM, Ollama)."""

_BETWEEN = "\n\n"
"""Stands between two texts that become one: not every local server takes a list of them."""


def message_of(reply: Mapping[str, Any]) -> Message:
    """The message in a reply; empty where there is none."""
    match reply.get("choices"):
        case [{"message": dict(message)}, *_]:
            return message
        case _:
            return {}


def write_result(call: str, text: str, is_error: bool = False, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """The JSON of the message that brings a result. Nothing but its text tells of an error."""
    return as_json({"role": "tool", "tool_call_id": call, "content": text})


def write_tool(tool: Mapping[str, Any]) -> Message:
    """The definition of a function."""
    described = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", "function": described}


# A reply


def complete_calls(reply: Message, hidden: Collection[str]) -> Message:
    """A reply with its calls whole, whatever its server left out: each with its type, and each hidden one with a text
    for an id that no other has. The client's own keep theirs, by which it answers them.
    """
    message = message_of(reply)
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return reply
    whole = [{"type": "function", **call} if "function" in call else call for call in calls if isinstance(call, dict)]
    taken = ["", *(read_block(call).get("id") for call in whole if not _is_ours(call, hidden))]
    for number, call in enumerate(whole):
        if _is_ours(call, hidden):
            if call.get("id") in taken or not isinstance(call.get("id"), str):
                whole[number] = {**call, "id": _make_id(reply, number)}
            taken.append(whole[number]["id"])
    if whole == calls:
        return reply
    [choice, *others] = reply["choices"]
    return {**reply, "choices": [{**choice, "message": {**message, "tool_calls": whole}}, *others]}


def _make_id(reply: Mapping[str, Any], number: int) -> str:
    """An id for a reply's call: of nine letters and digits, because one provider's templates take no other."""
    return sha256(b"%d %s" % (number, as_json(reply))).hexdigest()[:9]


def write_round(each: Round, hidden: Collection[str]) -> list[bytes]:
    """The model's message as it came, and a result behind it for each hidden call."""
    message = message_of(each.native)
    calls = message.get("tool_calls")
    said = {key: value for key, value in message.items() if value is not None and key in _SENT_BACK}
    if isinstance(calls, list) and calls:
        said["tool_calls"] = [_whole(call) if _is_ours(call, hidden) else call for call in calls]
    asked = [str(block.get("id")) for block in each.content if is_hidden(block, hidden)]
    if not (said.get("tool_calls") or str(said.get("content") or "").strip()):
        return []
    results = [each.results.get(call) or write_result(call, NOT_RUN, is_error=True) for call in asked]
    return [as_json({"role": "assistant", "content": "", **said}), *results]


_SENT_BACK = THOUGHTS | {"role", "content", "refusal"}
"""What a request takes of a message beside its calls."""


def _is_ours(call: object, hidden: Collection[str]) -> bool:
    return isinstance(call, Mapping) and is_hidden(read_block(call), hidden)


def _whole(call: Message) -> Message:
    """A hidden call whose arguments are an object, whatever the model wrote: servers parse them."""
    block = read_block(call)
    if isinstance(block["input"], dict):
        return call
    return _with_arguments(call, {"INVALID_JSON": str(block["input"])})


def follow(rounds: Sequence[Round], echo: Sequence[bytes], hidden: Collection[str], visible: Visible) -> Followed:
    """What goes upstream for the message in which a client shows these rounds: where it hides nothing, or is another
    one, the client's own; else the rounds as they came.
    """
    own = [[element] for element in echo]
    seen = [_list_seen(each, hidden, visible) for each in rounds]
    if all(said == _without_thinking(each.content) for said, each in zip(seen, rounds, strict=True)):
        return len(rounds), own
    said = _without_thinking(_read_parts(echo[0]))
    if _form([block for each in seen for block in each]) != _form(said):
        return 0, own
    written = [element for each in rounds for element in write_round(each, hidden)]
    last = json_object(written[-1]) if written else {}
    goes_on = any(is_call(block) for block in seen[-1])
    return len(rounds), [[*written, *([_NOTHING_SAID] if last.get("role") == "tool" and not goes_on else ())]]


_NOTHING_SAID = as_json({"role": "assistant", "content": NO_CONTENT})
"""Ends a reply that ended with what a hidden call got: templates refuse a user who speaks behind a result."""


def _read_parts(element: bytes) -> list[Block]:
    """The texts and calls of an assistant's message."""
    message = json_object(element)
    calls = message.get("tool_calls")
    return [*read_parts(message.get("content")), *map(read_block, calls if isinstance(calls, list) else ())]


def _list_seen(each: Round, hidden: Collection[str], visible: Visible) -> list[Block]:
    own = _without_thinking(block for block in each.content if not is_hidden(block, hidden))
    return visible(own) if hidden else own


def _without_thinking(blocks: Any) -> list[Block]:
    return [block for block in blocks if type_of(block) != "thinking"]


def _form(blocks: Sequence[Block]) -> tuple[str, list[object]]:
    """What two messages have in common that are the same one: their words, and the calls by their ids."""
    text = "".join(str(block.get("text", "")) for block in blocks if type_of(block) == "text").strip()
    return "" if text == NO_CONTENT else text, [block.get("id") for block in blocks if is_call(block)]


# What is rendered


def write_message(message: Mapping[str, Any], natives: Sequence[Message]) -> list[Message]:
    """The message that shows what was rendered of several; what did not change in it keeps its form, and reasoning
    stays with what is left of it.
    """
    blocks: list[Block] = list(message["content"])
    if not natives:
        return [{"role": message["role"], "content": _join(blocks)}]
    native = natives[0] if len(natives) == 1 else _merge(natives)
    if blocks and is_result(blocks[0]):
        return [{**native, "content": _result(blocks, native)}]
    calls = _calls([block for block in blocks if is_call(block)], native)
    said = [block for block in blocks if not is_call(block)]
    kept = {key: value for key, value in native.items() if key not in ("content", "tool_calls", "refusal")}
    content = _content(said, native) if said else ""
    return [{**kept, "content": content, **({"tool_calls": calls} if calls else {})}]


def _merge(natives: Sequence[Message]) -> Message:
    """Messages of one role as one: a list of all parts, where one of them has parts."""
    merged = {key: value for native in natives for key, value in native.items()}
    for key in THOUGHTS & merged.keys():
        merged[key] = _BETWEEN.join(native[key] for native in natives if isinstance(native.get(key), str))
    called = [native["tool_calls"] for native in natives if isinstance(native.get("tool_calls"), list)]
    contents = [native.get("content") for native in natives]
    if any(isinstance(content, list) for content in contents):
        merged["content"] = [part for content in contents for part in (content if isinstance(content, list) else ())]
    return {**merged, "tool_calls": list(chain.from_iterable(called))}


def _result(blocks: Sequence[Block], native: Message) -> object:
    """What a tool's message holds: its result, and behind that what else is said there."""
    result, *rest = blocks
    same = result == read_block(native)
    if not rest:
        return native.get("content") if same else result["content"]
    held = native.get("content") if same else result["content"]
    return _add(held, _join(rest))


def _calls(shown: Sequence[Block], native: Message) -> list[Message]:
    given = native.get("tool_calls")
    calls = [call for call in given if isinstance(call, dict)] if isinstance(given, list) else []
    known = {read_block(call).get("id"): call for call in calls}
    return [_call(block, known[block.get("id")]) for block in shown]


def _call(block: Block, native: Message) -> Message:
    was = read_block(native)
    return native if was == block else _with_arguments(native, block["input"])


def _with_arguments(call: Message, given: object) -> Message:
    """A call with other arguments, where its kind has them."""
    if call.get("type") == "custom":
        return {**call, "custom": {**call["custom"], "input": given}}
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": text}}


def _content(blocks: Sequence[Block], native: Message) -> object:
    """Texts as one, where the client's were; else a list, its other parts as they were."""
    if isinstance(native.get("content"), list):
        parts = [part for part in native["content"] if isinstance(part, dict)]
        return [next((part for part in parts if read_block(part) == block), block) for block in blocks]
    return _join(blocks)


def _join(blocks: Sequence[Block]) -> str:
    return _BETWEEN.join(str(block.get("text", "")) for block in blocks)


def add_text(element: bytes, text: str) -> bytes:
    """A message with a text behind its content."""
    message = json_object(element)
    return as_json({**message, "content": _add(message.get("content"), text)})


def _add(content: object, text: str) -> object:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}{_BETWEEN}{text}" if content else text
