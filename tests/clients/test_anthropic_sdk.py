"""The vendor's own library through a running server, managed and observed: it notices no difference."""

import json
from typing import cast

import anthropic
import pytest
from anthropic.types import Message, MessageParam, ToolParam

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.reading import Json
from tests.clients.managing import assert_managed
from tests.clients.workspace import Server, visit
from tests.http.managing import think
from tests.profiles import rarely

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
