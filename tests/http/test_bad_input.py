"""Requests and replies that make no sense in their dialect or as JSON: the proxy forwards them unchanged for the
provider to judge, nothing breaks, and a managed conversation is still rewritten.
"""

import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.session.events import TurnBegan, TurnFinished
from mnemosyne.domain.session.round_events import EpochBegan, Mode, WindowFilled
from mnemosyne.domain.window.epochs import SHARED_ID
from mnemosyne.domain.wire import json_values
from mnemosyne_lab.provider.server import Standin, open_standin
from tests.actors.support import StoppableLog, open_process
from tests.damaged import chances, damage, damage_bytes
from tests.domain.wire.dialects import TALK, WRITTEN, Call, Exchange, ModelReply, Written, bodies
from tests.http.managing import Stage, bare_stage, open_stage
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.raw_client import RawReply, exchange
from tests.http.test_dialects import CLIENTS, DIALECTS, EACH, PATHS
from tests.profiles import cover

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
    async with bare_stage() as stage:
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
        bare_stage(standin=standin, window=4_000) as stage,
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
        bare_stage(standin=standin, window=4_000) as stage,
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


ODD = {
    "half a surrogate pair": "\ud83d",
    "the other half": "\ude00",
    "bytes that are not UTF-8": "\udcff\udcc3",
    "surrogates as bytes": "\udced\udca0\udcbd",
    "NUL": "\0",
}
_ESCAPED_BYTE = re.compile(rb"\\{1,2}udc([89a-f][0-9a-f])")


def raw_of(body: Json) -> bytes:
    """The JSON of a body in which escaped bytes are replaced by the bytes themselves, in call arguments too."""
    return _ESCAPED_BYTE.sub(lambda found: bytes([int(found[1], 16)]), json.dumps(body).encode())


@asynccontextmanager
async def open_lenient(written: Written) -> AsyncIterator[tuple[Callable[[], list[bytes]], Stage]]:
    """A managing proxy in front of a provider that accepts everything; yields the bodies that it received."""
    reply = "application/json", json.dumps(written.whole(ModelReply("Seen."))).encode()
    log = StoppableLog()
    async with (
        open_playback([reply] * 9) as provider,
        open_process(log, window=4_000) as process,
        open_proxy(provider.url, process.opener, mode=Mode.MANAGE) as proxy,
    ):
        stage = Stage(cast("Standin", provider), proxy, log, process)
        yield lambda: [body for *_, body in provider.requests], stage


def talk(turns: int, strange: str) -> Sequence[Exchange]:
    """Turns with calls that fill a small window, the first with the unusual part, and the start of another."""

    def exchange(number: int) -> Exchange:
        odd = strange if number == 0 else ""
        arguments = {"command": f"cat {odd}{number}", f"key{odd}": [f"{odd} {number}"], "file_path": f"/src/{odd}.py"}
        calls = [
            Call(f"call_{odd}{number}", "bash", arguments, f"{odd} line {number}\n" * 150),
            Call(f"call_b{odd}{number}", f"edit{odd}", arguments, f"{odd} fine"),
        ]
        return Exchange(
            f"Number {number}{odd}. I always use tabs{odd}.", [ModelReply("Look.", calls=calls), ModelReply("Seen.")]
        )

    return [*map(exchange, range(turns)), Exchange(exchange(turns).asked, ())]


