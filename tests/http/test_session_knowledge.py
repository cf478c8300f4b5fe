"""A session gets the knowledge from earlier sessions and contributes to later ones, through a complete managing
proxy.
"""

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest
import trio

from mnemosyne.actors.knowledge_source import KnowledgeSource
from mnemosyne.actors.owners import OWNER
from mnemosyne.domain.history import memory_travel
from mnemosyne.domain.knowledge.decide import Place, RememberEntry, UpdateEntry
from mnemosyne.domain.knowledge.kinds import EntryKind, EntrySource, Scope
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore, knowledge_stream
from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.objects.retired import find_retired
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import KnowledgeTold, Mode
from mnemosyne.errors import LogUnavailable
from tests.actors.support import StoppableLog
from tests.domain.knowledge.support import draft
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_nothing_of_ours,
    assert_prefixes,
    model_says,
    open_stage,
    text,
)
from tests.http.test_epochs import SMALL, TOOLS, epochs_of, reads, violations

PROJECT, USER = Place("t", Scope.PROJECT, "app"), Place("t", Scope.USER)
PORT = "The billing service listens on port 8443"
PROMPT = "Why does the billing service not answer on its port?"


@attrs.define
class Working(Client):
    """A client that names its working folder."""

    folder: str = "/home/ada/app"

    def body(self) -> bytes:
        body = json.loads(super().body())
        body["system"] = [*body["system"], {"type": "text", "text": f"Working directory: {self.folder}"}]
        return json.dumps(body).encode()


async def save_knowledge(log: StoppableLog, place: Place, content: str, **fields: Any) -> None:
    command = RememberEntry(at=1, write=content, draft=draft(content, **fields))
    await KnowledgeStore(log, log).write(place, command, "c")


async def contents(log: StoppableLog, place: Place) -> list[str]:
    return [each.content for each in (await KnowledgeStore(log, log).read(place)).valid(10**9)]


def blocks(body: Json) -> list[str]:
    """The knowledge texts in a body, at any place."""
    said = [block for message in body["messages"] for block in message["content"] if block.get("type") == "text"]
    return [block["text"] for block in said if block["text"].startswith("[MEMORY]")]


async def knowledge_events(stage: Stage) -> list[KnowledgeTold]:
    return [event for event in await stage.events() if isinstance(event, KnowledgeTold)]


async def test_knowledge_follows_the_first_prompt_and_is_hidden_from_the_client() -> None:
    log = StoppableLog()
    await save_knowledge(log, PROJECT, PORT)
    await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
    async with open_stage({"reply": model_says(text("Done."))}, log=log, memory_tokens=600) as stage:
        client = Working(stage.url)
        await client.work(PROMPT)
        await client.work("And now?")
        first, second = stage.upstream
        (block,) = blocks(first)
        assert PORT in block
        assert "Answer briefly" in block
        assert first["messages"][0]["content"][0]["text"] == PROMPT
        assert blocks(second) == [block]
        assert_prefixes(stage.upstream)
        assert "[MEMORY]" not in json.dumps(client.history)
        assert_nothing_of_ours(client)
        (event,) = await knowledge_events(stage)
        assert (event.text, event.turn, event.message) == (block, 1, 0)
        assert len(event.entries) == 2
        await stage.rounds()
        assert violations(stage) == []


async def test_rewrite_keeps_the_knowledge_text_and_adds_no_newer_entries() -> None:
    log = StoppableLog()
    await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
    async with open_stage(log=log, memory_tokens=600, window=SMALL) as stage:
        client = Working(stage.url, tools=TOOLS)
        message = await reads(client, stage, {"content": []}, 3)
        command = UpdateEntry(at=2, write="u", wanted="briefly", content="Answer at length", source=EntrySource.USER)
        await KnowledgeStore(log, log).write(USER, command, "c")
        await reads(client, stage, message, 9, first=3)
        assert len(await epochs_of(stage)) >= 2
        told = {block for body in stage.upstream for block in blocks(body)}
        assert len(told) == 1
        assert "Answer briefly" in told.pop()
        assert all(len(blocks(body)) == 1 for body in stage.upstream)
        await stage.rounds()
        assert violations(stage) == []


async def test_restarted_process_sends_the_same_knowledge_text() -> None:
    log = StoppableLog()
    await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
    async with open_stage({"reply": model_says(text("Done."))}, log=log, memory_tokens=600) as stage:
        client = Working(stage.url)
        await client.work("Begin.")
        before = stage.upstream[-1]
    async with open_stage({"reply": model_says(text("Done."))}, log=log, memory_tokens=0) as stage:
        client.url = stage.url
        await client.work("Go on.")
        (after,) = stage.upstream
        assert blocks(after) == blocks(before) != []
        assert_prefixes([before, after])


async def test_request_is_unchanged_without_relevant_knowledge() -> None:
    for tokens, known in ((600, False), (0, True)):
        log = StoppableLog()
        if known:
            await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
        async with open_stage({"reply": model_says(text("Done."))}, log=log, memory_tokens=tokens) as stage:
            await Working(stage.url).work("Begin.")
            assert blocks(stage.upstream[0]) == []
            assert await knowledge_events(stage) == []


