"""Histories of Chat Completions: how a reply is sent back, and how a rendered message is written.

Clients show a reply of several rounds as one message with the texts joined. Reasoning is sent back as the server gave
it: some servers refuse a tool loop without it, and none signs it. A message with calls and no text has an empty string
as content: some servers refuse null (llama-cpp-python), others a missing content.
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
"""The members in which local servers return reasoning (llama.cpp, vLLM, Ollama)."""

_BETWEEN = "\n\n"
"""Separates texts that are joined: not every local server accepts a list of parts."""


def message_of(reply: Mapping[str, Any]) -> Message:
    """Return the message in a reply, or ``{}`` if there is none."""
    match reply.get("choices"):
        case [{"message": dict(message)}, *_]:
            return message
        case _:
            return {}


def write_result(call: str, text: str, is_error: bool = False, attached: Sequence[Mapping[str, Any]] = ()) -> bytes:
    """Write the JSON of the message with a call's result. The API has no error flag, so only the text shows a
    failure.
    """
    return as_json({"role": "tool", "tool_call_id": call, "content": text})


def write_tool(tool: Mapping[str, Any]) -> Message:
    """Write the definition of a function."""
    described = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", "function": described}


# A reply


def complete_calls(reply: Message, hidden: Collection[str]) -> Message:
    """Complete the calls of a reply that its server left incomplete: add the type, and give hidden calls unique ids.

    The client's own calls keep their ids, because the client answers by them.
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
    """Make an id for a reply's call: nine hexadecimal digits, the only format that one provider's templates accept."""
    return sha256(b"%d %s" % (number, as_json(reply))).hexdigest()[:9]


def write_round(round_: Round, hidden: Collection[str]) -> list[bytes]:
    """Write the model's message verbatim, followed by a result for each hidden call."""
    message = message_of(round_.native)
    calls = message.get("tool_calls")
    written = {key: value for key, value in message.items() if value is not None and key in _SENT_BACK}
    if isinstance(calls, list) and calls:
        written["tool_calls"] = [_whole(call) if _is_ours(call, hidden) else call for call in calls]
    call_ids = [str(block.get("id")) for block in round_.content if is_hidden(block, hidden)]
    if not (written.get("tool_calls") or str(written.get("content") or "").strip()):
        return []
    results = [round_.results.get(call) or write_result(call, NOT_RUN, is_error=True) for call in call_ids]
    return [as_json({"role": "assistant", "content": "", **written}), *results]


_SENT_BACK = THOUGHTS | {"role", "content", "refusal"}
"""Members of a reply's message that a request accepts, besides the calls."""


def _is_ours(call: object, hidden: Collection[str]) -> bool:
    return isinstance(call, Mapping) and is_hidden(read_block(call), hidden)


def _whole(call: Message) -> Message:
    """Return a hidden call with an object as its arguments, whatever the model wrote: servers parse them."""
    block = read_block(call)
    if isinstance(block["input"], dict):
        return call
    return _with_arguments(call, {"INVALID_JSON": str(block["input"])})


def follow(rounds: Sequence[Round], echo: Sequence[bytes], hidden: Collection[str], visible: Visible) -> Followed:
    """Return the elements to send upstream for the message in which a client shows these rounds.

    If nothing is hidden, or the client's message differs from the rounds, it is the client's message; otherwise the
    rounds.
    """
    own = [[element] for element in echo]
    seen = [_list_seen(round_, hidden, visible) for round_ in rounds]
    if all(blocks == _without_thinking(round_.content) for blocks, round_ in zip(seen, rounds, strict=True)):
        return len(rounds), own
    shown = _without_thinking(_read_parts(echo[0]))
    if _form([block for blocks in seen for block in blocks]) != _form(shown):
        return 0, own
    written = [element for round_ in rounds for element in write_round(round_, hidden)]
    last = json_object(written[-1]) if written else {}
    continues = any(is_call(block) for block in seen[-1])
    return len(rounds), [[*written, *([_EMPTY_REPLY] if last.get("role") == "tool" and not continues else ())]]


