"""However a gateway numbers and splits the calls of a stream, the record is the same and the client gets exactly its
own calls. A stream without a hidden call passes unchanged.
"""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.wire.chat_reply import ChatReply
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.responses import RESPONSES
from mnemosyne.http.chat_rewriter import ChatRewriter
from mnemosyne.http.responses_rewriter import ResponsesRewriter
from mnemosyne.http.spliced_stream import SplicedStream
from mnemosyne.http.splicing import EndOfReply, EndOfRound, Next, Output
from mnemosyne.http.sse import FrameReader, event_of
from mnemosyne.http.stream_rewriter import StreamRewriter
from tests.domain.wire.gateways import Called, CallStyle, call_styles, called
from tests.http.streams import frame

Json = dict[str, Any]

CLIENT, MEMORY = Called("call_0", "bash", '{"command": "ls"}'), Called("call_1", "memory_query", '{"question": "q"}')


def fed(rewriter: SplicedStream, raw: bytes) -> list[Output]:
    return [*rewriter.feed(raw), *rewriter.close()]


def joined(outputs: Iterable[Output]) -> bytes:
    return b"".join(output.raw for output in outputs)


def events_in(raw: bytes) -> list[Json]:
    events = map(event_of, FrameReader().feed(raw))
    return [event for event in events if event is not None]


def end_of(outputs: list[Output]) -> EndOfRound:
    [end] = [output for output in outputs if isinstance(output, EndOfRound)]
    return end


def is_hidden(call: Called) -> bool:
    return call.name in NAMES


# Chat Completions


def completion(calls: list[Called], style: CallStyle, *, says_end: bool = True) -> bytes:
    deltas: list[Json] = [{"role": "assistant", "content": None}, *style.write(calls)]
    chunks: list[Json] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if says_end:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    raw = b"".join(b"data: " + json.dumps({"id": "c", "model": "m", **chunk}).encode() + b"\n\n" for chunk in chunks)
    return raw + (b"data: [DONE]\n\n" if says_end else b"")


def calls_by_index(raw: bytes) -> list[tuple[str, str]]:
    """The calls as read by a client that uses only their index."""
    calls: dict[int, list[str]] = {}
    for event in events_in(raw):
        for choice in event["choices"]:
            for piece in choice["delta"].get("tool_calls") or ():
                name, written = calls.setdefault(piece["index"], ["", ""])
                more = piece["function"]
                said = more.get("name") or ""
                calls[piece["index"]] = [said if said.startswith(name) else name + said, written + more["arguments"]]
    return [(name, written) for _, (name, written) in sorted(calls.items())]


@given(called(), call_styles())
@example([MEMORY, CLIENT], CallStyle(index="zero"))
@example([CLIENT, MEMORY, Called("call_2", "bash", "{}")], CallStyle(index="none", name="late"))
@example([MEMORY], CallStyle(name="pieces"))
def test_chat_client_gets_exactly_its_own_calls(calls: list[Called], style: CallStyle) -> None:
    raw = completion(calls, style)
    outputs = fed(ChatRewriter(NAMES), raw)
    own = [(call.name, call.arguments) for call in calls if not is_hidden(call)]
    end = end_of(outputs)
    recorded = json.loads(end.reply.body)["choices"][0]["message"].get("tool_calls", [])
    assert [call["function"]["name"] for call in recorded] == [call.name for call in calls]
    assert [call["function"]["arguments"] for call in recorded] == [call.arguments for call in calls]
    assert [json.loads(call.input_json) for call in end.calls] == [
        json.loads(c.arguments) for c in calls if is_hidden(c)
    ]
    if not any(map(is_hidden, calls)):
        assert joined(outputs) == raw
    elif own:
        reader = ChatReply()
        for event in events_in(joined(outputs)):
            reader.take(event)
        shown = reader.message()["choices"][0]["message"]["tool_calls"]
        assert [(call["function"]["name"], call["function"]["arguments"]) for call in shown] == own
        if style.index in ("right", "float") or is_hidden(calls[0]):
            assert calls_by_index(joined(outputs)) == own
    else:
        assert end.next is Next.CONTINUE
    assert b"memory_" not in joined(outputs)


