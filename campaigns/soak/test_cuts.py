r"""Replies that break off at any byte: the client gets the received part, sends the request again, and continues.

A campaign breaks off at every byte, ``make test`` at a few. One conversation has many such replies.
"""

from collections.abc import Iterator, Sequence

import pytest
from trio.testing import MockClock

from mnemosyne.domain.session.round_events import Mode
from mnemosyne_lab.provider.server import HttpExchange
from tests.actors.support import rebuilt
from tests.http.managing import (
    Client,
    Json,
    Stage,
    assert_nothing_of_ours,
    bare_stage,
    look,
    model_says,
    release_call,
    results,
    text,
    think,
)
from tests.http.raw_client import RawReply

WORDS = "The parser is in src/parse.py; its tests fail at line 40, because a colon is missing there."
FIRST = (think("Where was it? I look."), text(WORDS), look(path="src/parse.py"))
BEFORE = (think("It left the window."), text("Let me see."), release_call())
AFTER = (think("Here it is."), text(WORDS))
LAST = b'{"type":"message_stop"}'

TURNS = 40
"""Of one conversation."""

FEW = 12
"""Places of a reply in ``make test``."""

FORMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
HOW_MANY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["few", "all"])


@HOW_MANY
@FORMS
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.MANAGE])
async def test_client_gets_the_received_part_of_a_broken_reply_and_continues(
    mode: Mode, stream: bool, every: bool
) -> None:
    payload = await _play_whole([], FIRST, stream=stream)
    for places in _batches(payload, every=every, stream=stream):
        rules: list[Json] = []
        for number, place in enumerate(places):
            rules += [_at(number, model_says(*FIRST, faults=[place])), _at(number, model_says(*FIRST))]
        async with bare_stage(*rules, {"reply": model_says(text("It is mended."))}, mode=mode) as stage:
            client = Client(stage.url, stream=stream)
            for number in range(len(places)):
                await _ask(client, number)
                _judge(client.replies[-1], stage.standin.exchanges[-1], passes_whole=mode is Mode.OBSERVE)
                message = await client.send()
                assert [each["type"] for each in message["content"]] == ["thinking", "text", "tool_use"]
                client.history.append({"role": "assistant", "content": message["content"]})
                await client.turn(*results(message))
            await _judge_all(stage, client)
            if mode is Mode.MANAGE:
                await stage.rounds()


@HOW_MANY
@FORMS
async def test_broken_hidden_round_is_one_reply_to_the_client_or_leads_to_a_retry(
    stream: bool, every: bool, loopback_clock: MockClock
) -> None:
    payload = await _play_whole([model_says(*BEFORE)], AFTER, stream=stream)
    for places in _batches(payload, every=every, stream=stream):
        rules: list[Json] = []
        for number, place in enumerate(places):
            rules += [
                _at(number, model_says(*AFTER, faults=[place]), rounds=1),
                _at(number, model_says(*BEFORE), rounds=0),
            ]
        rules.append({"when": {"rounds": 1}, "reply": model_says(*AFTER)})
        async with bare_stage(*rules, {"reply": model_says(*BEFORE)}) as stage:
            client = Client(stage.url, stream=stream)
            for number in range(len(places)):
                message = await _ask(client, number)
                assert not all(each.complete for each in stage.standin.messages[-2:])
                if client.replies[-1].cut or "error" in message:
                    message = await client.send()
                assert [block for block in message["content"] if block["type"] == "text"] == [BEFORE[1], AFTER[1]]
                client.history.append({"role": "assistant", "content": message["content"]})
            await _judge_all(stage, client)
            await stage.rounds(again=True)


def _at(number: int, reply: Json, **when: int) -> Json:
    return {"when": {"prompt": _prompt(number), **when}, "reply": reply, "times": 1}


def _prompt(number: int) -> str:
    return f"Question {number}."


async def _ask(client: Client, number: int) -> Json:
    client.history.append({"role": "user", "content": [text(_prompt(number))]})
    return await client.send()


async def _play_whole(before: Sequence[Json], reply: Sequence[Json], *, stream: bool) -> bytes:
    async with bare_stage({"replies": [*before, model_says(*reply)]}) as stage:
        await Client(stage.url, stream=stream).turn(text(_prompt(0)))
        return bytes(stage.standin.exchanges[-1].payload)


def _batches(payload: bytes, *, every: bool, stream: bool) -> Iterator[Sequence[Json]]:
    """The breaks, as the faults of one conversation after the other."""
    places = list(_places(payload) if stream else ({"inside": size} for size in range(1, len(payload))))
    chosen = places if every else places[:: -(-len(places) // FEW)]
    for first in range(0, len(chosen), TURNS):
        yield [{"kind": "cut", **place} for place in chosen[first : first + TURNS]]


def _places(payload: bytes) -> Iterator[Json]:
    """Each byte of a stream: its event, and the number of bytes that arrive."""
    for number, event in enumerate(payload.split(b"\n\n")[:-1]):
        yield from ({"at": number, "inside": inside} for inside in range(len(event) + 2))


def _judge(reply: RawReply, sent: HttpExchange, *, passes_whole: bool) -> None:
    """Check the client's part of a broken reply: it is a part of the provider's, or an error if that is empty."""
    assert not sent.complete
    if reply.status != 200:
        assert (reply.status, reply.cut) == (502, False)
        assert b"api_error" in reply.body
    else:
        assert reply.cut or LAST in sent.payload  # the reply was complete; only its connection broke
        assert sent.payload.startswith(reply.body)
        assert not passes_whole or reply.body == sent.payload


async def _judge_all(stage: Stage, client: Client) -> None:
    """No rule was violated, the client saw no memory content, and every sent request is recorded exactly."""
    assert stage.standin.violations == []
    assert_nothing_of_ours(client)
    recorded = await rebuilt(stage.log, stage.log, await stage.stream())
    assert list(recorded.values()) == client.bodies