_EMPTY_REPLY = as_json({"role": "assistant", "content": NO_CONTENT})
"""Ends a reply whose last message is a hidden call's result: templates refuse a user message right after a result."""


def _read_parts(element: bytes) -> list[Block]:
    """Return the texts and calls of an assistant message."""
    message = json_object(element)
    calls = message.get("tool_calls")
    return [*read_parts(message.get("content")), *map(read_block, calls if isinstance(calls, list) else ())]


def _list_seen(round_: Round, hidden: Collection[str], visible: Visible) -> list[Block]:
    own = _without_thinking(block for block in round_.content if not is_hidden(block, hidden))
    return visible(own) if hidden else own


def _without_thinking(blocks: Any) -> list[Block]:
    return [block for block in blocks if type_of(block) != "thinking"]


def _form(blocks: Sequence[Block]) -> tuple[str, list[object]]:
    """Return what identifies a message: its text, and the ids of its calls."""
    text = "".join(str(block.get("text", "")) for block in blocks if type_of(block) == "text").strip()
    return "" if text == NO_CONTENT else text, [block.get("id") for block in blocks if is_call(block)]


# Rendering


def write_message(message: Mapping[str, Any], natives: Sequence[Message]) -> list[Message]:
    """Write a message that was rendered from the client's messages ``natives``, none if the proxy created it.

    Unchanged parts keep their form, and reasoning is kept with the rest of its message.
    """
    blocks: list[Block] = list(message["content"])
    if not natives:
        return [{"role": message["role"], "content": _join(blocks)}]
    native = natives[0] if len(natives) == 1 else _merge(natives)
    if blocks and is_result(blocks[0]):
        return [{**native, "content": _result(blocks, native)}]
    calls = _calls([block for block in blocks if is_call(block)], native)
    texts = [block for block in blocks if not is_call(block)]
    kept = {key: value for key, value in native.items() if key not in ("content", "tool_calls", "refusal")}
    content = _content(texts, native) if texts else ""
    return [{**kept, "content": content, **({"tool_calls": calls} if calls else {})}]


def _merge(natives: Sequence[Message]) -> Message:
    """Merge messages of one role. The content is a list of parts if any of them has one."""
    merged = {key: value for native in natives for key, value in native.items()}
    for key in THOUGHTS & merged.keys():
        merged[key] = _BETWEEN.join(native[key] for native in natives if isinstance(native.get(key), str))
    called = [native["tool_calls"] for native in natives if isinstance(native.get("tool_calls"), list)]
    contents = [native.get("content") for native in natives]
    if any(isinstance(content, list) for content in contents):
        merged["content"] = [part for content in contents for part in (content if isinstance(content, list) else ())]
    return {**merged, "tool_calls": list(chain.from_iterable(called))}


def _result(blocks: Sequence[Block], native: Message) -> object:
    """Return the content of a tool message: its result, followed by any other text in the message."""
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
    if call.get("type") == "custom":
        return {**call, "custom": {**call["custom"], "input": given}}
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": text}}


def _content(blocks: Sequence[Block], native: Message) -> object:
    """Join texts into one if the client's content is a string; otherwise return a list that keeps the client's own
    parts.
    """
    if isinstance(native.get("content"), list):
        parts = [part for part in native["content"] if isinstance(part, dict)]
        return [next((part for part in parts if read_block(part) == block), block) for block in blocks]
    return _join(blocks)


def _join(blocks: Sequence[Block]) -> str:
    return _BETWEEN.join(str(block.get("text", "")) for block in blocks)


def add_text(element: bytes, text: str) -> bytes:
    """Append a text to a message's content."""
    message = json_object(element)
    return as_json({**message, "content": _add(message.get("content"), text)})


def _add(content: object, text: str) -> object:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": text}]
    return f"{content}{_BETWEEN}{text}" if content else text
