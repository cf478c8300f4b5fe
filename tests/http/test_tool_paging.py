"""Paged tools through a complete proxy: the provider's tool list never changes, and the client never notices."""

import json
from typing import Any

import pytest

from mnemosyne.domain.objects.events import ObjectFaulted
from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.tools.memory_tools import TOOL
from mnemosyne.domain.tools.tool_paging import tools_of
from mnemosyne.domain.wire import transcript
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import (
    LOOK,
    Client,
    Json,
    Stage,
    assert_prefixes,
    look,
    model_says,
    open_stage,
    results,
    script,
    text,
    think,
)
from tests.http.test_epochs import SMALL, open_work, reads

ABOUT = "Looks at a place. " + "It never looks twice. " * 40
PLACES = {"at": {"type": "string", "description": "Where, as a place of the atlas. " * 60}}
LARGE: Json = {
    "name": "Look",
    "description": ABOUT,
    "input_schema": {"type": "object", "properties": PLACES, "required": ["at"]},
}
OTHER: Json = {**LARGE, "name": "mcp__atlas__turn_page", "description": ABOUT + "It turns pages."}
TOOLS: list[Json] = [{**LOOK, "name": "Glance"}, LARGE, OTHER]
NONE, ALL = 0, 100_000
"""Budgets: everything is paged that may be, and nothing."""


def ask(name: str = "Look") -> Json:
    return {"type": "tool_use", "name": TOOL, "input": {"name": name}}


LOOP = {
    "replies": [
        model_says(think("How does one look?"), ask()),
        model_says(think("So that is how."), text("Now look."), look(at="it")),
        model_says(think("Done."), text("It is there.")),
    ]
}
YES = {"reply": model_says(think("Hm."), text("Yes."))}


def client_on(stage: Stage, **options: Any) -> Client:
    return stage.client(tools=TOOLS, **options)


def sent_tools(stage: Stage) -> list[bytes]:
    """The tools of each request, as the bytes that the provider received."""
    return [tools_of(transcript.read(each.body).transcript) for each in stage.standin.messages]


def names(tools: bytes) -> list[str]:
    return [each["name"] for each in json.loads(tools)]


def is_paged(tools: bytes, name: str = "Look") -> bool:
    found = next(each for each in json.loads(tools) if each["name"] == name)
    return TOOL in found["description"]


def results_sent(stage: Stage) -> list[Json]:
    """The results in the last request."""
    blocks = [block for message in stage.upstream[-1]["messages"] for block in message["content"]]
    return [block for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_model_gets_the_definition_and_calls_the_tool_and_the_client_sees_only_the_call(
    stream: bool,
) -> None:
    async with open_stage(LOOP, tool_budget=NONE) as stage:
        client = client_on(stage, stream=stream)
        for prompt in ("Where is it?", "And the other?"):
            assert (await client.work(prompt))["content"][-1] == text("It is there.")
        assert_prefixes(stage.upstream)
        assert set(sent_tools(stage)) == {sent_tools(stage)[0]}
        assert names(sent_tools(stage)[0])[:3] == [tool["name"] for tool in TOOLS]
        assert names(sent_tools(stage)[0])[-1] == TOOL
        assert [is_paged(sent_tools(stage)[0], tool["name"]) for tool in TOOLS] == [False, True, True]
        definition, *_ = results_sent(stage)
        assert json.dumps(LARGE["input_schema"], separators=(",", ":")) in definition["content"]
        assert "definition of Look" in definition["content"]
        assert "is_error" not in definition
        calls = [block for message in client.history for block in message["content"] if block["type"] == "tool_use"]
        assert [(call["name"], call["input"]) for call in calls] == [("Look", {"at": "it"})] * 2
        assert not await stage.events_of(ObjectFaulted)


@pytest.mark.parametrize(("before", "after"), [(NONE, None), (ALL, NONE)])
async def test_server_with_another_setting_sends_the_same_tools(before: int | None, after: int | None) -> None:
    log = StoppableLog()
    async with open_standin({"rules": [YES]}) as standin:
        async with open_stage(standin=standin, log=log, tool_budget=before) as stage:
            client = client_on(stage)
            await client.turn(text("one"))
        async with open_stage(standin=standin, log=log, tool_budget=after) as stage:
            stage.join(client)
            await client.turn(text("two"))
            client.history = client.history[:1]  # and so does a fork
            await client.turn(text("or three?"))
        first, *rest = sent_tools(stage)
        assert rest == [first, first]
        assert is_paged(first) is (before == NONE)
        assert (TOOL in names(first)) is (before == NONE)
        (mode,) = await stage.modes()
        assert mode.tool_budget == before


async def test_definition_requested_before_a_restart_is_delivered_after_it() -> None:
    log = StoppableLog()
    mixed = model_says(think("Both."), ask(), look(at="it"))
    async with open_standin({"rules": [{"replies": [mixed, model_says(text("There."))]}]}) as standin:
        async with open_stage(standin=standin, log=log, tool_budget=NONE) as stage:
            client = client_on(stage)
            message = await client.turn(text("Where is it?"))
        async with open_stage(standin=standin, log=log) as stage:
            stage.join(client)
            await client.turn(*results(message))
        assert "definition of Look" in results_sent(stage)[0]["content"]
        await stage.check(grows=True)


async def test_epoch_keeps_the_tools_and_their_definitions_can_be_requested_again() -> None:
    async with open_work(window=SMALL, tool_budget=NONE) as (stage, client):
        client.tools = [*client.tools, LARGE]
        stage.standin.script = script({"replies": [model_says(ask()), model_says(text("So."))]})
        await client.turn(text("How does one look?"))
        await reads(client, stage, {"content": []}, 6)
        assert await stage.events_of(EpochBegan)
        assert "definition of Look" not in json.dumps(stage.upstream[-1]["messages"])
        assert set(sent_tools(stage)) == {sent_tools(stage)[0]}
        assert is_paged(sent_tools(stage)[0])
