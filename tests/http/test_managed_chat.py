"""Turns of a managed branch in Chat Completions, from a client through the complete proxy to a strict provider."""

import itertools
import json

import attrs
import pytest

from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.wire.chat_reply import ChatReply
from mnemosyne.http.sse import FrameReader, event_of
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Json, Stage, model_says, open_stage, recall, script, text, think
from tests.http.raw_client import RawReply, exchange
from tests.http.test_managed_responses import LOOP, MODE, OWN_LOOP

TOOL: Json = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@attrs.define
class Talk:
    """One conversation of a client that keeps every message unchanged."""

    url: str
    stream: bool = True
    headers: dict[str, str] = attrs.field(factory=dict)
    members: Json = attrs.field(factory=dict)
    history: list[Json] = attrs.field(factory=lambda: [{"role": "system", "content": "You are an agent. " * 600}])
    replies: list[RawReply] = attrs.field(factory=list)
    size: int = 1

    async def send(self) -> Json:
        """Send the history once; return the completion or the error."""
        body = {"model": "qwen3", "tools": [TOOL], "stream": self.stream, **self.members, "messages": self.history}
        given = {"content-type": "application/json", "user-agent": "OpenAI/Python 3.52.0", "authorization": "Bearer k"}
        headers = [(name.encode(), value.encode()) for name, value in (given | self.headers).items()]
        self.replies.append(
            await exchange(self.url, "/v1/chat/completions", json.dumps(body).encode(), headers=headers)
        )
        reply = self.replies[-1]
        if reply.status != 200:
            return {"status": reply.status, **json.loads(reply.body)}
        return read_stream(reply.body) if self.stream else dict(json.loads(reply.body))

    async def work(self, prompt: str) -> str:
        """Run an exchange: send the prompt and every requested result until the model's final text."""
        self.history.append({"role": "user", "content": prompt})
        while True:
            message = (await self.send())["choices"][0]["message"]
            self.history.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            self.history += [
                {"role": "tool", "tool_call_id": call["id"], "content": f"seen {call['id']} " * self.size}
                for call in message["tool_calls"]
            ]


def read_stream(raw: bytes) -> Json:
    reply = ChatReply()
    for frame in FrameReader().feed(raw):
        reply.take(event_of(frame) or {})
    return reply.message()


def breaks(stage: Stage) -> int:
    """How often the provider's request did not begin with the previous one."""
    sent = [each["messages"] for each in stage.upstream]
    return sum(after[: len(before)] != before for before, after in itertools.pairwise(sent))


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
            assert (await talk.work(prompt)).endswith("It is there.")
        assert stage.standin.violations == []
        assert [each.status for each in stage.standin.messages] == [200] * 10
        assert breaks(stage) == 0
        assert_nothing_of_ours(talk)
        offered = [tool["function"]["name"] for tool in stage.upstream[0]["tools"]]
        assert offered == ["look", "memory_query", "memory_restore", "memory_release", "memory_search"]
        assert [(each.turn, each.round) for each in await stage.rounds()][:3] == [(1, 1), (1, 2), (2, 1)]
        finished = [each for each in await stage.events() if isinstance(each, TurnFinished)]
        assert {each.stop_reason for each in finished} == {"tool_calls", "stop"}


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
        for kept in (2, 5, len(whole) - 1, len(whole)):
            calls = {call["id"] for each in whole[:kept] for call in each.get("tool_calls", ())}
            if calls <= {each.get("tool_call_id") for each in whole[:kept]}:
                talk.history = whole[:kept]
                await talk.work("Where else?")
        assert stage.standin.violations == []
        assert_nothing_of_ours(talk)


async def test_switched_off_conversation_continues_with_the_clients_own_history() -> None:
    async with open_stage(LOOP) as stage:
        talk = Talk(stage.url)
        await talk.work("Where is it?")
        talk.headers = {MODE: "off"}
        stage.standin.script = script(OWN_LOOP)
        assert (await talk.work("Where is the other?")).endswith("It is there.")
        assert {each.status for each in stage.standin.messages} == {200}
        assert [tool["function"]["name"] for tool in stage.upstream[-1]["tools"]] == ["look"]
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE, Mode.BYPASS]


