"""The cache misses of a session are read from its record, each with its cause, its culprit and its cost."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import attrs
import pytest

from mnemosyne.actors.messages import ArrivedRequest, Begin, Begun, Finish
from mnemosyne.domain.cost.cache_misses import Culprit, MissCause
from mnemosyne.domain.session.address import Address
from mnemosyne.domain.wire.chat import CHAT
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.reply import ReplyBuilder
from mnemosyne.services.cache_misses import (
    RequestReading,
    cause_text,
    describe_misses,
    describe_reading,
    read_misses,
    reading_as_json,
)
from mnemosyne_lab.provider.cache import PromptCache
from mnemosyne_lab.provider.diagnostics import MessagesDiagnostics
from tests.blocks import text
from tests.services.talking import CLAUDE, Talk, assistant, body, talking, user

SECOND = 1_000_000
MARKER = {"type": "ephemeral"}
WORDS = "The parser keeps the offsets of each block, so that a body can be cut between two of them. " * 8
Json = dict[str, Any]


def tool(name: str) -> Json:
    return {"name": name, "description": WORDS, "input_schema": {"type": "object"}}


@attrs.define
class Client:
    """A client that can do what makes a cache miss; ``at`` is its clock in seconds."""

    model: str = "claude-opus-4-5"
    tools: list[Json] = attrs.field(factory=lambda: [tool("Bash"), tool("mcp__github__search"), tool("Read")])
    system: str = "You are an agent. " + WORDS * 30
    effort: str | None = None
    messages: list[Json] = attrs.field(factory=list)
    at: int = 1_000
    has_marker: bool = True
    betas: str = "oauth-2025-04-20,context-1m-2025-08-07"
    provider: MessagesDiagnostics = attrs.field(factory=MessagesDiagnostics)

    def body(self) -> bytes:
        *before, last = self.messages
        *blocks, block = last["content"]
        marked = {**block, "cache_control": MARKER} if self.has_marker else block
        request: Json = {
            "model": self.model,
            "max_tokens": 1000,
            "tools": self.tools,
            "system": [{**text(self.system), "cache_control": {**MARKER, "ttl": "1h"}}],
            "messages": [*before, {**last, "content": [*blocks, marked]}],
        }
        turn = len(self.messages) // 2 + 1
        request["diagnostics"] = {"previous_message_id": f"msg_{turn - 1}" if turn > 1 else None}
        if self.effort is not None:
            request["output_config"] = {"effort": self.effort}
        return json.dumps(request, separators=(",", ":")).encode()


Misfortune = Callable[[Client, int], bool]
"""Changes a client before the request of a turn; True if the provider forgets everything before it."""


async def record(talk: Talk, client: Client, turns: int, inject: Misfortune) -> Sequence[bytes]:
    """Play the session through the recording actor, with the stand-in's cache for the counts."""
    cache, bodies = PromptCache(), []
    for turn in range(1, turns + 1):
        client.at += 30
        client.messages.append({"role": "user", "content": [text(f"{turn} {WORDS}")]})
        cache = PromptCache() if inject(client, turn) else cache
        raw = client.body()
        bodies.append(raw)
        use, begin = cache.request(json.loads(raw), client.at)
        begin()
        at = client.at * SECOND
        request = ArrivedRequest(
            at=at, headers=(CLAUDE, ("anthropic-beta", client.betas)), raw=raw, correlation_id="c", dialect=MESSAGES
        )
        begun = await talk.actor.mailbox.post(Begin(request=request)).wait()
        assert isinstance(begun, Begun)
        await begun.ticket.durable()
        reply = ReplyBuilder()
        usage = {
            "input_tokens": use.input,
            "output_tokens": 20,
            "cache_read_input_tokens": use.read,
            "cache_creation_input_tokens": use.write_5m + use.write_1h,
            "cache_creation": {"ephemeral_5m_input_tokens": use.write_5m, "ephemeral_1h_input_tokens": use.write_1h},
        }
        said = text(f"Answer {turn}. {WORDS}")
        compared = {"diagnostics": client.provider.compare(json.loads(raw), [], f"msg_{turn}")}
        message = {"id": f"msg_{turn}", "content": [said], "stop_reason": "end_turn", "usage": usage, **compared}
        reply.take_raw(json.dumps(message).encode())
        reply.end_raw()
        ended = Finish(
            at=at + SECOND,
            address=begun.address,
            status=200,
            reply=reply.result(),
            correlation_id="c",
            first_byte=SECOND,
        )
        await talk.actor.mailbox.post(ended).wait()
        client.messages.append({"role": "assistant", "content": [said]})
    return bodies


async def explain(talk: Talk) -> Sequence[RequestReading]:
    events = await talk.archive.events.read(talk.stream)
    return await read_misses(talk.archive, talk.stream, events, await talk.history())


def misfortune(client: Client, turn: int) -> bool:
    match turn:
        case 3:
            client.tools.append(tool("mcp__github__merge"))
        case 5:
            client.at += 6 * 60
        case 7:
            client.messages[2]["content"].append(text("<system-reminder>notes.md changed.</system-reminder>"))
        case 8:
            client.betas = "oauth-2025-04-20"
        case _:
            pass
    return turn in (8, 9)


