"""Requests that make no sense in their dialect: the proxy forwards them unchanged for the provider to judge, and
nothing breaks.
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.round_events import Mode, WindowFilled
from mnemosyne_lab.provider.server import open_standin
from tests.damaged import chances, damage, damage_bytes
from tests.domain.wire.dialects import TALK, WRITTEN, Exchange, ModelReply, Written, bodies
from tests.http.managing import Stage, open_stage
from tests.http.raw_client import RawReply, exchange
from tests.http.test_dialects import CLIENTS, EACH, PATHS

Json = dict[str, Any]

UNKNOWN: dict[str, Json] = {
    "messages": {"role": "critic", "content": [{"type": "verdict", "of": "all"}]},
    "chat": {"role": "critic", "verdict": "of all"},
    "responses": {"type": "verdict", "of": "all"},
}
"""An element of a history that nobody knows."""

KEYS = [(b"authorization", b"Bearer k"), (b"x-api-key", b"k"), (b"anthropic-version", b"2023-06-01")]


async def send(stage: Stage, written: Written, body: bytes) -> RawReply:
    """Send a client's request on the path of a dialect."""
    headers = [(b"content-type", b"application/json"), *KEYS, *CLIENTS[written.dialect.name]]
    return await exchange(stage.url, PATHS[written.dialect.name], body, headers=headers)


def request(written: Written, talk: Sequence[Exchange] = TALK, **members: Any) -> Json:
    """A request that ends with the user's message and is answered at once."""
    return {**written.request(talk), "stream": False, **members}


def asked(*before: Exchange) -> list[Exchange]:
    return [*before, Exchange("And now?", ())]


def fill_window(turns: int) -> list[Exchange]:
    """Turns that fill a small window, as the scripted provider answers them, and one more."""
    return asked(*(Exchange(f"Number {turn}. " * 400, [ModelReply("Seen.")]) for turn in range(turns)))


@pytest.mark.parametrize(
    ("written", "other"),
    [pair for pair in itertools.permutations(WRITTEN, 2) if pair[0].dialect.array != pair[1].dialect.array],
    ids=lambda written: written.dialect.name,
)
async def test_body_of_another_dialect_gets_the_providers_own_refusal(written: Written, other: Written) -> None:
    body = bodies(other)[-1]
    async with open_stage() as stage:
        reply = await send(stage, written, body)
        [sent] = stage.standin.messages
        assert (sent.body, sent.status) == (body, 400)
        assert (reply.status, reply.body) == (400, bytes(sent.payload))
        [began] = await stage.events_until(TurnBegan)
        assert began.opaque is not None


@EACH
async def test_unknown_parts_of_a_history_survive_every_rewrite(written: Written) -> None:
    """A strict provider refuses them; others may know them."""
    unknown, array = UNKNOWN[written.dialect.name], written.dialect.array
    first = len(written.request(asked())[array])
    async with (
        open_standin({"rules": [{"reply": {"text": "Seen."}}]}, strict=False) as standin,
        open_stage(standin=standin, window=4_000) as stage,
    ):
        for turns in range(4):
            body = request(written, fill_window(turns))
            body[array].insert(first, unknown)
            assert (await send(stage, written, json.dumps(body).encode())).status == 200
        assert all(unknown in each[array] for each in stage.upstream)


@EACH
async def test_malformed_body_is_answered_without_an_error_of_the_proxy(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a managed conversation in a small window; the client gets the provider's judgement."""
    whole = request(written, fill_window(2))
    async with (
        open_standin({"rules": [{"reply": {"text": "Seen."}}]}, strict=False) as standin,
        open_stage(standin=standin, window=4_000) as stage,
    ):
        for chance in chances(40):
            raw = json.dumps(damage(whole, chance)).encode()
            if chance.random() < 0.1:
                raw = damage_bytes(raw, chance)
            reply = await send(stage, written, raw)
            assert reply.status in (200, 400), (raw, reply.body)
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []


@EACH
async def test_client_tool_with_a_memory_tool_name_stays_the_clients(written: Written) -> None:
    body = request(written, asked())
    named = json.loads(json.dumps(body["tools"][0]).replace('"bash"', '"memory_query"'))
    call = {"type": "tool_use", "name": "memory_query", "input": {"question": "what?"}}
    async with open_stage({"reply": {"content": [call]}}) as stage:
        raw = json.dumps({**body, "tools": [named]}).encode()
        reply = await send(stage, written, raw)
        [sent] = stage.standin.messages
        assert (sent.body, reply.body) == (raw, bytes(sent.payload))
        [decided] = await stage.modes()
        assert decided.mode is Mode.OBSERVE


@EACH
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_provider_error_reaches_the_client_byte_for_byte(written: Written, *, stream: bool) -> None:
    failing = {"when": {"prompt": "now"}, "times": 1, "reply": {"failure": {"status": 418, "message": "No."}}}
    async with open_stage(failing, {"reply": {"text": "Yes."}}) as stage:
        raw = json.dumps(request(written, asked(), stream=stream)).encode()
        replies = [await send(stage, written, raw) for _ in range(2)]
        assert [each.status for each in replies] == [418, 200]
        assert replies[0].body == bytes(stage.standin.messages[0].payload)


@EACH
async def test_window_below_the_minimum_is_reported_and_never_rewritten(written: Written) -> None:
    async with open_stage({"reply": {"text": "Seen."}}, window=1_000) as stage:
        for turns in range(3):
            reply = await send(stage, written, json.dumps(request(written, fill_window(turns))).encode())
            assert reply.status == 200
        assert len(stage.standin.messages) == 3
        assert {each.window for each in await stage.events_until(WindowFilled)} == {1_000}
