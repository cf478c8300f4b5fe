"""A client that talks to a complete managing proxy, and checks of the sent and recorded requests."""

import itertools
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, nullcontext
from hashlib import sha256
from typing import Any, Protocol, TypeVar
from uuid import UUID

import attrs
import trio

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.ports import Append, Envelope
from mnemosyne.domain.session.directory import operator_stream
from mnemosyne.domain.session.events import Event, TurnBegan, TurnFinished, TurnInterrupted
from mnemosyne.domain.session.round_events import BranchModeSet, ManagingSwitched, Mode, RoundBegan, RoundFinished
from mnemosyne.domain.tools.memory_tools import NAMES
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.billing import BILLING
from mnemosyne.domain.wire.exchange import ReplyHead
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.recipe import Recipe
from mnemosyne.domain.wire.reply import json_object
from mnemosyne.http.reply_copy import copy_for
from mnemosyne_lab.provider import Script, from_data
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import Process, StoppableLog, assembled, events_of, open_process
from tests.http.proxying import Proxy, open_proxy
from tests.http.raw_client import RawReply, exchange
from tests.waiting import DEADLINE

Json = dict[str, Any]
E = TypeVar("E", bound=Event)


class AnyClient(Protocol):
    url: str
    history: list[Json]
    replies: list[RawReply]


T = TypeVar("T", bound=AnyClient)

LOOK = {"name": "Look", "description": "Looks.", "input_schema": {"type": "object"}}
MARKER = {"type": "ephemeral"}
SYSTEM = [
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.329; cc_entrypoint=cli"},
    {"type": "text", "text": "You are an agent. " * 30, "cache_control": MARKER},
]


def think(text: str = "Hm.") -> Json:
    return {"type": "thinking", "thinking": text}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def look(**given: Any) -> Json:
    return {"type": "tool_use", "name": "Look", "input": given}


def recall(question: str = "what was it?") -> Json:
    return {"type": "tool_use", "name": "memory_query", "input": {"question": question}}


def look_for(words: str) -> Json:
    return {"type": "tool_use", "name": "memory_search", "input": {"query": words}}


def restore(object_id: str) -> Json:
    return {"type": "tool_use", "name": "memory_restore", "input": {"object_id": object_id, "reason": "needed"}}


def release_call() -> Json:
    """A hidden call whose answer needs no worker thread: an auto-jump clock would run on while a thread works."""
    return {"type": "tool_use", "name": "memory_release", "input": {"object_ids": ["abc1234"], "reason": "done"}}


def model_says(*content: Json, **options: Any) -> Json:
    return {"content": list(content), **options}


