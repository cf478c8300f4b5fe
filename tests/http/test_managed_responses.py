"""Turns of a managed branch in the Responses API, from a client through the complete proxy to a strict provider."""

import json
from itertools import pairwise

import attrs
import pytest

from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Json, Stage, model_says, open_stage, recall, script, text, think
from tests.http.raw_client import RawReply, exchange
from tests.http.responses import read_stream

TOOL: Json = {"type": "function", "name": "look", "parameters": {"type": "object"}}
MODE = "x-mnemosyne-mode"


def look(**given: object) -> Json:
    return {"type": "tool_use", "name": "look", "input": given}


LOOP = {
    "replies": [
        model_says(think("I forgot."), text("Let me see."), recall()),
        model_says(think("So that was it."), text("Now look."), look(at="it")),
        model_says(look(at="this"), look(at="that"), recall("and that?")),
        model_says(think("Hm."), recall("again?")),
        model_says(think("Done."), text("It is there.")),
    ]
}
OWN_LOOP = {"replies": [model_says(think("I look."), look(at="it")), model_says(think("Well."), text("It is there."))]}
"""What the model does without memory tools."""


@attrs.define
class Talk:
    """One conversation of a client that keeps every item unchanged, as Codex does."""

    url: str
    stream: bool = True
    headers: dict[str, str] = attrs.field(factory=dict)
    members: Json = attrs.field(factory=lambda: {"store": False, "include": ["reasoning.encrypted_content"]})
    history: list[Json] = attrs.field(factory=list)
    replies: list[RawReply] = attrs.field(factory=list)
    size: int = 1

    async def send(self) -> Json:
        """Send the history once; return the response or the error."""
        body = {"model": "gpt-5.5", "instructions": "You are an agent. " * 600, "tools": [TOOL], **self.members}
        given = {
            "content-type": "application/json",
            "user-agent": "codex_exec/0.169.0",
            "session-id": "s",
            "authorization": "Bearer k",
        }
        headers = [(name.encode(), value.encode()) for name, value in (given | self.headers).items()]
        raw = json.dumps({**body, "stream": self.stream, "input": self.history}).encode()
        self.replies.append(await exchange(self.url, "/v1/responses", raw, headers=headers))
        reply = self.replies[-1]
        if reply.status != 200:
            return {"status": reply.status, **json.loads(reply.body)}
        response: Json = read_stream(reply.body) if self.stream else json.loads(reply.body)
        return response

    async def work(self, prompt: str) -> Json:
        """Run an exchange: send the prompt and every requested result until the model finishes."""
        self.history.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]})
        while True:
            response = await self.send()
            self.history += response["output"]
            calls = [item for item in response["output"] if item["type"] == "function_call"]
            if not calls:
                return response
            self.history += [
                {
                    "type": "function_call_output",
                    "call_id": call["call_id"],
                    "output": f"seen {call['call_id']} " * self.size,
                }
                for call in calls
            ]


def words(response: Json) -> str:
    return str(response["output"][-1]["content"][0]["text"])


def breaks(stage: Stage) -> int:
    """How often the provider's request did not begin with the previous one."""
    sent = [each["input"] for each in stage.upstream]
    return sum(after[: len(before)] != before for before, after in pairwise(sent))


def assert_nothing_of_ours(talk: Talk) -> None:
    for name in NAMES:
        assert name not in json.dumps(talk.history)
        assert all(name.encode() not in reply.body for reply in talk.replies)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_hidden_rounds_are_one_reply_to_the_client_and_one_history_to_the_provider(
    stream: bool,
) -> None:
    async with open_stage(LOOP) as stage:
        talk = Talk(stage.url, stream=stream)
        for prompt in ("Where is it?", "And where is the other?"):
            assert words(await talk.work(prompt)) == "It is there."
        assert stage.standin.violations == []
        assert [each.status for each in stage.standin.messages] == [200] * 10
        assert breaks(stage) == 0
        assert_nothing_of_ours(talk)
        offered = [tool["name"] for tool in stage.upstream[0]["tools"]]
        assert offered == ["look", "memory_query", "memory_restore", "memory_release", "memory_search"]
        assert [(each.turn, each.round) for each in await stage.rounds()][:5] == [
            (1, 1),
            (1, 2),
            (2, 1),
            (3, 1),
            (3, 2),
        ]
        finished = [each for each in await stage.events() if isinstance(each, TurnFinished)]
        assert {each.stop_reason for each in finished} == {"completed"}


async def test_restarted_server_continues_with_the_same_bytes() -> None:
    log = StoppableLog()
    async with open_standin({"rules": [LOOP]}) as standin:
        talk = Talk("")
        for number in range(3):
            async with open_stage(log=log, standin=standin) as stage:
                talk.url = stage.url
                await talk.work(f"Where is it, {number}?")
                assert breaks(stage) == 0
                await stage.rounds()
        assert standin.violations == []