@given(st.lists(st.sampled_from([CLIENT, MEMORY]), min_size=1, max_size=3), call_styles(), st.integers(1, 40))
def test_broken_stream_shows_nothing_of_a_hidden_call(calls: list[Called], style: CallStyle, missing: int) -> None:
    rewriter = ChatRewriter(NAMES)
    raw = completion(calls, style, says_end=False)[:-missing]
    assert b"memory_" not in joined([*rewriter.feed(raw), *rewriter.cut()])


def test_tool_whose_name_starts_like_a_memory_tool_is_the_clients() -> None:
    calls = [Called("a", "memory", "{}"), Called("b", "memory_", '{"x": 1}')]
    for style in (CallStyle(), CallStyle(name="late"), CallStyle(index="zero"), CallStyle(cut="whole")):
        raw = completion(calls, style)
        assert joined(fed(ChatRewriter(NAMES), raw)) == raw


# Messages


def message(calls: list[Called], index: str, *, reason: str | None = "tool_use") -> bytes:
    """A text and calls, with this numbering of the blocks."""
    head: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    events: list[Json] = [{"type": "message_start", "message": {**head, "usage": {"input_tokens": 9}}}]
    for number in range(len(calls) + 1):
        place = CallStyle(index=index).number(number)
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": "first"}
        if number:
            call = calls[number - 1]
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": call.arguments}
        events.append({"type": "content_block_start", **place, "content_block": block})
        events.append({"type": "content_block_delta", **place, "delta": delta})
        events.append({"type": "content_block_stop", **place})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}})
    return b"".join(map(frame, [*events, {"type": "message_stop"}]))


INDICES = st.sampled_from(["right", "zero", "float", "digits", "null", "none"])


def blocks_of(raw: bytes) -> list[Any]:
    """The blocks of a stream as read by a client that uses only their index."""
    blocks: dict[int, Any] = {}
    for event in events_in(raw):
        match event:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                blocks[index] = [block.get("name"), ""]
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                blocks[index][1] += delta.get("text", delta.get("partial_json"))
    return [tuple(block) for _, block in sorted(blocks.items())]


@given(called(), INDICES)
def test_messages_client_gets_exactly_its_own_calls(calls: list[Called], index: str) -> None:
    raw = message(calls, index)
    outputs = fed(StreamRewriter(NAMES), raw)
    end = end_of(outputs)
    text, *recorded = json.loads(end.reply.body)["content"]
    assert text["text"] == "first"
    assert [(block["name"], block["input"]) for block in recorded] == [(c.name, json.loads(c.arguments)) for c in calls]
    if not any(map(is_hidden, calls)):
        assert joined(outputs) == raw
    reader = MESSAGES.reader()
    for event in events_in(joined(outputs)):
        reader.take(event)
    own = [call for call in calls if not is_hidden(call)]
    shown = [block for block in reader.message()["content"] if block["type"] == "tool_use"]
    assert [(block["id"], block["name"], block["input"]) for block in shown] == [
        (call.id, call.name, json.loads(call.arguments)) for call in own
    ]
    if index in ("right", "float") and own:
        assert blocks_of(joined(outputs)) == [(None, "first"), *((call.name, call.arguments) for call in own)]


# Responses


