"""Replies and faults as the server sends them: events, blocks, stop reasons, positions."""

import json

import pytest

from mnemosyne_lab.provider import open_standin
from tests.lab.provider.building import (
    LOOK,
    TWO_BLOCKS,
    Json,
    always,
    body,
    datas,
    deltas,
    events,
    post,
    streamed,
    user,
)


async def test_stream_has_the_events_of_the_api_in_compact_json() -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x" * 30}, *LOOK["content"]]
    exchange = await streamed(always({"content": blocks}))
    block = ["content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"]
    expected = ["message_start", "ping", *block * 3, "message_delta", "message_stop"]
    assert events(bytes(exchange.payload)) == expected
    assert [delta["type"] for delta in deltas(exchange)] == [
        "thinking_delta", "signature_delta", "text_delta", "text_delta", "input_json_delta", "input_json_delta",
    ]  # fmt: skip
    assert "".join(delta.get("partial_json", "") for delta in deltas(exchange)) == '{"at":"it"}'
    assert b'": ' not in exchange.payload
    assert datas(exchange)[-2]["delta"]["stop_reason"] == "tool_use"
    assert exchange.complete


async def test_whole_reply_is_the_same_as_one_message() -> None:
    async with open_standin(always({"content": [{"type": "thinking", "thinking": "hm"}, *LOOK["content"]]})) as server:
        message = (await post(server.url, body())).json()
    assert [block["type"] for block in message["content"]] == ["thinking", "tool_use"]
    assert message["content"][0]["signature"]
    assert message["stop_reason"] == "tool_use"


async def test_omitted_display_sends_only_the_signature() -> None:
    script = always({"content": [{"type": "thinking", "thinking": "secret"}]})
    exchange = await streamed(script, thinking={"type": "adaptive", "display": "omitted"})
    assert [delta["type"] for delta in deltas(exchange)] == ["signature_delta"]
    assert b"secret" not in exchange.payload


async def test_same_requests_to_a_fresh_server_give_the_same_bytes() -> None:
    script = always({"content": [{"type": "thinking", "thinking": "hm"}, *LOOK["content"]]})
    first, second = [await streamed(script) for _ in range(2)]
    assert first.wire == second.wire


async def test_side_calls_get_sensible_answers_without_a_script() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    async with open_standin() as server:
        side = body(tools=[])
        titled = await post(
            server.url, {**side, "output_config": {"format": {"type": "json_schema", "schema": schema}}}
        )
        assert isinstance(json.loads(titled.json()["content"][0]["text"])["title"], str)
        assert (await post(server.url, side)).json()["content"][0]["text"]
        compacted = await post(server.url, body(user("Write a <summary> of it.")))
        assert "</summary>" in compacted.json()["content"][0]["text"]
        warm = await post(server.url, body(max_tokens=0))
        assert warm.json()["content"] == []


FAULTS: dict[str, tuple[Json, list[int], list[str]]] = {
    # The reply; block numbers at content_block_start; the last events.
    "index_gap": ({**TWO_BLOCKS, "faults": [{"kind": "index_gap"}]}, [0, 2], ["message_delta", "message_stop"]),
    "restart_index": ({**TWO_BLOCKS, "faults": [{"kind": "restart_index"}]}, [0, 0], ["message_delta", "message_stop"]),
    "second_message_start": (
        {**TWO_BLOCKS, "faults": [{"kind": "second_message_start", "at": "message_delta"}]},
        [0, 1],
        ["message_start", "message_delta", "message_stop"],
    ),
    "no_message_stop": ({**TWO_BLOCKS, "faults": [{"kind": "no_message_stop"}]}, [0, 1], ["message_delta"]),
    "event": (
        {**TWO_BLOCKS, "faults": [{"kind": "event", "name": "new", "data": {"a": 1}}]},
        [0, 1],
        ["message_delta", "new", "message_stop"],
    ),
    "ping": ({**TWO_BLOCKS, "faults": [{"kind": "ping", "at": 99}]}, [0, 1], ["message_stop", "ping"]),
    "error_event": (
        {**TWO_BLOCKS, "faults": [{"kind": "error_event", "at": "content_block_stop"}]},
        [0],
        ["content_block_delta", "error"],
    ),
    "zero blocks": ({}, [], ["message_start", "ping", "message_delta", "message_stop"]),
    "unknown block type": (
        {"content": [{"type": "new", "x": 1}]},
        [0],
        ["content_block_stop", "message_delta", "message_stop"],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_stream_fault_is_sent_as_scripted(name: str) -> None:
    reply, numbers, ending = FAULTS[name]
    exchange = await streamed(always(reply))
    starts = [data["index"] for data in datas(exchange) if data["type"] == "content_block_start"]
    assert starts == numbers
    assert events(bytes(exchange.payload))[-len(ending) :] == ending


@pytest.mark.parametrize(
    "reason", ["end_turn", "max_tokens", "pause_turn", "refusal", "model_context_window_exceeded", "tool_use"]
)
@pytest.mark.parametrize("content", [[], LOOK["content"]])
async def test_any_stop_reason_goes_with_any_content(reason: str, content: list[Json]) -> None:
    reply = {"content": content, "stop_reason": reason, "stop_details": {"category": "x"}}
    exchange = await streamed(always(reply))
    ended = datas(exchange)[-2]["delta"]
    assert (ended["stop_reason"], ended["stop_details"]) == (reason, {"category": "x"})


async def test_comment_and_literal_bytes_are_at_their_place() -> None:
    faults = [{"kind": "comment", "text": "hi", "at": 1}, {"kind": "bytes", "text": "data: {}\n\n", "at": 1}]
    exchange = await streamed(always({"faults": faults}))
    assert b"\n\n: hi\n\ndata: {}\n\nevent: ping" in exchange.payload