async def test_client_that_goes_back_gets_the_same_history_upstream_up_to_there() -> None:
    async with open_stage(LOOP) as stage:
        talk = Talk(stage.url)
        await talk.work("Where is it?")
        whole = list(talk.history)
        for kept in range(1, len(whole)):
            open_calls = {item.get("call_id") for item in whole[:kept] if item["type"] == "function_call"}
            open_calls -= {item.get("call_id") for item in whole[:kept] if item["type"] == "function_call_output"}
            if open_calls or whole[kept - 1]["type"] == "reasoning":
                continue
            talk.history = whole[:kept]
            await talk.work("Where else?")
        assert stage.standin.violations == []
        assert_nothing_of_ours(talk)


async def test_reasoning_is_dropped_when_managing_is_switched_off() -> None:
    """It may have led to a memory call, which the client never saw."""
    async with open_stage(LOOP) as stage:
        talk = Talk(stage.url)
        await talk.work("Where is it?")
        talk.headers = {MODE: "off"}
        stage.standin.script = script(OWN_LOOP)
        for number in range(2):
            assert words(await talk.work(f"Where is the other, {number}?")) == "It is there."
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # the tools changed, as expected
        assert {each.status for each in stage.standin.messages} == {200}
        assert [tool["name"] for tool in stage.upstream[-1]["tools"]] == ["look"]
        assert "reasoning" in {item["type"] for item in stage.upstream[-1]["input"]}
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE, Mode.BYPASS]


async def test_full_window_is_rewritten_and_the_work_continues() -> None:
    async with open_stage(LOOP, window=8_000) as stage:
        talk = Talk(stage.url, size=200)
        for number in range(6):
            assert words(await talk.work(f"Where is it, {number}?")) == "It is there."
        assert stage.standin.violations == []
        epochs = [each for each in await stage.events() if isinstance(each, EpochBegan)]
        assert len(epochs) >= 2
        assert breaks(stage) == len(epochs)
        assert_nothing_of_ours(talk)
        await stage.rounds()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"store": True}, "keep its replies"),
        ({}, "keep its replies"),
        ({"store": False, "previous_response_id": "resp_1"}, "it is not a conversation"),
        ({"store": False, "background": True}, "the provider holds a part of it"),
    ],
)
async def test_conversation_stored_at_the_provider_is_only_recorded_with_the_reason(members: Json, why: str) -> None:
    async with open_stage({"reply": {"text": "Hello."}}) as stage:
        talk = Talk(stage.url, members=members)
        talk.history.append({"role": "user", "content": "Hello?"})
        await talk.send()
        assert [tool["name"] for tool in stage.upstream[0]["tools"]] == ["look"]
        (decided,) = await stage.modes()
        assert decided.mode is Mode.OBSERVE
        assert why in decided.why


async def test_history_with_an_encrypted_part_is_only_recorded() -> None:
    async with open_stage() as stage:
        talk = Talk(stage.url)
        talk.history += [{"role": "user", "content": "Hello?"}, {"type": "compaction_trigger"}]
        (made,) = (await talk.send())["output"]
        talk.history[-1:] = [made, {"role": "user", "content": "Go on."}]
        stage.standin.script = script({"reply": {"text": "Hello."}})
        await talk.send()
        assert stage.standin.violations == []
        assert all("memory_query" not in json.dumps(each["tools"]) for each in stage.upstream)


async def test_refused_reasoning_is_removed_once() -> None:
    message = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    refused = {"when": {"prompt": "other"}, "times": 1, "reply": {"failure": {"status": 400, "message": message}}}
    async with open_stage(refused, LOOP) as stage:
        talk = Talk(stage.url)
        await talk.work("Where is it?")
        assert words(await talk.work("And where is the other?")) == "It is there."
        assert [each.status for each in stage.standin.messages] == [*[200] * 5, 400, *[200] * 5]
        kinds = [[item["type"] for item in each["input"]] for each in stage.upstream]
        assert "reasoning" in kinds[5]
        assert kinds[6] == [kind for kind in kinds[5] if kind != "reasoning"]
        assert stage.standin.violations == []
        await stage.rounds()


async def test_reasoning_of_another_issuer_is_not_sent() -> None:
    """As when a client continues with another provider, which could not read it and would refuse it."""
    foreign = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "of another issuer"}
    async with open_stage(LOOP) as stage:
        talk = Talk(stage.url)
        await talk.work("Where is it?")
        talk.history.append(foreign)
        assert words(await talk.work("And where is the other?")) == "It is there."
        assert {each.status for each in stage.standin.messages} == {200}
        assert all(foreign not in each["input"] for each in stage.upstream)
        assert stage.standin.violations == []