@attrs.define
class Client:
    """One conversation of an agent that marks its last block for caching, as Claude Code does."""

    url: str = ""
    session: str = "s"
    stream: bool = True
    model: str = "claude-opus-5-5"
    tools: list[Json] = attrs.field(factory=lambda: [LOOK])
    headers: dict[str, str] = attrs.field(factory=dict)
    members: Json = attrs.field(factory=lambda: {"thinking": {"type": "adaptive"}, "max_tokens": 4000})
    history: list[Json] = attrs.field(factory=list)
    replies: list[RawReply] = attrs.field(factory=list)
    bodies: list[bytes] = attrs.field(factory=list)

    def body(self) -> bytes:
        messages = self.marked()
        tools = {"tools": self.tools} if self.tools else {}
        body = {"model": self.model, **self.members, "system": SYSTEM, **tools, "messages": messages}
        return json.dumps({**body, "stream": True} if self.stream else body).encode()

    def marked(self) -> list[Json]:
        """The history with the client's cache markers."""
        return [*self.history[:-1], _marked(self.history[-1])]

    async def send(self) -> Json:
        """Send the history once and return the reply message or the error."""
        self.bodies.append(self.body())
        reply = await exchange(self.url, body=self.bodies[-1], headers=self.raw_headers())
        self.replies.append(reply)
        return message_of(reply)

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that identify the conversation in every request."""
        named = {"x-claude-code-session-id": self.session, "user-agent": "claude-cli/2.1.329"}
        given = {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}
        said = {name: value for name, value in (given | named | self.headers).items() if value}
        return [(name.encode(), value.encode()) for name, value in said.items()]

    async def count(self, *content: Json) -> bytes:
        """Ask for the token count of a turn without adding it to the history; return the body sent."""
        self.history.append({"role": "user", "content": list(content)})
        body = json.loads(self.body())
        self.history.pop()
        asked = {name: value for name, value in body.items() if name not in ("stream", "max_tokens")}
        raw = json.dumps(asked).encode()
        reply = await exchange(self.url, "/v1/messages/count_tokens", raw, headers=self.raw_headers())
        assert reply.status == 200, reply.body
        assert set(json.loads(reply.body)) == {"input_tokens"}
        return raw

    async def turn(self, *content: Json) -> Json:
        """Send a message and add the reply to the history."""
        self.history.append({"role": "user", "content": list(content)})
        message = await self.send()
        if "content" in message and "error" not in message:
            self.history.append({"role": "assistant", "content": message["content"]})
        return message

    async def work(self, prompt: str) -> Json:
        """Run an exchange: send the prompt and every requested result until the model finishes."""
        message = await self.turn(text(prompt))
        while message.get("stop_reason") == "tool_use":
            message = await self.turn(*results(message))
        return message


def results(message: Json) -> list[Json]:
    calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    return [{"type": "tool_result", "tool_use_id": call, "content": f"seen by {call}"} for call in calls]


def message_of(reply: RawReply) -> Json:
    reading = copy_for(ReplyHead(reply.status, tuple(reply.headers)), MESSAGES)
    list(reading.feed(reply.body))
    reading.close()
    message: Json = json_object(reading.reply.result().body)
    return message if reply.status == 200 else {**message, "status": reply.status}


def _marked(message: Json) -> Json:
    *before, last = message["content"]
    return {**message, "content": [*before, {**last, "cache_control": MARKER}]}


@attrs.define
class Stage:
    """A strict provider, a managing proxy, and its log."""

    standin: Standin
    proxy: Proxy
    log: StoppableLog
    process: Process
    clients: list[AnyClient] = attrs.field(factory=list)

    def client(self, **options: Any) -> Client:
        """A new client of the proxy."""
        return self.join(Client(self.url, **options))

    def join(self, client: T) -> T:
        """Connect a client to the proxy and check it at the end."""
        client.url = self.url
        self.clients.append(client)
        return client

    @property
    def url(self) -> str:
        return self.proxy.url

    @property
    def upstream(self) -> list[Json]:
        """The requests that the provider received."""
        return [each.json() for each in self.standin.messages]

    @property
    def counted(self) -> list[bytes]:
        """The bodies of the provider's token-counting requests."""
        return [each.body for each in self.standin.exchanges if each.target.endswith("/count_tokens")]

    async def stream(self) -> UUID:
        """The stream of the only recorded session."""
        (stream,) = {*await self.log.streams()} - {operator_stream("t")}
        return stream

    async def events(self) -> list[Event]:
        return await events_of(self.log, await self.stream())

    async def events_of(self, kind: type[E]) -> list[E]:
        return [event for event in await self.events() if isinstance(event, kind)]

    async def events_until(self, kind: type[E], count: int = 1) -> list[E]:
        """The events of one type, once the log holds at least this many."""
        committed = self.process.journal.committed
        with trio.fail_after(DEADLINE):
            while True:
                position = committed.position
                found = await self.events_of(kind)
                if len(found) >= count:
                    return found
                await committed.beyond(position)

    async def switch(self, *, on: bool, stream: UUID | None = None) -> None:
        """Switch managing for one session or for all, as another process would."""
        stream = stream or operator_stream("t")
        version = len(await self.log.read(stream))
        event = ManagingSwitched(at=1, on=on, why="somebody said so")
        await self.log.append(Append(stream, version, (Envelope(event, "c"),)))

    async def modes(self) -> list[BranchModeSet]:
        return await self.events_of(BranchModeSet)

    async def rounds_of_log(self) -> list[RoundBegan]:
        return await self.events_of(RoundBegan)

    async def rounds(self, *, at_once: bool = False, again: bool = False) -> list[RoundBegan]:
        """The recorded rounds, each rebuilt to the exact bytes that the provider received; in any order if several
        ran ``at_once``. A round that was sent ``again`` is recorded once.
        """
        stream = await self.stream()
        recorded = await self.log.read(stream)
        history = time_travel.history_of("s", recorded)
        began = [each for each in recorded if isinstance(each.envelope.event, RoundBegan)]
        sent = [each.body for each in self.standin.messages]
        if again:
            sent = [body for body, _ in itertools.groupby(sent)]
        rebuilt = []
        for each in began:
            body = await assembled(self.log, time_travel.body_of(history, each.version), stream)
            assert isinstance(each.envelope.event, RoundBegan)
            assert sha256(body).digest() == each.envelope.event.sha256
            rebuilt.append(body)
        assert rebuilt == sent or (at_once and sorted(rebuilt) == sorted(sent))
        return [each.envelope.event for each in began if isinstance(each.envelope.event, RoundBegan)]

    async def check(self, *clients: AnyClient, grows: bool = False, breaks: Collection[str] = ()) -> None:
        """Check that the provider found no violation, what it received is on record to the byte, and no client saw a
        memory tool. If the prompt only ``grows``, each request begins with all of the previous one.
        """
        found = [str(each) for each in self.standin.violations if each.violation.rule not in breaks]
        assert not found, found
        if grows:
            assert_prefixes(self.upstream)
        for client in (*self.clients, *clients):
            assert_nothing_of_ours(client)
        recorded = await self.read_sent()
        received = {each.body for each in self.standin.messages}
        assert received <= {*recorded}
        assert {body for body, replied in recorded.items() if replied} <= received

    async def read_sent(self) -> dict[bytes, bool]:
        """The requests to the provider, rebuilt from the log, and whether a reply to them is recorded."""
        sent: dict[bytes, bool] = {}
        for stream in {*await self.log.streams()} - {operator_stream("t")}:
            recorded = await self.log.read(stream)
            history = time_travel.history_of("s", recorded)
            hashes = {each.envelope.event.sha256 for each in recorded if isinstance(each.envelope.event, RoundBegan)}
            for attempt in history.attempts:
                for each in attempt.rounds or [attempt]:
                    body = await assembled(self.log, time_travel.body_of(history, each.version), stream)
                    sent[body] = sent.get(body, False) or isinstance(each.ended, TurnFinished | RoundFinished)
            assert hashes <= {sha256(body).digest() for body in sent}
        return sent


