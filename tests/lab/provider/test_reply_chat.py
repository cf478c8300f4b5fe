"""Scripted content as a chat completion, whole and in chunks."""

from typing import Any

import pytest

from mnemosyne_lab.provider import open_standin
from tests.lab.provider.building import Json, always
from tests.lab.provider.building_openai import CHAT, LOOK, SAY, THINK, chat, chunks, send

CUSTOM: Json = {"type": "custom", "custom": {"name": "Look"}}


async def stream(script: Json, **fields: Any) -> tuple[bytes, list[Json]]:
    """The bytes and the chunks of one streamed reply."""
    async with open_standin(script) as server:
        await send(server, CHAT, chat(stream=True, **fields))
        assert server.violations == []
        return bytes(server.exchanges[0].payload), chunks(server.exchanges[0])


async def test_whole_reply_has_text_reasoning_calls_and_usage() -> None:
    async with open_standin(always({"content": [THINK, SAY, LOOK]})) as server:
        made = (await send(server, CHAT, chat())).json()
    (choice,) = made["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == SAY["text"]
    assert choice["message"]["reasoning_content"] == THINK["thinking"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "Look", "arguments": '{"at":"the long way round"}'}
    usage = made["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


async def test_stream_chunks_add_up_to_the_whole_reply() -> None:
    payload, got = await stream(always({"content": [THINK, SAY, LOOK, LOOK]}))
    deltas = [chunk["choices"][0]["delta"] for chunk in got]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content") or "" for delta in deltas) == SAY["text"]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == THINK["thinking"]
    pieces = [call for delta in deltas for call in delta.get("tool_calls", ())]
    for index in (0, 1):
        arguments = [call["function"]["arguments"] for call in pieces if call["index"] == index]
        assert "".join(arguments) == '{"at":"the long way round"}'
        assert len(arguments) > 2
    assert len({call["id"] for call in pieces if "id" in call}) == 2
    assert [chunk["choices"][0]["finish_reason"] for chunk in got if chunk["choices"][0]["finish_reason"]] == [
        "tool_calls"
    ]
    assert not any("usage" in chunk for chunk in got)
    assert payload.endswith(b"data: [DONE]\n\n")
    assert b"event:" not in payload


async def test_usage_is_a_separate_chunk_on_request() -> None:
    _, got = await stream(always({"text": "hi"}), stream_options={"include_usage": True})
    assert got[-1]["choices"] == []
    assert got[-1]["usage"]["completion_tokens"] > 0
    assert got[-2]["choices"][0]["finish_reason"] == "stop"


async def test_custom_tool_gets_its_text() -> None:
    patch = {**LOOK, "input": {"input": "*** Begin"}}
    async with open_standin(always({"content": [patch]})) as server:
        made = (await send(server, CHAT, chat(tools=[CUSTOM]))).json()
    (call,) = made["choices"][0]["message"]["tool_calls"]
    assert call["custom"] == {"name": "Look", "input": "*** Begin"}


@pytest.mark.parametrize(("reason", "said"), [("max_tokens", "length"), ("refusal", "content_filter"), ("odd", "odd")])
async def test_stop_reason_has_the_terms_of_the_dialect(reason: str, said: str) -> None:
    _, got = await stream(always({"text": "x", "stop_reason": reason}))
    assert got[-1]["choices"][0]["finish_reason"] == said


async def test_faults_are_at_their_places() -> None:
    faults: list[Json] = [{"kind": "ping", "at": 1}, {"kind": "no_message_stop"}]
    payload, got = await stream(always({"text": "x", "faults": faults}))
    assert b": ping\n\n" in payload
    assert b"[DONE]" not in payload
    _, got = await stream(always({"text": "x", "faults": [{"kind": "error_event", "at": "finish", "text": "no"}]}))
    assert got[-1]["error"]["message"] == "no"
