"""The vendor's own client library against the scripted provider: it must not notice the difference."""

from typing import cast

import anthropic
import pytest
import trio
from anthropic.types import MessageParam, ToolParam

from mnemosyne_lab.provider import open_standin
from tests.lab.provider.building import result

MODEL = "claude-opus-5-5"
TOOLS: list[ToolParam] = [{"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}]
LOOP = {
    "rules": [
        {
            "replies": [
                {
                    "content": [
                        {"type": "thinking", "thinking": "I should look."},
                        {"type": "text", "text": "Let me look."},
                        {"type": "tool_use", "name": "Look", "input": {"at": "the long way round", "n": number}},
                    ]
                }
                for number in range(3)
            ]
            + [{"text": "It is there."}]
        }
    ]
}


def echo(message: anthropic.types.Message) -> list[MessageParam]:
    """The assistant's message as the library returns it, and results for its calls."""
    calls = [block for block in message.content if block.type == "tool_use"]
    said = [
        {"role": "assistant", "content": [block.model_dump() for block in message.content]},
        {"role": "user", "content": [result(block.id) for block in calls]},
    ]
    return cast("list[MessageParam]", said)


async def test_streamed_loop_of_tools_and_thinking_ends_and_breaks_no_rule() -> None:
    async with open_standin(LOOP) as server:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client:
            said: list[MessageParam] = [{"role": "user", "content": "where is it?"}]
            for number in range(4):
                async with client.messages.stream(model=MODEL, max_tokens=99, messages=said, tools=TOOLS) as stream:
                    message = await stream.get_final_message()
                if message.stop_reason != "tool_use":
                    break
                assert message.content[-1].type == "tool_use"
                assert message.content[-1].input == {"at": "the long way round", "n": number}
                said += echo(message)
        assert message.content[0].type == "text"
        assert message.content[0].text == "It is there."
        assert len(server.messages) == 4
        assert server.violations == []


async def test_loop_without_streaming_from_a_thread() -> None:
    def run(url: str) -> list[str | None]:
        reasons: list[str | None] = []
        with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
            said: list[MessageParam] = [{"role": "user", "content": "where is it?"}]
            for _ in range(4):
                message = client.messages.create(model=MODEL, max_tokens=99, messages=said, tools=TOOLS)
                reasons.append(message.stop_reason)
                said += echo(message)
            assert client.messages.count_tokens(model=MODEL, messages=said[:1]).input_tokens > 0
            assert MODEL in [model.id for model in client.models.list()]
        return reasons

    async with open_standin(LOOP) as server:
        assert await trio.to_thread.run_sync(run, server.url) == ["tool_use"] * 3 + ["end_turn"]
        assert server.violations == []


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ({"status": 529}, anthropic.InternalServerError),
        ({"status": 429}, anthropic.RateLimitError),
        ({"status": 401}, anthropic.AuthenticationError),
        ({"status": 413}, anthropic.RequestTooLargeError),
    ],
)
async def test_failure_is_the_librarys_own_exception(failure: dict[str, int], error: type[Exception]) -> None:
    def run(url: str) -> None:
        with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client, pytest.raises(error):
            client.messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "hi"}])

    async with open_standin({"rules": [{"reply": {"failure": failure}}]}) as server:
        await trio.to_thread.run_sync(run, server.url)


async def test_error_event_in_the_stream_is_raised() -> None:
    # From a thread: the library's asynchronous stream leaves its generators open when it raises.
    def run(url: str) -> None:
        said: list[MessageParam] = [{"role": "user", "content": "hi"}]
        with (
            anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client,
            pytest.raises(anthropic.APIStatusError, match="Overloaded"),
            client.messages.stream(model=MODEL, max_tokens=9, messages=said) as stream,
        ):
            stream.get_final_message()

    fault = {"kind": "error_event", "at": "content_block_stop"}
    async with open_standin({"rules": [{"reply": {"text": "partial", "faults": [fault]}}]}) as server:
        await trio.to_thread.run_sync(run, server.url)