@asynccontextmanager
async def bare_stage(
    *rules: Json,
    log: StoppableLog | None = None,
    standin: Standin | None = None,
    mode: Mode = Mode.MANAGE,
    **options: Any,
) -> AsyncIterator[Stage]:
    """The complete setup, unchecked; ``options`` are those of ``open_process``."""
    log = log or StoppableLog()
    async with (
        open_process(log, **options) as process,
        nullcontext(standin) if standin is not None else open_standin({"rules": list(rules)}) as provider,
        open_proxy(provider.url, process.opener, mode=mode) as proxy,
    ):
        yield Stage(provider, proxy, log, process)


@asynccontextmanager
async def open_stage(*rules: Json, breaks: Collection[str] = (), **options: Any) -> AsyncIterator[Stage]:
    """A ``bare_stage`` that is checked at its end, except for the provider's rules that the test ``breaks``."""
    async with bare_stage(*rules, **options) as stage:
        yield stage
        await stage.check(breaks=breaks)


@asynccontextmanager
async def open_talk(*rules: Json, stream: bool = True, **options: Any) -> AsyncIterator[tuple[Stage, Client]]:
    """An ``open_stage`` with a client."""
    async with open_stage(*rules, **options) as stage:
        yield stage, stage.client(stream=stream)


async def until_begun(stage: Stage, turns: int) -> None:
    """Wait until this many turns are recorded."""
    await stage.events_until(TurnBegan, turns)


async def interrupted(stage: Stage) -> list[list[Json]]:
    """The recorded partial replies, once the log holds them."""
    found = []
    for event in await stage.events_until(TurnInterrupted):
        assert event.reply is not None
        (stream,) = await stage.log.streams()
        stored = recipe.apply(Recipe(), recipe.decode(event.reply))
        found.append(json.loads(await assembled(stage.log, stored, stream))["content"])
    return found


def script(*rules: Json) -> Script:
    return from_data({"rules": list(rules)})


def bare(value: Any) -> Any:
    """A value without its cache markers."""
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items() if key != "cache_control"}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def prompt_blocks(body: Json) -> list[str]:
    """Tools, system and blocks in the order in which the provider reads them, without cache markers and without the
    billing entry that Claude Code changes for each prompt and that does not affect caching.
    """
    system = [block for block in bare(body.get("system", [])) if not block["text"].startswith(BILLING)]
    blocks = [*bare(body["tools"]), *system]
    for message in bare(body["messages"]):
        blocks += [{"role": message["role"], **block} for block in message["content"]]
    return [json.dumps(block) for block in blocks]


def assert_prefixes(bodies: Sequence[Json]) -> None:
    """Each request begins with all of the previous one."""
    for before, after in itertools.pairwise(bodies):
        earlier = prompt_blocks(before)
        assert prompt_blocks(after)[: len(earlier)] == earlier


def assert_nothing_of_ours(client: AnyClient) -> None:
    """The client never saw a memory tool."""
    for name in NAMES:
        assert name not in json.dumps(client.history)
        assert all(name.encode() not in reply.body for reply in client.replies)
