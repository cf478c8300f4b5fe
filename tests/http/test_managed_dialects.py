"""Turns of a managed branch in each dialect, through the complete proxy to a strict provider."""

import itertools
import json
from collections.abc import Sequence
from typing import ClassVar

import attrs
import pytest

from mnemosyne.domain.cost.cache_misses import MissCause
from mnemosyne.domain.history.time_travel import history_of
from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.wire.chat_reply import ChatReply
from mnemosyne.http.sse import FrameReader, event_of
from mnemosyne.replay.deciding import review
from mnemosyne.services.cache_misses import read_misses
from mnemosyne_lab.provider.server import open_standin
from tests.actors.support import StoppableLog
from tests.http.managing import Json, bare, bare_stage, message_of, model_says, open_stage, recall, script, text, think
from tests.http.managing import results as results_of
from tests.http.raw_client import RawReply, exchange
from tests.http.responses import read_stream
from tests.plain.archive import MemoryArchive
from tests.profiles import cover, rarely

MODE = "x-mnemosyne-mode"
PROMPT = "You are an agent. " * 600


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
"""The model's replies without memory tools."""


@attrs.define
class Talk:
    """One conversation of a client that keeps every message of its dialect unchanged."""

    path: ClassVar[str]
    array: ClassVar[str]
    body: ClassVar[Json]
    identity: ClassVar[dict[str, str]]
    ends: ClassVar[set[str]]
    """How the provider calls the ends of a reply with calls, and of any other."""

    url: str = ""
    stream: bool = True
    headers: dict[str, str] = attrs.field(factory=dict)
    members: Json = attrs.field(factory=dict)
    history: list[Json] = attrs.field(factory=list)
    replies: list[RawReply] = attrs.field(factory=list)
    bodies: list[bytes] = attrs.field(factory=list)
    size: int = 1

    async def send(self) -> Json:
        """Send the history once; return the reply's message or the error."""
        body = {**self.body, "stream": self.stream, **self.members, self.array: self.history}
        given = {"content-type": "application/json", "authorization": "Bearer k", **self.identity, **self.headers}
        headers = [(name.encode(), value.encode()) for name, value in given.items()]
        self.bodies.append(json.dumps(body).encode())
        reply = await exchange(self.url, self.path, self.bodies[-1], headers=headers)
        self.replies.append(reply)
        if reply.status != 200:
            return {"status": reply.status, **json.loads(reply.body)}
        return self.read(reply.body) if self.stream else dict(json.loads(reply.body))

    async def work(self, prompt: str) -> str:
        """Run an exchange: send the prompt and every requested result until the model's final text."""
        self.history.append({"role": "user", "content": prompt})
        while True:
            reply = await self.send()
            if not self.keep(reply):
                return self.words(reply)

    def read(self, raw: bytes) -> Json:
        """The reply that a client reads from a stream."""
        raise NotImplementedError

    def keep(self, reply: Json) -> bool:
        """Add a reply and the results of its calls to the history; return whether it has calls."""
        raise NotImplementedError

    def words(self, reply: Json) -> str:
        raise NotImplementedError

    def tool_names(self, body: Json) -> list[str]:
        return [tool.get("function", tool)["name"] for tool in body["tools"]]


class MessagesTalk(Talk):
    """A conversation in Messages, as of an agent that marks nothing for caching."""

    path = "/v1/messages"
    array = "messages"
    body: ClassVar[Json] = {
        "model": "claude-opus-5-5",
        "thinking": {"type": "adaptive"},
        "max_tokens": 4000,
        "system": PROMPT,
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    }
    identity: ClassVar[dict[str, str]] = {
        "user-agent": "claude-cli/2.1.329",
        "x-claude-code-session-id": "s",
        "anthropic-version": "2023-06-01",
    }
    ends: ClassVar[set[str]] = {"tool_use", "end_turn"}

    def read(self, raw: bytes) -> Json:
        return message_of(RawReply(200, [(b"content-type", b"text/event-stream")], raw))

    def keep(self, reply: Json) -> bool:
        results = [{**each, "content": each["content"] * self.size} for each in results_of(reply)]
        self.history.append({"role": "assistant", "content": reply["content"]})
        self.history += [{"role": "user", "content": results}] if results else []
        return bool(results)

    def words(self, reply: Json) -> str:
        return str(reply["content"][-1]["text"])


