"""The vendor's own library in a managed conversation: every mixture, streamed and whole, without a visible
difference.
"""

import json

import anthropic
import pytest
from anthropic.types import Message, MessageParam

from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.reading import Json
from tests.clients.managing import assert_managed
from tests.clients.test_anthropic_sdk import MODEL, TOOLS, answered, last_words, typed
from tests.clients.workspace import Server, Visit, visit

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

MANAGE = {"x-mnemosyne-mode": "manage"}


@pytest.fixture
def at(server: Server) -> Visit:
    return visit(server)


def assert_unseen(said: list[MessageParam], message: Message) -> None:
    assert last_words(message) == "It is there."
    shown = json.dumps(said) + message.to_json()
    assert not [name for name in NAMES if name in shown]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_synchronous_client(stream: bool, at: Visit) -> None:
    at.script({"replies": LOOP})
    said = typed(f"where is it? ({stream})")
    message: Message
    with anthropic.Anthropic(base_url=at.server.url, api_key="k", default_headers=MANAGE) as client:
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
    assert_managed(at)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_the_asynchronous_client(stream: bool, at: Visit) -> None:
    at.script({"replies": LOOP})
    said = typed(f"where is it, meanwhile? ({stream})")
    message: Message
    async with anthropic.AsyncAnthropic(base_url=at.server.url, api_key="k", default_headers=MANAGE) as client:
        while True:
            if stream:
                async with client.messages.stream(model=MODEL, max_tokens=99, messages=said, tools=TOOLS) as reply:
                    message = await reply.get_final_message()
            else:
                message = await client.messages.create(model=MODEL, max_tokens=99, messages=said, tools=TOOLS)
            if message.stop_reason != "tool_use":
                break
            said += answered(message)
    assert_unseen(said, message)
    assert_managed(at)
