"""The vendor's own library, on spliced replies and through a running server: it notices no difference."""

import json
from typing import Any, cast

import anthropic
import httpx2
import pytest
from anthropic.types import Message, MessageParam, ToolParam
from hypothesis import given

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.reading import Json
from tests.clients.managing import assert_managed
from tests.clients.workspace import Server, visit
from tests.http.managing import think
from tests.http.rounds import Round
from tests.http.test_splicing import CASES, assert_no_secret, streamed, turns, whole
from tests.profiles import examples, rarely

MODEL = "claude-opus-5-5"
TOOLS: list[ToolParam] = [{"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}]


RECALL: Json = {"type": "tool_use", "name": "memory_query", "input": {"question": "what was it?"}}
LOOK: Json = {"type": "tool_use", "name": "Look", "input": {"at": "it — über alles", "n": 1.0}}


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


def read(raw: bytes, *, streamed: bool) -> Message:
    kind = "text/event-stream" if streamed else "application/json"
    answer = httpx2.Response(200, headers={"content-type": kind}, content=raw)
    with (
        httpx2.Client(transport=httpx2.MockTransport(lambda _: answer)) as transport,
        anthropic.Anthropic(api_key="none", base_url="http://none", max_retries=0, http_client=transport) as client,
    ):
        asked: Any = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "?"}]}
        if not streamed:
            return cast("Message", client.messages.create(**asked))
        with client.messages.stream(**asked) as stream:
            return stream.get_final_message()


def blocks_of(message: Message) -> list[Json]:
    """The blocks as they were sent, without the fields that the library adds."""
    dicts = (block.to_dict() for block in message.content)
    return [{key: value for key, value in block.items() if value is not None} for block in dicts]


@pytest.mark.parametrize("way", [streamed, whole])
def test_every_mixture_is_the_same_reply_to_the_library(way: Any) -> None:
    for name, case in CASES.items():
        got = read(way(case.rounds)[0].raw, streamed=way is streamed)
        assert (name, blocks_of(got), got.stop_reason, got.id) == (name, case.shown, case.stop_reason, "msg_1")


@given(turns())
@examples(50)
def test_turn_is_the_same_message_streamed_and_whole(rounds: list[Round]) -> None:
    (by_stream, _), (by_body, rewriter) = streamed(rounds), whole(rounds)
    assert_no_secret(by_body.raw)
    one, other = read(by_stream.raw, streamed=True), read(by_body.raw, streamed=False)
    assert blocks_of(one) == blocks_of(other)
    assert (one.id, one.stop_reason, one.usage) == (other.id, other.stop_reason, other.usage)
    assert json.loads(by_body.raw) == json.loads(rewriter.visible().body)


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


@pytest.mark.parametrize(
    ("managed", "stream"),
    [*rarely([(False, True)]), (True, True), *rarely([(True, False)])],
    ids=["observed", "streamed", "whole"],
)
def test_tool_loop_of_the_synchronous_client(managed: bool, stream: bool, server: Server) -> None:
    at = visit(server)
    at.script({"replies": LOOP if managed else OWN_LOOP})
    said: list[MessageParam] = [{"role": "user", "content": f"where is it? ({managed} {stream})"}]
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
    assert message.content[-1].type == "text"
    assert message.content[-1].text == "It is there."
    shown = json.dumps(said) + message.to_json()
    assert not [name for name in NAMES if name in shown]
    if managed:
        assert_managed(at)
    else:
        conversation = at.conversation()
        assert conversation.client.startswith("anthropic-sdk 2.")
        assert conversation.branches == {"main": len(OWN_LOOP)}