def response(calls: list[Called], index: str, ids: str, *, says_end: bool = True) -> bytes:
    base: Json = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": []}
    events: list[Json] = [{"type": "response.created", "response": base}]
    items = []
    for number, call in enumerate(calls):
        place = CallStyle(index=index).number(number)
        named = (
            {"item_id": f"fc_{number}"} if ids == "right" else {"item_id": f"x{len(events)}"} if ids == "new" else {}
        )
        item: Json = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": ""}
        item |= {} if ids == "none" else {"id": f"fc_{number}"}
        items.append({**item, "arguments": call.arguments})
        events.append(
            {"type": "response.output_item.added", **place, "item": {**item, "name": ""} if number % 2 else item}
        )
        for piece in (call.arguments[:3], call.arguments[3:]):
            events.append({"type": "response.function_call_arguments.delta", **place, **named, "delta": piece})
        events.append({"type": "response.function_call_arguments.done", **place, **named, "arguments": call.arguments})
        events.append({"type": "response.output_item.done", **place, "item": items[-1]})
    if says_end:
        whole = {**base, "status": "completed", "output": items}
        events.append({"type": "response.completed", "response": whole})
    return b"".join(map(frame, events))


@given(called(), INDICES, st.sampled_from(["right", "new", "none"]))
def test_responses_client_gets_exactly_its_own_calls(calls: list[Called], index: str, ids: str) -> None:
    raw = response(calls, index, ids)
    outputs = fed(ResponsesRewriter(NAMES), raw)
    hidden = [call for call in calls if is_hidden(call)]
    end = end_of(outputs)
    assert [json.loads(call.input_json) for call in end.calls] == [json.loads(call.arguments) for call in hidden]
    assert b"memory_" not in joined(outputs)
    if not hidden:
        assert joined(outputs) == raw
    if len(hidden) < len(calls):
        done = [event["item"] for event in events_in(joined(outputs)) if event["type"] == "response.output_item.done"]
        own = [(call.id, call.name, call.arguments) for call in calls if not is_hidden(call)]
        assert [(item["call_id"], item["name"], item["arguments"]) for item in done] == own
        pieces = [event.get("delta", "") for event in events_in(joined(outputs))]
        assert "".join(pieces) == "".join(arguments for _, _, arguments in own)
    reader = RESPONSES.reader()
    for event in events_in(response(calls, index, ids, says_end=False)):
        reader.take(event)
    assert [(item["call_id"], item["name"], item["arguments"]) for item in reader.message()["output"]] == [
        (call.id, call.name, call.arguments) for call in calls
    ]


# An end without a reason


def test_hidden_call_is_answered_if_the_end_has_no_reason() -> None:
    chunks = completion([MEMORY], CallStyle(), says_end=False)
    bare = {
        "no reason, and an end": (ChatRewriter, chunks + b"data: [DONE]\n\n"),
        "no reason and no end": (ChatRewriter, chunks),
        "a reason of null": (StreamRewriter, message([MEMORY], "right", reason=None)),
        "no last event": (StreamRewriter, message([MEMORY], "right").removesuffix(frame({"type": "message_stop"}))),
        "no completed": (ResponsesRewriter, response([MEMORY], "right", "right", says_end=False)),
    }
    for name, (rewriter, raw) in bare.items():
        outputs = fed(rewriter(NAMES), raw)
        end = end_of(outputs)
        assert (end.next, [call.name for call in end.calls]) == (Next.CONTINUE, [MEMORY.name]), name
        assert not any(isinstance(output, EndOfReply) for output in outputs), name


def test_hidden_call_that_was_cut_short_is_not_answered() -> None:
    half = Called("call_1", "memory_query", '{"question": "q')
    for rewriter, raw in (
        (ChatRewriter, completion([half], CallStyle(), says_end=False)),
        (StreamRewriter, message([half], "right", reason=None)),
        (ResponsesRewriter, response([half], "right", "right", says_end=False)),
    ):
        assert not any(isinstance(o, EndOfRound) and o.calls for o in fed(rewriter(NAMES), raw)), rewriter


def test_broken_connection_does_not_end_a_round() -> None:
    for rewriter, raw in (
        (ChatRewriter(NAMES), completion([MEMORY], CallStyle(), says_end=False)),
        (ResponsesRewriter(NAMES), response([MEMORY], "right", "right", says_end=False)),
    ):
        outputs = [*rewriter.feed(raw), *rewriter.cut()]
        assert not any(isinstance(output, EndOfRound) for output in outputs)