async def test_each_miss_of_a_recorded_session_is_named_and_priced() -> None:
    async with talking() as talk:
        await record(talk, Client(), 10, misfortune)
        found = await explain(talk)
    causes = {number: each.causes[0].cold for number, each in enumerate(found, 1) if each.causes}
    assert {number: (each.cause, each.culprit) for number, each in causes.items()} == {
        1: (MissCause.START, Culprit.CLIENT),
        3: (MissCause.TOOLS, Culprit.MCP),
        5: (MissCause.EXPIRY, Culprit.TIME),
        7: (MissCause.MESSAGES, Culprit.HOOK),
        8: (MissCause.ROUTE, Culprit.CLIENT),
        9: (MissCause.PROVIDER, Culprit.PROVIDER),
    }
    assert cause_text(causes[8]) == "the client changed the beta context-1m-2025-08-07"
    # Each token that was read would have cost a tenth of plain input; $5 per million.
    (lost,) = found[8].causes
    written, hour = found[8].reading.cold, lost.nanodollars
    assert hour is not None
    assert 0.75 * 5_000 * written < hour < 1.9 * 5_000 * written
    assert (describe_misses(found) or "").startswith("5 cache misses cost $0.")
    assert "the MCP server github changed its tools" in " ".join(describe_reading(found[2]))
    assert reading_as_json(found[2])["causes"][0]["change"]["name"] == "mcp__github__merge"
    assert describe_misses(found[:2]) is None
    unpriced = attrs.evolve(found[2], causes=[attrs.evolve(each, nanodollars=None) for each in found[2].causes])
    assert re.match(
        r"6 cache misses cost \$0\.\d+\+: ",
        describe_misses([*found, attrs.evolve(unpriced, address=Address("fork-1", 1, 1))]) or "",
    )


async def test_consecutive_cache_misses_read_each_content_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    async with talking() as talk:
        await record(talk, Client(), 6, lambda client, turn: True)
        fetch = talk.archive.contents.fetch

        async def count(stream: UUID, digests: Sequence[bytes]) -> dict[bytes, bytes]:
            asked.extend(digests)
            return await fetch(stream, digests)

        monkeypatch.setattr(talk.archive.contents, "fetch", count)
        found = await explain(talk)
    assert [each.causes[0].cold.cause for each in found] == [MissCause.START, *[MissCause.PROVIDER] * 5]
    assert len(asked) == len(set(asked)) > len(found)


async def test_one_turn_is_explained_without_the_others() -> None:
    async with talking() as talk:
        await record(talk, Client(), 4, misfortune)
        events, history = await talk.archive.events.read(talk.stream), await talk.history()
        third = Address("main", 3, 1)
        (alone,) = await read_misses(talk.archive, talk.stream, events, history, only=third)
        assert alone == (await explain(talk))[2]


async def test_a_changed_system_message_of_a_chat_is_no_new_conversation() -> None:
    def chat(system: str, turns: int) -> bytes:
        said = [{"role": ("user", "assistant")[n % 2], "content": f"{n} {WORDS}"} for n in range(2 * turns - 1)]
        return json.dumps({"model": "gpt-6.2-sol", "messages": [{"role": "system", "content": system}, *said]}).encode()

    async with talking() as talk:
        for raw, read in ((chat(WORDS, 9), 0), (chat(WORDS + "Today.", 10), 0), (chat("Another. " + WORDS, 1), 0)):
            begun = await talk.ask(raw, reply=None, dialect=CHAT)
            counts = {"prompt_tokens": len(raw) // 4, "completion_tokens": 9, "cached_tokens": read}
            choice = {"message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}
            reply = {"choices": [choice], "usage": counts}
            await talk.finish_with(begun, CHAT.read_reply(json.dumps(reply).encode()))
        found = await explain(talk)
    assert [each.causes[0].cold.cause for each in found] == [MissCause.START, MissCause.SYSTEM, MissCause.START]


async def test_a_first_request_that_reads_the_cache_says_that_another_conversation_wrote_the_prefix() -> None:
    async with talking() as talk:
        begun = await talk.ask(
            json.dumps({"model": "gpt-6.2-sol", "messages": [user("One.")]}).encode(), reply=None, dialect=CHAT
        )
        choice = {"message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1_200, "completion_tokens": 9, "cached_tokens": 1_024}
        await talk.finish_with(begun, CHAT.read_reply(json.dumps({"choices": [choice], "usage": usage}).encode()))
        (found,) = await explain(talk)
    assert list(describe_reading(found)) == [
        "It read 1024 tokens from a prefix in the cache that another conversation wrote.",
        "176 tokens were not cached: a conversation began (side).",
    ]


async def test_requests_without_counts_are_omitted() -> None:
    async with talking() as talk:
        await talk.ask(body([user("One.")]), reply=None)
        await talk.interrupt(Address("main", 1, 1), "the client left")
        await talk.ask(body([user("One."), assistant("Done."), user("Two.")]))
        (found,) = await explain(talk)
    assert found.address.turn == 2
    assert found.causes[0].cold.cause is MissCause.START