class ChatTalk(Talk):
    """A conversation in Chat Completions."""

    path = "/v1/chat/completions"
    array = "messages"
    body: ClassVar[Json] = {
        "model": "qwen3",
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    }
    identity: ClassVar[dict[str, str]] = {"user-agent": "OpenAI/Python 3.52.0"}
    ends: ClassVar[set[str]] = {"tool_calls", "stop"}

    def __attrs_post_init__(self) -> None:
        self.history.append({"role": "system", "content": PROMPT})

    def read(self, raw: bytes) -> Json:
        reply = ChatReply()
        for frame in FrameReader().feed(raw):
            reply.take(event_of(frame) or {})
        return reply.message()

    def keep(self, reply: Json) -> bool:
        message = reply["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"seen {call['id']} " * self.size}
            for call in message.get("tool_calls") or ()
        ]
        self.history += [message, *results]
        return bool(results)

    def words(self, reply: Json) -> str:
        return str(reply["choices"][0]["message"]["content"])


class ResponsesTalk(Talk):
    """A conversation in the Responses API, as of Codex."""

    path = "/v1/responses"
    array = "input"
    body: ClassVar[Json] = {
        "model": "gpt-5.5",
        "instructions": PROMPT,
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    identity: ClassVar[dict[str, str]] = {"user-agent": "codex_exec/0.169.0", "session-id": "s"}
    ends: ClassVar[set[str]] = {"tool_calls", "completed"}

    def read(self, raw: bytes) -> Json:
        return read_stream(raw)

    def keep(self, reply: Json) -> bool:
        calls = [item["call_id"] for item in reply["output"] if item["type"] == "function_call"]
        self.history += [
            *reply["output"],
            *({"type": "function_call_output", "call_id": id_, "output": f"seen {id_} " * self.size} for id_ in calls),
        ]
        return bool(calls)

    def words(self, reply: Json) -> str:
        return str(reply["output"][-1]["content"][0]["text"])


KINDS: dict[str, type[Talk]] = {"messages": MessagesTalk, "chat": ChatTalk, "responses": ResponsesTalk}
TALKS = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
RESPONSES = pytest.mark.parametrize("make", [ResponsesTalk, *rarely([ChatTalk])])
"""The decisions are the same in every dialect; ``STREAMED`` and ``TALKS`` cover each of them."""
STREAMED = pytest.mark.parametrize(("make", "stream"), cover(KINDS, {"streamed": True, "whole": False}))


def breaks(talk: Talk, bodies: Sequence[Json]) -> int:
    """How often a request does not begin with the previous one."""
    sent = [bare(body[talk.array]) for body in bodies]
    return sum(after[: len(before)] != before for before, after in itertools.pairwise(sent))


@STREAMED
async def test_hidden_rounds_are_one_reply_to_the_client_and_one_history_to_the_provider(
    make: type[Talk], stream: bool
) -> None:
    """A restarted server continues with the same bytes."""
    log, talk = StoppableLog(), make(stream=stream)
    async with open_standin({"rules": [LOOP]}) as standin:
        for prompt in ("Where is it?", "And where is the other?"):
            async with open_stage(log=log, standin=standin) as stage:
                stage.join(talk)
                assert (await talk.work(prompt)).endswith("It is there.")
                places = [(each.turn, each.round) for each in await stage.rounds()]
    assert [each.status for each in standin.messages] == [200] * 10
    assert breaks(talk, stage.upstream) == 0
    offered = ["look", "memory_query", "memory_restore", "memory_release", "memory_search"]
    assert talk.tool_names(stage.upstream[0]) == offered
    assert places[:5] == [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]
    reasons = {each.stop_reason for each in await stage.events_of(TurnFinished)}
    assert reasons == talk.ends


def is_end_of_a_message(history: list[Json]) -> bool:
    """Whether a client may go back to here: every call has its result, and no reasoning is last."""
    parts = [*history, *(part for each in history if isinstance(each.get("content"), list) for part in each["content"])]
    asked = {call["id"] for part in parts for call in part.get("tool_calls") or ()}
    asked |= {part["id"] for part in parts if part.get("type") == "tool_use"}
    asked |= {part["call_id"] for part in parts if part.get("type") == "function_call"}
    answered = {part[name] for part in parts for name in ("tool_call_id", "tool_use_id") if name in part}
    answered |= {part["call_id"] for part in parts if part.get("type") == "function_call_output"}
    return asked <= answered and history[-1].get("type") != "reasoning"


@TALKS
async def test_client_that_goes_back_gets_the_same_history_upstream_up_to_there(make: type[Talk]) -> None:
    async with open_stage(LOOP) as stage:
        talk = stage.join(make())
        await talk.work("Where is it?")
        whole = list(talk.history)
        for kept in (2, 5, len(whole) - 1, len(whole)):
            if is_end_of_a_message(whole[:kept]):
                talk.history = whole[:kept]
                await talk.work("Where else?")


@TALKS
async def test_switched_off_conversation_continues_with_the_clients_own_history(make: type[Talk]) -> None:
    """Earlier reasoning is dropped: it may have led to a memory call, which the client never saw."""
    async with open_stage(LOOP, breaks=["R10"]) as stage:  # the tools change, as expected
        talk = stage.join(make())
        await talk.work("Where is it?")
        talk.headers = {MODE: "off"}
        stage.standin.script = script(OWN_LOOP)
        for number in range(2):
            assert (await talk.work(f"Where is the other, {number}?")).endswith("It is there.")
        assert {each.status for each in stage.standin.messages} == {200}
        assert talk.tool_names(stage.upstream[-1]) == ["look"]
        assert [each.mode for each in await stage.modes()] == [Mode.MANAGE, Mode.BYPASS]


@RESPONSES
async def test_full_window_is_rewritten_and_the_work_continues(make: type[Talk]) -> None:
    async with open_stage(LOOP, window=8_000) as stage:
        talk = stage.join(make(size=200))
        for number in range(4):
            assert (await talk.work(f"Where is it, {number}?")).endswith("It is there.")
        epochs = await stage.events_of(EpochBegan)
        assert len(epochs) >= 2
        assert breaks(talk, stage.upstream) == len(epochs)


@pytest.mark.parametrize(("make", "model"), [(ChatTalk, "gpt-5.5"), *rarely([(ResponsesTalk, "gpt-5.6-terra")])])
async def test_expected_reads_of_a_rewritten_prompt_are_those_of_the_provider(make: type[Talk], model: str) -> None:
    """gpt-5.5 reads up to the first change, gpt-5.6 up to the end of an earlier prompt or of its head."""
    async with open_stage(LOOP, window=8_000) as stage:
        talk = stage.join(make(size=200, members={"model": model, "stream_options": {"include_usage": True}}))
        for number in range(4):
            await talk.work(f"Where is it, {number}? " + "Look at all of it. " * (10 if number else 200))
        accounts = await stage.events_until(TurnAccounted, 12)
        rewritten = {each.turn for each in await stage.events_of(EpochBegan)}
        assert len(rewritten) >= 2
        for each in (each for each in accounts if each.turn in rewritten):
            assert abs(each.expected.read - each.actual.read) <= 0.06 * each.actual.prompt, each
        archive, stream = MemoryArchive(stage.log), await stage.stream()
        found = await review(archive, str(stream))
        assert (found.differences, found.skipped) == ([], [])
        events = await archive.events.read(stream)
        readings = await read_misses(archive, stream, events, history_of(str(stream), events))
        causes = [(each.address.turn, cause.cold.cause) for each in readings for cause in each.causes if cause.is_miss]
        assert {turn for turn, _ in causes} <= rewritten
        assert {cause for _, cause in causes} == {MissCause.REWRITE}


@pytest.mark.parametrize(
    ("make", "members", "why", "later"),
    [
        (ChatTalk, {"n": 2}, "several replies", False),
        (ChatTalk, {"n": 2}, "several replies", True),
        (ChatTalk, {"functions": [{"name": "look"}]}, "out of date", False),
        (ChatTalk, {"tools": []}, "no tools", False),
        (ResponsesTalk, {"store": True}, "keep its replies", False),
        (ResponsesTalk, {"store": True}, "keep its replies", True),
        (ResponsesTalk, {"previous_response_id": "resp_1"}, "it is not a conversation", False),
        (ResponsesTalk, {"background": True}, "fetches the replies later", False),
        (ResponsesTalk, {"background": True}, "fetches the replies later", True),
    ],
)
async def test_conversation_whose_replies_cannot_be_rewritten_is_not_managed(
    make: type[Talk], members: Json, why: str, later: bool
) -> None:
    """From its start, or from the ``later`` request that is the first of that kind."""
    async with open_stage(LOOP, breaks=["R10", "O0", "O4"]) as stage:  # the tools change, and the provider refuses
        talk = stage.join(make())
        if later:
            await talk.work("Where is it?")
        before = len(stage.upstream)
        talk.members = members
        stage.standin.script = script({"reply": {"text": "Hello."}})
        talk.history.append({"role": "user", "content": "Hello?"})
        await talk.send()
        assert not {*NAMES}.intersection(talk.tool_names(stage.upstream[before]))
        *_, decided = await stage.modes()
        assert decided.mode is (Mode.BYPASS if later else Mode.OBSERVE)
        assert why in decided.why


async def test_hidden_calls_that_share_an_id_each_get_their_own_result() -> None:
    calls = [{**recall(question), "id": "call_0"} for question in ("what was it?", "where was it?")]
    async with open_stage({"replies": [model_says(*calls), model_says(text("It is there."))]}) as stage:
        talk = stage.join(ChatTalk())
        for prompt in ("Where is it?", "And where is the other?"):
            assert await talk.work(prompt) == "It is there."
        results = [each["tool_call_id"] for each in stage.upstream[-1]["messages"] if each["role"] == "tool"]
        assert [len(set(results[:2])), len(set(results[2:]))] == [2, 2]


REFUSALS = {
    MessagesTalk: "x: The block is bound to a different conversation: its system differs",
    ResponsesTalk: "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
}
REASONING = ("thinking", "reasoning")


def kinds_of(talk: Talk, body: Json) -> list[str]:
    """The types of the blocks or items of a request."""
    parts = [part for each in body[talk.array] for part in each.get("content", [each])]
    return [part["type"] for part in parts if isinstance(part, dict)]


@pytest.mark.parametrize(("make", "message"), REFUSALS.items(), ids=["messages", "responses"])
async def test_refused_reasoning_is_removed_once_and_permanently(make: type[Talk], message: str) -> None:
    refused = {"when": {"prompt": "other"}, "times": 1, "reply": {"failure": {"status": 400, "message": message}}}
    async with open_stage(refused, LOOP) as stage:
        talk = stage.join(make())
        await talk.work("Where is it?")
        for prompt in ("And where is the other?", "And the last?"):
            assert await talk.work(prompt) == "It is there."
        assert [each.status for each in stage.standin.messages] == [*[200] * 5, 400, *[200] * 10]
        kinds = [kinds_of(talk, each) for each in stage.upstream]
        assert not {*REASONING}.isdisjoint(kinds[5])
        assert kinds[6] == [kind for kind in kinds[5] if kind not in REASONING]
        assert not {*REASONING}.isdisjoint(kinds[-1]), "later reasoning stays"
        assert breaks(talk, stage.upstream[6:]) == 0
        assert [each.epoch for each in await stage.rounds()] == [*[1] * 6, *[2] * 10]


@pytest.mark.parametrize("server", [Mode.MANAGE, *rarely([Mode.OBSERVE])])
@RESPONSES
async def test_session_that_another_database_managed_continues_without_its_reasoning(
    make: type[Talk], server: Mode
) -> None:
    talk, refused = make(), [400] if make is ResponsesTalk else []
    async with open_standin({"rules": [LOOP]}) as standin:
        async with open_stage(standin=standin) as stage:
            talk.url = stage.url
            await talk.work("Where is it?")
        before = len(standin.messages)
        async with bare_stage(standin=standin, mode=server) as stage:
            talk.url = stage.url
            for number in range(2):
                assert await talk.work(f"And where is the other, {number}?") == "It is there."
            assert [each.status for each in standin.messages[before:] if each.status != 200] == refused


ELSEWHERE = "b2YgYW5vdGhlciBpc3N1ZXI="
FOREIGN = {
    MessagesTalk: [
        {"type": "thinking", "thinking": "As I said elsewhere.", "signature": ELSEWHERE},
        {"type": "redacted_thinking", "data": ELSEWHERE},
    ],
    ResponsesTalk: [{"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": ELSEWHERE}],
}


@pytest.mark.parametrize(("make", "reasoning"), FOREIGN.items(), ids=["messages", "responses"])
async def test_reasoning_of_another_issuer_is_dropped_and_its_text_is_kept(
    make: type[Talk], reasoning: list[Json]
) -> None:
    """As when a client used another provider for an exchange, comes back, and then asks for another model."""
    said = text("Somebody does.")
    async with open_stage(LOOP) as stage:
        talk = stage.join(make())
        await talk.work("Where is it?")
        talk.history.append({"role": "user", "content": "Who says so?"})
        if make is MessagesTalk:
            talk.history.append({"role": "assistant", "content": [*reasoning, said]})
        else:
            talk.history += [*reasoning, {"role": "assistant", "content": said["text"]}]
        before = len(stage.upstream)
        for members in ({}, {"model": "claude-sonnet-5-5"} if make is MessagesTalk else {}):
            talk.members = members
            assert await talk.work("And where is the other?") == "It is there."
        for each in stage.standin.messages[before:]:
            assert (each.status, ELSEWHERE.encode() in each.body, b"Somebody does." in each.body) == (200, False, True)


async def test_history_with_an_encrypted_part_is_only_recorded() -> None:
    async with open_stage() as stage:
        talk = stage.join(ResponsesTalk())
        talk.history += [{"role": "user", "content": "Hello?"}, {"type": "compaction_trigger"}]
        (made,) = (await talk.send())["output"]
        talk.history[-1:] = [made, {"role": "user", "content": "Go on."}]
        stage.standin.script = script({"reply": {"text": "Hello."}})
        await talk.send()
        assert all("memory_query" not in json.dumps(each["tools"]) for each in stage.upstream)
