"""The proxy asks the provider why its cache missed; the client sees neither the question nor the answer."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import RoundFinished
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.replay.deciding import review
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import StoppableLog, assembled
from tests.http.managing import LOOK, Json, Stage, bare_stage, look, model_says, recall, text
from tests.http.test_managed_dialects import ResponsesTalk
from tests.plain.archive import MemoryArchive

LOOP = {"replies": [model_says(recall()), model_says(text("Now look."), look(at="it")), model_says(text("Done."))]}
MORE = {**LOOK, "name": "More"}


@asynccontextmanager
async def open_known(host: str = "api.anthropic.com", window: int | None = None, **script: Any) -> AsyncIterator[Stage]:
    """A proxy that takes the scripted provider for one with this host, with the memory tools from the first request."""
    rules = [{"reply": model_says(text("Yes."))}]
    log = StoppableLog()
    async with (
        open_standin({"rules": rules, **script}) as standin,
        bare_stage(log=log, standin=standin, tell_repeats=True, window=window) as stage,
    ):
        registry = stage.process.opener.registry
        registry.settings = attrs.evolve(registry.settings, host=host)
        yield stage
        found = await review(MemoryArchive(log), str(await stage.stream()))
        assert (found.differences, found.skipped) == ([], [])


def asked(standin: Standin) -> list[Any]:
    """The earlier reply that each request names; 'none' if it does not ask."""
    return [each.json().get("diagnostics", {}).get("previous_message_id", "none") for each in standin.messages]


def ids(standin: Standin) -> list[str]:
    return [f"msg_{number:024d}" for number in range(1, len(standin.messages) + 1)]


async def stored(stage: Stage, changes: Sequence[bytes]) -> list[Json]:
    stream = await stage.stream()
    replies = [recipe.apply(Recipe(), recipe.decode(change)) for change in changes]
    return [json.loads(await assembled(stage.log, each, stream)) for each in replies]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_each_round_names_the_one_before_it_and_the_verdict_stays_in_the_record(stream: bool) -> None:
    async with open_known(rules=[LOOP]) as stage:
        client = stage.client(stream=stream)
        await client.work("Where?")
        client.tools = [LOOK, MORE]
        await client.work("And now?")
        assert asked(stage.standin) == [None, *ids(stage.standin)[:-1]]
        sent = b"".join(reply.body for reply in client.replies)
        assert b"cache_miss_reason" not in sent
        assert b'"diagnostics":null' in sent
        finished = await stage.events_of(RoundFinished)
        recorded = [each.get("diagnostics") for each in await stored(stage, [each.reply for each in finished])]
        reasons = [each["cache_miss_reason"]["type"] if each else None for each in recorded]
        assert reasons == [None, None, None, "tools_changed", None, None]
        shown = [each.reply for each in await stage.events_of(TurnFinished)]
        assert {each.get("diagnostics") for each in await stored(stage, shown)} == {None}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_question_of_the_client_passes_with_its_answer(stream: bool) -> None:
    async with open_known() as stage:
        client = stage.client(stream=stream)
        client.members["diagnostics"] = {"previous_message_id": None}
        first = await client.turn(text("Hello."))
        client.members["diagnostics"] = {"previous_message_id": first["id"]}
        client.tools = [LOOK, MORE]
        message = await client.turn(text("Go on."))
        assert message["diagnostics"]["cache_miss_reason"]["type"] == "tools_changed"
        assert asked(stage.standin) == [None, first["id"]]


async def test_count_of_tokens_does_not_ask() -> None:
    async with open_known() as stage:
        client = stage.client()
        await client.turn(text("Hello."))
        await client.count(text("Go on."))
        (counted,) = stage.counted
        assert b"memory_query" in counted
        assert b"diagnostics" not in counted


async def test_refused_question_costs_one_request_and_is_remembered_for_the_credential_and_model() -> None:
    async with open_known(diagnostics=False) as stage:
        client = stage.client()
        for prompt in ("Hello.", "Go on."):
            assert (await client.turn(text(prompt)))["content"] == [text("Yes.")]
        assert [each.status for each in stage.standin.messages] == [400, 200, 200]
        client.headers["x-api-key"] = "another"
        await client.turn(text("And now?"))
        client.model = "claude-haiku-5"
        await client.turn(text("And so?"))
        assert [each.status for each in stage.standin.messages][3:] == [400, 200, 400, 200]


async def test_request_that_is_refused_for_two_reasons_is_replaced_twice() -> None:
    tools = {"failure": {"status": 400, "message": "tools.1.name: memory_query is not allowed"}}
    rules = [{"when": {"tool": "memory_query"}, "reply": tools}, {"reply": model_says(text("Yes."))}]
    async with open_known(diagnostics=False, rules=rules) as stage:
        client = stage.client()
        for prompt in ("Hello.", "Go on."):
            assert (await client.turn(text(prompt)))["content"] == [text("Yes.")]
        assert [each.status for each in stage.standin.messages] == [400, 400, 200, 200]


@pytest.mark.parametrize("host", ["", "gateway.example.com", "api.openai.com"])
async def test_other_providers_are_not_asked(host: str) -> None:
    async with open_known(host) as stage:
        await stage.client().turn(text("Hello."))
        assert asked(stage.standin) == ["none"]


async def test_answerless_request_is_followed_by_the_last_reply_that_is_known() -> None:
    overloaded = {"failure": {"status": 529, "headers": [["x-should-retry", "false"]]}}
    rules = [{"when": {"request": 2}, "reply": overloaded}, {"reply": model_says(text("Yes."))}]
    async with open_known(rules=rules) as stage:
        client = stage.client()
        first = await client.turn(text("Hello."))
        await client.turn(text("Go on."))
        await client.send()
        assert asked(stage.standin) == [None, first["id"], first["id"]]


async def test_responses_api_is_asked_from_the_second_request_on() -> None:
    async with open_known("api.openai.com", rules=[LOOP]) as stage:
        talk = ResponsesTalk(stage.url, members={"model": "gpt-6.2-sol"})
        await talk.work("Where?")
        await talk.work("And now?")
        named = [
            (each.json().get("prompt_cache_options") or {}).get("comparison_response_id")
            for each in stage.standin.messages
        ]
        assert named[0] is None
        assert named[-1] == f"resp_{len(named) - 1:024d}"
        assert b"cache_hit" in bytes(stage.standin.messages[-1].payload)
        assert all(b"cache_hit" not in reply.body for reply in talk.replies)
