"""Scripted content as a response, whole and event by event."""

from typing import Any

import pytest

from mnemosyne_lab.provider import open_standin
from tests.lab.provider.building import Json, always, events
from tests.lab.provider.building_openai import LOOK, RESPONSES, SAY, THINK, asked, chunks, item_result, send

PATCH: Json = {"type": "tool_use", "name": "Patch", "input": {"input": "*** Begin"}}


async def stream(reply: Json, *items: Json, **fields: Any) -> tuple[list[str], list[Json]]:
    """Names and data of the events of one streamed reply."""
    async with open_standin(always(reply)) as server:
        await send(server, RESPONSES, asked(*items, stream=True, **fields))
        assert server.violations == []
        exchange = server.exchanges[0]
        return events(bytes(exchange.payload)), chunks(exchange)


async def test_stream_reports_each_item_from_start_to_end() -> None:
    names, data = await stream({"content": [THINK, SAY, LOOK, PATCH]})
    short = [name.removeprefix("response.") for name in names]
    once = [name for number, name in enumerate(short) if short[number - 1] != name]
    assert once == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done",
        "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    assert [each["type"] for each in data] == names
    assert [each["sequence_number"] for each in data] == list(range(len(data)))
    said = [each["delta"] for each in data if each["type"] == "response.output_text.delta"]
    assert len(said) > 1
    assert "".join(said) == SAY["text"]
    finished = data[-1]["response"]
    assert finished["output"] == [each["item"] for each in data if each["type"] == "response.output_item.done"]
    assert finished["usage"]["output_tokens"] > 0


async def test_whole_reply_is_the_same_as_one_object() -> None:
    async with open_standin(always({"content": [THINK, LOOK, PATCH]})) as server:
        made = (await send(server, RESPONSES, asked())).json()
    assert made["status"] == "completed"
    thought, look, patch = made["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": THINK["thinking"]}]
    assert look["arguments"] == '{"at":"the long way round"}'
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin")


async def test_reasoning_is_encrypted_on_request_and_its_echo_is_accepted() -> None:
    async with open_standin({"rules": [{"replies": [{"content": [THINK, SAY, LOOK]}, {"text": "done"}]}]}) as server:
        said: list[Json] = [{"role": "user", "content": "go"}]
        output = (await send(server, RESPONSES, asked(*said))).json()["output"]
        said += [*output, item_result(output[2]["call_id"])]
        assert (await send(server, RESPONSES, asked(*said))).json()["output"][0]["content"][0]["text"] == "done"
        assert server.violations == []
        del said[2]  # the text after the reasoning
        refused = await send(server, RESPONSES, asked(*said))
        assert "without its required following item" in refused.json()["error"]["message"]
        plain = (await send(server, RESPONSES, asked(include=[]))).json()["output"]
        assert plain[0]["encrypted_content"] is None


@pytest.mark.parametrize(("reason", "why"), [("max_tokens", "max_output_tokens"), ("refusal", "content_filter")])
async def test_stopped_reply_is_incomplete(reason: str, why: str) -> None:
    names, data = await stream({"text": "x", "stop_reason": reason})
    assert names[-1] == "response.incomplete"
    assert data[-1]["response"]["incomplete_details"] == {"reason": why}


async def test_stream_may_lack_its_end() -> None:
    names, _ = await stream({"text": "x", "faults": [{"kind": "no_message_stop"}]})
    assert names[-1] == "response.output_item.done"


async def test_trigger_is_answered_by_exactly_one_compaction_that_can_be_sent_back() -> None:
    async with open_standin() as server:
        hello = {"role": "user", "content": "hello"}
        made = (await send(server, RESPONSES, asked(hello, {"type": "compaction_trigger"}))).json()["output"]
        assert [item["type"] for item in made] == ["compaction"]
        assert (await send(server, RESPONSES, asked(*made, hello))).status_code == 200


async def test_tools_of_namespaces_and_items_are_offered_and_called_with_their_namespace() -> None:
    inner: Json = {"type": "custom", "name": "exec"}
    offered: Json = {"type": "namespace", "name": "functions", "tools": [inner]}
    more: Json = {"type": "additional_tools", "role": "developer", "tools": [offered]}
    hello: Json = {"role": "user", "content": "hello"}
    request = {key: value for key, value in asked(more, hello).items() if key != "tools"}
    script = {"when": {"lane": "main", "tool": "exec"}, "reply": {"content": [{**PATCH, "name": "exec"}]}}
    async with open_standin({"rules": [script]}) as server:
        (call,) = (await send(server, RESPONSES, request)).json()["output"]
        assert server.violations == []
    assert (call["type"], call["namespace"], call["input"]) == ("custom_tool_call", "functions", "*** Begin")