async def test_knowledge_takes_only_a_small_part_of_the_first_request() -> None:
    log = StoppableLog()
    for number in range(30):
        await save_knowledge(log, USER, f"Rule {number} of the style of all answers", kind=EntryKind.RESPONSE_STYLE)
    store = KnowledgeStore(log, log)
    one = KnowledgeSource(store, find_project, lambda: 1, lambda: "w", tokens=600)
    small, large, huge = [
        await one.select_knowledge("t", OWNER, None, "Begin.", size, 1) for size in (10_000, 72_000, 10_000_000)
    ]
    assert small is None  # 2,500 tokens: a line would cost more than 1.5 %
    assert large is not None
    assert huge is not None
    assert large.tokens <= 0.015 * 72_000 / 4
    assert large.tokens < huge.tokens <= 600


async def find_project(folder: str) -> str:
    await trio.lowlevel.checkpoint()
    return folder


async def test_observed_session_keeps_its_bytes() -> None:
    log = StoppableLog()
    await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
    async with open_stage({"reply": model_says(text("Done."))}, log=log, memory_tokens=600, mode=Mode.OBSERVE) as stage:
        client = Working(stage.url)
        await client.work("Begin.")
        assert stage.standin.messages[0].body == client.bodies[0]


@pytest.mark.parametrize("properties", [{"title": {"type": "string"}}, {"isNewTopic": {"type": "boolean"}}])
async def test_title_or_schema_request_gets_no_knowledge(properties: Json) -> None:
    log = StoppableLog()
    await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
    async with open_stage({"reply": model_says(text("{}"))}, log=log, memory_tokens=600) as stage:
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        members = {"max_tokens": 400, "output_config": {"format": {"type": "json_schema", "schema": schema}}}
        await Working(stage.url, members=members).work(PROMPT)
        await Working(stage.url, session="main").work(PROMPT)
        asked, main = stage.upstream
        assert blocks(asked) == []
        assert blocks(main) != []


async def test_another_project_gets_user_preferences_only() -> None:
    log = StoppableLog()
    await save_knowledge(log, PROJECT, PORT)
    await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
    async with open_stage({"reply": model_says(text("Done."))}, log=log, memory_tokens=600) as stage:
        await Working(stage.url, folder="/home/ada/other").work(PROMPT)
        (block,) = blocks(stage.upstream[0])
        assert "Answer briefly" in block
        assert PORT not in block


class Forgetful(StoppableLog):
    """A log in which the project's knowledge cannot be read."""

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        if stream == knowledge_stream(PROJECT):
            raise LogUnavailable("the database is away")
        return await super().read(stream, after=after, upto=upto)


async def test_unreadable_knowledge_costs_the_session_nothing() -> None:
    async with open_stage({"reply": model_says(text("Done."))}, log=Forgetful(), memory_tokens=600) as stage:
        message = await Working(stage.url).work(PROMPT)
        assert message["stop_reason"] == "end_turn"
        assert blocks(stage.upstream[0]) == []


class Broken(StoppableLog):
    """A log in which reading the project's knowledge fails with an unexpected error."""

    async def read(self, stream: UUID, *, after: int = 0, upto: int | None = None) -> Sequence[Recorded[Event]]:
        if stream == knowledge_stream(PROJECT):
            raise ZeroDivisionError
        return await super().read(stream, after=after, upto=upto)


async def test_unexpected_fault_of_the_knowledge_costs_a_session_nothing() -> None:
    async with open_stage({"reply": model_says(text("Done."))}, log=Broken(), memory_tokens=600) as stage:
        client = Working(stage.url)
        for prompt in (PROMPT, "Never use another port.", "Go on."):
            message = await client.work(prompt)
            assert message["stop_reason"] == "end_turn"
        assert [blocks(each) for each in stage.upstream] == [[], [], []]
        assert len(await stage.rounds()) == 3


@pytest.mark.parametrize(
    "prompt",
    [
        "Never use another port than 8443 for the billing service.",
        "please remember that the staging database is read-only",
        "yes, do 1",
    ],
)
async def test_text_in_a_session_never_becomes_an_entry(prompt: str) -> None:
    log = StoppableLog()
    await save_knowledge(log, USER, "I prefer short answers", kind=EntryKind.RESPONSE_STYLE)
    reply = model_says(text("Remember that we always deploy on Fridays. Should I 1. use MD5 or 2. keep it?"))
    async with open_stage({"reply": reply}, log=log, memory_tokens=600) as stage:
        client = Working(stage.url)
        for each in (PROMPT, prompt, "Go on."):
            await client.work(each)
        assert blocks(stage.upstream[-1])
        created = [event for event in await stage.events() if isinstance(event, ObjectCreated)]
        assert not find_retired(created)
    assert await contents(log, USER) == ["I prefer short answers"]
    assert await contents(log, PROJECT) == []


async def test_snapshot_lists_the_knowledge_of_its_branch() -> None:
    log = StoppableLog()
    await save_knowledge(log, USER, "Answer briefly", kind=EntryKind.RESPONSE_STYLE)
    async with open_stage({"reply": model_says(text("Done."))}, log=log, memory_tokens=600) as stage:
        client = Working(stage.url)
        await client.work("Begin.")
        await client.work("Go on.")
        await stage.rounds()
        (told,) = await knowledge_events(stage)
        recorded = await log.read(await stage.stream())
        for turn in (1, 2):
            assert memory_travel.snapshot(recorded, "main", turn).told == told
