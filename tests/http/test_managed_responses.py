"""Turns of a managed branch in the Responses API, from a client through everything of ours to a strict provider."""

import json
from itertools import pairwise

import attrs
import pytest

from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Json, Stage, open_stage, recall, said, script, text, think
from tests.http.raw_client import RawReply, exchange
from tests.http.responses import read_stream

TOOL: Json = {"type": "function", "name": "look", "parameters": {"type": "object"}}
MODE = "x-mnemosyne-mode"


def look(**given: object) -> Json:
    return {"type": "tool_use", "name": "look", "input": given}


LOOP = {
    "replies": [
        said(think("I forgot."), text("Let me see."), recall()),
        said(think("So that was it."), text("Now look."), look(at="it")),
        said(look(at="this"), look(at="that"), recall("and that?")),
        said(think("Hm."), recall("again?")),
        said(think("Done."), text("It is there.")),
    ]
}
OWN_LOOP = {"replies": [said(think("I look."), look(at="it")), said(think("Well."), text("It is there."))]}
"""What the model does without memory tools."""


@attrs.define
class Talk:
    """One conversation of a client that keeps every item as it came, as Codex does."""

    url: str
    stream: bool = True
    headers: dict[str, str] = attrs.field(factory=dict)
    members: Json = attrs.field(factory=lambda: {"store": False, "include": ["reasoning.encrypted_content"]})
    history: list[Json] = attrs.field(factory=list)
    replies: list[RawReply] = attrs.field(factory=list)
    size: int = 1

    async def send(self) -> Json:
        """The history once; the response that came back, or the error."""
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
        """An exchange: the prompt, and every result that is asked for, to the end."""
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
    """How often what the provider was sent did not begin with what it was sent before."""
    sent = [each["input"] for each in stage.upstream]
    return sum(after[: len(before)] != before for before, after in pairwise(sent))


def assert_nothing_of_ours(talk: Talk) -> None:
    for name in NAMES:
        assert name not in json.dumps(talk.history)
        assert all(name.encode() not in reply.body for reply in talk.replies)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_hidden_rounds_and_mixtures_are_one_reply_to_the_client_and_one_history_to_the_provider(
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


async def test_a_server_that_starts_anew_goes_on_with_the_same_bytes() -> None:
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


async def test_whoever_goes_back_is_sent_up_to_there_what_was_sent_before() -> None:
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


async def test_reasoning_is_left_out_when_managing_is_turned_off() -> None:
    """What it led to may have been a call of ours, which the client never saw."""
    async with open_stage(LOOP) as stage:
        talk = Talk(stage.url)
        await talk.work("Where is it?")
        talk.headers = {MODE: "off"}
        stage.standin.script = script(OWN_LOOP)
        for number in range(2):
            assert words(await talk.work(f"Where is the other, {number}?")) == "It is there."
        assert {each.violation.rule for each in stage.standin.violations} == {"R10"}  # the tools changed, of course
        assert {each.status for each in stage.standin.messages} == {200}
        assert [tool["name"] for tool in stage.upstream[-1]["tools"]] == ["look"]
        assert "reasoning" in {item["type"] for item in stage.upstream[-1]["input"]}
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE, Mode.BYPASS]


async def test_a_window_that_fills_is_rewritten_and_the_work_goes_on() -> None:
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
async def test_what_the_provider_holds_a_part_of_is_recorded_only_and_says_why(members: Json, why: str) -> None:
    async with open_stage({"reply": {"text": "Hello."}}) as stage:
        talk = Talk(stage.url, members=members)
        talk.history.append({"role": "user", "content": "Hello?"})
        await talk.send()
        assert [tool["name"] for tool in stage.upstream[0]["tools"]] == ["look"]
        (decided,) = await stage.modes()
        assert decided.mode is Mode.OBSERVE
        assert why in decided.why


async def test_a_history_with_a_sealed_part_is_recorded_only() -> None:
    async with open_stage() as stage:
        talk = Talk(stage.url)
        talk.history += [{"role": "user", "content": "Hello?"}, {"type": "compaction_trigger"}]
        (made,) = (await talk.send())["output"]
        talk.history[-1:] = [made, {"role": "user", "content": "Go on."}]
        stage.standin.script = script({"reply": {"text": "Hello."}})
        await talk.send()
        assert stage.standin.violations == []
        assert all("memory_query" not in json.dumps(each["tools"]) for each in stage.upstream)


async def test_reasoning_that_the_provider_refuses_is_left_out_once() -> None:
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


async def test_reasoning_of_another_issuer_does_not_leave() -> None:
    """As where a client goes on with another provider: nobody else could read it, and the provider would refuse it."""
    foreign = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "of another issuer"}
    async with open_stage(LOOP) as stage:
        talk = Talk(stage.url)
        await talk.work("Where is it?")
        talk.history.append(foreign)
        assert words(await talk.work("And where is the other?")) == "It is there."
        assert {each.status for each in stage.standin.messages} == {200}
        assert all(foreign not in each["input"] for each in stage.upstream)
        assert stage.standin.violations == []