@pytest.mark.parametrize(("odd", "written"), cover(ODD, DIALECTS))
async def test_conversation_with_an_odd_character_is_managed(
    written: Written, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_lenient(written) as (sent, stage):
        for turns in range(6):
            assert (await send(stage, written, raw_of(request(written, talk(turns, odd))))).status == 200
        await stage.events_until(TurnBegan, 6)
        assert await stage.events_until(EpochBegan)
        assert await stage.events_until(ObjectCreated, 5)
        for body in sent():
            assert json_values.is_valid(body)
            assert json_values.read(body)
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []


[MESSAGES] = [each for each in WRITTEN if each.dialect.name == "messages"]
NUMBERS = b"[NaN, -Infinity, 1e400, %s]" % (b"9" * 5000)


async def test_conversation_with_numbers_out_of_range_stays_managed(caplog: pytest.LogCaptureFixture) -> None:
    async with open_lenient(MESSAGES) as (sent, stage):
        for turns in range(6):
            raw = json.dumps(request(MESSAGES, talk(turns, "@"))).encode().replace(b'"/src/@.py"', NUMBERS)
            assert (await send(stage, MESSAGES, raw)).status == 200
        assert await stage.events_until(EpochBegan)
        for body in sent():
            assert json_values.is_valid(body)
            assert json_values.read(body)
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []


UNREADABLE = {
    "deep": (b"[" * 5000 + b"]" * 5000, "assistant"),
    "no literal": (b"tru", "assistant"),
    "no string": (b"'x'", "assistant"),
    "words": (b'["words", {"type": "text", "text": "more"}]', "user"),
    "null": (b'[null, {"type": "text", "text": "more"}]', "assistant"),
    "list": (b'[["words"], {"type": "text", "text": "more"}]', "assistant"),
}


@pytest.mark.parametrize(("content", "written"), cover(UNREADABLE, DIALECTS))
async def test_unreadable_message_is_sent_unchanged_for_the_provider_to_judge(
    content: tuple[bytes, str], written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a managed conversation, where the proxy once answered with an error of its own."""
    value, role = content
    async with open_lenient(written) as (sent, stage):
        assert (await send(stage, written, raw_of(request(written, talk(0, ""))))).status == 200
        body = request(written, talk(0, ""))
        body[written.dialect.array].append({"role": role, "content": "@"})
        raw = json.dumps(body).encode().replace(b'"@"', value)
        await send(stage, written, raw)
        assert sent()[-1] == raw
        *_, began = await stage.events_until(TurnBegan, 2)
        assert str(began.opaque).startswith("a message")
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []


MARK = "\ue000"


def in_text(odd: str) -> ModelReply:
    return ModelReply(f"Look {odd} here.")


def in_thinking(odd: str) -> ModelReply:
    return ModelReply("Look.", f"Hm {odd} so.")


def in_a_call(odd: str) -> ModelReply:
    return ModelReply("Look.", "", [Call(f"call_{odd}", f"bash{odd}", {f"command{odd}": f"cat {odd}"}, "done " * 200)])


UNPAIRED: dict[str, tuple[str, Callable[[str], ModelReply], bool]] = {
    "text": ("\\ud83d", in_text, True),
    "thinking": ("\\ude00", in_thinking, False),
    "a streamed call": ("\\ude00\\ud83d", in_a_call, True),
    "a call": ("\\ud83d", in_a_call, False),
}


@pytest.mark.parametrize(("unpaired", "written"), cover(UNPAIRED, DIALECTS))
async def test_unpaired_surrogate_in_a_reply_reaches_the_client_and_is_sent_back(
    unpaired: tuple[str, Callable[[str], ModelReply], bool], written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    half, where, streamed = unpaired

    def odd(raw: bytes) -> bytes:
        escaped = half.encode()
        return raw.replace(MARK.encode(), escaped).replace(b"\\\\ue000", b"\\" + escaped).replace(b"\\ue000", escaped)

    said = where(MARK)
    if streamed:
        reply = "text/event-stream", odd(written.stream(said))
    else:
        reply = "application/json", odd(json.dumps(written.whole(said)).encode())
    log = StoppableLog()
    async with (
        open_playback([reply] * 3) as provider,
        open_process(log, window=4_000) as process,
        open_proxy(provider.url, process.opener, mode=Mode.MANAGE) as proxy,
    ):
        stage = Stage(cast("Standin", provider), proxy, log, process)
        history: list[Exchange] = []
        for turn in range(3):
            raw = odd(json.dumps({**request(written, [*history, Exchange(f"Number {turn}.", ())])}).encode())
            body = raw.replace(b'"stream": false', b'"stream": true') if streamed else raw
            answer = await send(stage, written, body)
            assert answer.status == 200
            assert half.encode() in answer.body
            history.append(Exchange(f"Number {turn}.", [said]))
        assert len([each for each in await stage.events_until(TurnFinished, 3) if each.status == 200]) == 3
        assert all(each.opaque is None for each in await stage.events_until(TurnBegan, 3))
        assert await stage.events_until(ObjectCreated)
        for *_, sent in provider.requests:
            assert json_values.is_valid(sent)
        assert (half.encode() in provider.requests[-1][-1]) is (half.encode() in body)
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []


NAMINGS: dict[str, Callable[[int], str]] = {
    "one for all": lambda number: "call",
    "two in turn": lambda number: f"call_{number % 2}",
    "one repeated": lambda number: f"call_{number if number != 2 else 0}",
}


@pytest.mark.parametrize(("name", "written"), cover(NAMINGS, DIALECTS))
async def test_conversation_with_repeated_call_ids_is_rewritten(written: Written, name: Callable[[int], str]) -> None:
    def exchange(number: int) -> Exchange:
        call = Call(name(number), "bash", {"command": f"cat {number}"}, f"line of {number}\n" * 250)
        return Exchange(f"Number {number}.", [ModelReply("Look.", calls=[call]), ModelReply("Seen.")])

    async with open_lenient(written) as (sent, stage):
        for turns in range(7):
            talk = [*map(exchange, range(turns)), Exchange(f"Number {turns}.", ())]
            raw = json.dumps(request(written, talk)).encode()
            assert (await send(stage, written, raw)).status == 200
        assert await stage.events_until(EpochBegan)
        assert len(sent()[-1]) < len(raw) / 2
        last = sent()[-1].decode()
        assert last.count("line of 5") > 200  # the newest result is visible, whatever its id
        assert last.count("line of 0") < 5


async def test_calls_of_one_reply_with_the_same_id_are_recorded_as_reason_for_no_rewrite() -> None:
    def exchange(number: int) -> Exchange:
        calls = [Call("call", "bash", {"command": f"cat {each}"}, f"line of {each}\n" * 250) for each in "ab"]
        return Exchange(f"Number {number}.", [ModelReply("Look.", calls=calls), ModelReply("Seen.")])

    async with open_lenient(MESSAGES) as (sent, stage):
        for turns in range(5):
            talk = [*map(exchange, range(turns)), Exchange(f"Number {turns}.", ())]
            assert (await send(stage, MESSAGES, json.dumps(request(MESSAGES, talk)).encode())).status == 200
        *_, filled = await stage.events_until(WindowFilled)
        assert filled.why == SHARED_ID
        assert sent()[-1].decode().count("line of a") > 900