async def test_full_window_is_rewritten_and_the_work_continues() -> None:
    async with open_stage(LOOP, window=8_000) as stage:
        talk = Talk(stage.url, size=200)
        for number in range(6):
            assert (await talk.work(f"Where is it, {number}?")).endswith("It is there.")
        assert stage.standin.violations == []
        epochs = [each for each in await stage.events() if isinstance(each, EpochBegan)]
        assert len(epochs) >= 2
        assert breaks(stage) == len(epochs)
        for each in stage.upstream:
            roles = [message["role"] for message in each["messages"]]
            assert not {("assistant", "assistant"), ("user", "user")} & {*itertools.pairwise(roles)}
        assert_nothing_of_ours(talk)
        await stage.rounds()


@pytest.mark.parametrize("call_id", ["call_0", "0"])
async def test_calls_of_several_replies_that_share_an_id_are_rewritten_with_their_results(call_id: str) -> None:
    """Some servers number the calls of each reply from zero. A result belongs to the call right before it."""
    replies = [
        model_says({"type": "tool_use", "id": call_id, "name": "look", "input": {}}),
        model_says(text("It is there.")),
    ]
    async with open_stage({"replies": replies}, window=8_000) as stage:
        talk = Talk(stage.url, size=400)
        for number in range(6):
            assert await talk.work(f"Where is it, {number}?") == "It is there."
        ids = [call["id"] for each in talk.history for call in each.get("tool_calls", ())]
        assert len(ids) == 6
        assert set(ids) == {call_id}
        assert [event for event in await stage.events() if isinstance(event, EpochBegan)]
        roles = [message["role"] for message in stage.upstream[-1]["messages"]]
        assert all(roles[place - 1] == "assistant" for place, role in enumerate(roles) if role == "tool")
        assert stage.standin.violations == []


async def test_hidden_calls_that_share_an_id_each_get_their_own_result() -> None:
    calls = [{**recall(question), "id": "call_0"} for question in ("what was it?", "where was it?")]
    async with open_stage({"replies": [model_says(*calls), model_says(text("It is there."))]}) as stage:
        talk = Talk(stage.url)
        for prompt in ("Where is it?", "And where is the other?"):
            assert await talk.work(prompt) == "It is there."
        assert stage.standin.violations == []
        results = [each["tool_call_id"] for each in stage.upstream[-1]["messages"] if each["role"] == "tool"]
        assert [len(set(results[:2])), len(set(results[2:]))] == [2, 2]
        assert breaks(stage) == 0
        await stage.rounds()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"n": 2}, "several replies"),
        ({"functions": [{"name": "look"}]}, "out of date"),
        ({"tools": []}, "no tools"),
        ({"tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}]}, "marks what is to be cached"),
    ],
)
async def test_unmanageable_conversation_is_only_recorded_with_the_reason(members: Json, why: str) -> None:
    async with open_stage({"reply": {"text": "Hello."}}) as stage:
        talk = Talk(stage.url, members=members)
        talk.history.append({"role": "user", "content": "Hello?"})
        await talk.send()
        (decided,) = await stage.modes()
        assert decided.mode is Mode.OBSERVE
        assert why in decided.why


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_provider_error_reaches_the_client_unchanged_and_a_retry_continues(
    stream: bool,
) -> None:
    failing = {"when": {"prompt": "other"}, "times": 1, "reply": {"failure": {"status": 400, "message": "No."}}}
    async with open_stage(failing, LOOP) as stage:
        talk = Talk(stage.url, stream=stream)
        await talk.work("Where is it?")
        talk.history.append({"role": "user", "content": "And where is the other?"})
        failed = await talk.send()
        assert (failed["status"], failed["error"]["message"]) == (400, "No.")
        talk.history.pop()
        assert (await talk.work("And where is the other?")).endswith("It is there.")
        assert breaks(stage) == 0


async def test_failed_hidden_round_is_sent_again() -> None:
    loop = {"replies": [model_says(think("I forgot."), recall()), model_says(text("It is there."))]}
    overloaded = {"when": {"request": 2}, "times": 1, "reply": {"failure": {"status": 429}}}
    async with open_stage(overloaded, loop) as stage:
        talk = Talk(stage.url)
        assert await talk.work("Where is it?") == "It is there."
        assert [each.status for each in stage.standin.messages] == [200, 429, 200]
        assert_nothing_of_ours(talk)
