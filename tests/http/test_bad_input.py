"""What makes no sense in a dialect is its provider's to judge: it leaves as it came, and nothing breaks over it."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.round_events import Mode, WindowFilled
from mnemosyne_lab.provider.server import open_standin
from tests.damaged import chances, damage, damage_bytes
from tests.domain.wire.dialects import TALK, WRITTEN, Exchange, Said, Written, bodies
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
    """A client's request on the path of a dialect."""
    headers = [(b"content-type", b"application/json"), *KEYS, *CLIENTS[written.dialect.name]]
    return await exchange(stage.url, PATHS[written.dialect.name], body, headers=headers)


def request(written: Written, talk: Sequence[Exchange] = TALK, **members: Any) -> Json:
    """A request in which the user speaks last, and that is answered at once."""
    return {**written.request(talk), "stream": False, **members}


def asked(*before: Exchange) -> list[Exchange]:
    return [*before, Exchange("And now?", ())]


def said_at_length(turns: int) -> list[Exchange]:
    """Turns that fill a small window, as the stand-in answers them, and one more."""
    return asked(*(Exchange(f"Number {turn}. " * 400, [Said("Seen.")]) for turn in range(turns)))


@pytest.mark.parametrize(
    ("written", "other"),
    [pair for pair in itertools.permutations(WRITTEN, 2) if pair[0].dialect.array != pair[1].dialect.array],
    ids=lambda written: written.dialect.name,
)
async def test_a_body_of_another_dialect_is_refused_by_the_provider_in_its_own_words(
    written: Written, other: Written
) -> None:
    body = bodies(other)[-1]
    async with open_stage() as stage:
        reply = await send(stage, written, body)
        [sent] = stage.standin.messages
        assert (sent.body, sent.status) == (body, 400)
        assert (reply.status, reply.body) == (400, bytes(sent.payload))
        [began] = await stage.events_until(TurnBegan)
        assert began.opaque is not None


@EACH
async def test_what_nobody_knows_stays_in_a_history_whatever_leaves_it(written: Written) -> None:
    """It is refused by a strict provider; others may know what it is."""
    unknown, array = UNKNOWN[written.dialect.name], written.dialect.array
    first = len(written.request(asked())[array])
    async with (
        open_standin({"rules": [{"reply": {"text": "Seen."}}]}, strict=False) as standin,
        open_stage(standin=standin, window=4_000) as stage,
    ):
        for turns in range(4):
            body = request(written, said_at_length(turns))
            body[array].insert(first, unknown)
            assert (await send(stage, written, json.dumps(body).encode())).status == 200
        assert all(unknown in each[array] for each in stage.upstream)


@EACH
async def test_whatever_a_body_holds_it_is_answered_and_costs_us_nothing_of_our_own(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    """In the midst of a managed conversation in a small window; what the provider makes of it is the client's."""
    whole = request(written, said_at_length(2))
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
async def test_a_tool_of_the_clients_that_is_named_as_ours_is_its_own(written: Written) -> None:
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
async def test_an_error_of_the_provider_is_the_clients_to_the_byte(written: Written, *, stream: bool) -> None:
    failing = {"when": {"prompt": "now"}, "times": 1, "reply": {"failure": {"status": 418, "message": "No."}}}
    async with open_stage(failing, {"reply": {"text": "Yes."}}) as stage:
        raw = json.dumps(request(written, asked(), stream=stream)).encode()
        replies = [await send(stage, written, raw) for _ in range(2)]
        assert [each.status for each in replies] == [418, 200]
        assert replies[0].body == bytes(stage.standin.messages[0].payload)


@EACH
async def test_a_window_smaller_than_what_never_leaves_is_said_and_left_alone(written: Written) -> None:
    async with open_stage({"reply": {"text": "Seen."}}, window=1_000) as stage:
        for turns in range(3):
            reply = await send(stage, written, json.dumps(request(written, said_at_length(turns))).encode())
            assert reply.status == 200
        assert len(stage.standin.messages) == 3
        assert {each.window for each in await stage.events_until(WindowFilled)} == {1_000}
