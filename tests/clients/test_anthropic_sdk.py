"""The vendor's own library through a running server, managed and observed: it notices no difference."""

import json
from typing import cast

import anthropic
import pytest
from anthropic.types import Message, MessageParam, ToolParam

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.reading import Json
from tests.clients.managing import assert_managed
from tests.clients.provider import standin_in_a_thread
from tests.clients.workspace import Server, Visit, serving, visit

MODEL = "claude-opus-5-5"
TOOLS: list[ToolParam] = [{"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}]


RECALL: Json = {"type": "tool_use", "name": "memory_query", "input": {"question": "what was it?"}}
LOOK: Json = {"type": "tool_use", "name": "Look", "input": {"at": "it — über alles", "n": 1.0}}


def think(text: str) -> Json:
    return {"type": "thinking", "thinking": text}


LOOP: list[Json] = [
    {"content": [think("Where?"), {"type": "text", "text": "Let me see."}, RECALL]},
    {"content": [think("There."), LOOK, RECALL, LOOK]},
    {"content": [RECALL, RECALL]},
    {"content": [RECALL, think("So."), LOOK]},
    {"content": [LOOK]},
    {"content": [think("Done."), {"type": "text", "text": "It is there."}]},
]
OWN_LOOP = [LOOP[0] | {"content": [*LOOP[0]["content"][:2], LOOK]}, *LOOP[4:]]
"""The replies without memory tools."""

MANAGE = {"x-mnemosyne-mode": "manage"}


@pytest.fixture
def at(server: Server) -> Visit:
    return visit(server)


def typed(text: str) -> list[MessageParam]:
    """A history; its beginning identifies the session of this library."""
    return [{"role": "user", "content": text}]


def answered(message: Message) -> list[MessageParam]:
    """The assistant's message as the library returns it, and results for its calls."""
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"seen {block.input}"}
        for block in message.content
        if block.type == "tool_use"
    ]
    said = [
        {"role": "assistant", "content": [block.model_dump() for block in message.content]},
        {"role": "user", "content": results},
    ]
    return cast("list[MessageParam]", said)


def last_words(message: Message) -> str:
    assert message.content[-1].type == "text"
    return message.content[-1].text


def synchronous(at: Visit, *, max_retries: int = anthropic.DEFAULT_MAX_RETRIES) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=at.server.url, api_key="k", max_retries=max_retries)


def assert_unseen(said: list[MessageParam], message: Message) -> None:
    assert last_words(message) == "It is there."
    shown = json.dumps(said) + message.to_json()
    assert not [name for name in NAMES if name in shown]


@pytest.mark.parametrize(
    ("managed", "stream"), [(False, True), (True, True), (True, False)], ids=["observed", "streamed", "whole"]
)
def test_tool_loop_of_the_synchronous_client(managed: bool, stream: bool, at: Visit) -> None:
    at.script({"replies": LOOP if managed else OWN_LOOP})
    said = typed(f"where is it? ({managed} {stream})")
    message: Message
    with anthropic.Anthropic(base_url=at.server.url, api_key="k", default_headers=MANAGE if managed else {}) as client:
        while True:
            if stream:
                with client.messages.stream(model=MODEL, max_tokens=99, messages=said, tools=TOOLS) as reply:
                    message = reply.get_final_message()
            else:
                message = client.messages.create(model=MODEL, max_tokens=99, messages=said, tools=TOOLS)
            if message.stop_reason != "tool_use":
                break
            said += answered(message)
    assert_unseen(said, message)
    if managed:
        assert_managed(at)
    else:
        conversation = at.conversation()
        assert conversation.client.startswith("anthropic-sdk 2.")
        assert conversation.branches == {"main": len(OWN_LOOP)}


async def test_tool_loop_of_the_asynchronous_client(at: Visit) -> None:
    at.script({"replies": LOOP})
    said = typed("where is it, meanwhile?")
    async with anthropic.AsyncAnthropic(base_url=at.server.url, api_key="k", default_headers=MANAGE) as client:
        while True:
            async with client.messages.stream(model=MODEL, max_tokens=99, messages=said, tools=TOOLS) as reply:
                message = await reply.get_final_message()
            if message.stop_reason != "tool_use":
                break
            said += answered(message)
    assert_unseen(said, message)
    assert_managed(at)


def test_stream_events_arrive_one_by_one(at: Visit) -> None:
    at.script({"reply": {"text": "It is there, and it was there all the time."}})
    with synchronous(at) as client:
        stream = client.messages.create(model=MODEL, max_tokens=99, messages=typed("events?"), stream=True)
        kinds = [event.type for event in stream]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert kinds.count("content_block_delta") > 1
    assert at.conversation().branches == {"main": 1}


def test_token_counts_and_model_lists_are_answered_and_are_no_turns(at: Visit) -> None:
    at.script({"reply": {"text": "Yes."}})
    said = typed("how long is this?")
    with synchronous(at) as client:
        assert client.messages.count_tokens(model=MODEL, messages=said).input_tokens > 0
        assert MODEL in [model.id for model in client.models.list()]
        client.messages.create(model=MODEL, max_tokens=9, messages=said)
    assert at.conversation().branches == {"main": 1}


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (413, anthropic.RequestTooLargeError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.InternalServerError, "overloaded_error"),
    ],
)
def test_failure_is_the_librarys_own_exception(
    status: int, error: type[anthropic.APIStatusError], kind: str, at: Visit
) -> None:
    at.script({"reply": {"failure": {"status": status}}})
    with synchronous(at, max_retries=0) as client, pytest.raises(error) as raised:
        client.messages.create(model=MODEL, max_tokens=9, messages=typed(f"fail with {status}"))
    assert raised.value.status_code == status
    assert raised.value.request_id == dict(at.standin.messages[0].reply_headers)["request-id"]
    (turn,) = at.recorded().turns
    assert turn.outcome == f"{status} {kind}"


def test_error_event_in_the_stream_is_raised_and_the_partial_reply_is_recorded(at: Visit) -> None:
    fault = {"kind": "error_event", "at": "content_block_stop"}
    at.script({"reply": {"text": "The beginning of", "faults": [fault]}})
    with (
        synchronous(at, max_retries=0) as client,
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        client.messages.stream(model=MODEL, max_tokens=9, messages=typed("break off")) as stream,
    ):
        stream.get_final_message()
    (turn,) = at.recorded().turns
    assert turn.text == "The beginning of"


def test_library_retries_are_attempts_at_one_turn() -> None:
    """The retry is immediate, so the test delays it until the failure is recorded, which takes longer with a slow
    database.
    """
    overloaded = {"failure": {"status": 529, "headers": [["retry-after-ms", "1"]]}}
    with standin_in_a_thread() as standin, serving(standin) as server:
        at = visit(server)
        at.script({"times": 2, "reply": overloaded}, {"reply": {"text": "At last."}})
        holding = anthropic.DefaultHttpxClient(
            event_hooks={"response": [lambda reply: reply.is_error and at.conversations()]}
        )
        with anthropic.Anthropic(base_url=server.url, api_key="k", http_client=holding) as client:
            message = client.messages.create(model=MODEL, max_tokens=9, messages=typed("once more"))
        assert last_words(message) == "At last."
        attempts = [(turn.turn, turn.attempt, turn.outcome) for turn in at.recorded().turns]
        assert attempts == [(1, 1, "529 overloaded_error"), (1, 2, "529 overloaded_error"), (1, 3, "200 end_turn")]
