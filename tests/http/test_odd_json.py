"""Unusual JSON in a managed conversation: objects are recorded, the history is rewritten, and the requests are valid
JSON.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.session.events import TurnBegan
from mnemosyne.domain.session.round_events import EpochBegan, Mode
from mnemosyne.domain.wire import json_values
from mnemosyne_lab.provider.server import Standin
from tests.actors.support import StoppableLog, open_process
from tests.domain.wire.dialects import WRITTEN, Call, Exchange, ModelReply, Written
from tests.http.managing import Stage
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.test_bad_input import request, send
from tests.http.test_dialects import EACH

Json = dict[str, Any]

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


@EACH
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
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
NUMBERS: dict[str, Any] = {"NaN": b"NaN", "minus infinity": b"-Infinity", "1e400": b"1e400", "huge": b"9" * 5000}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS.keys())
async def test_number_out_of_range_leaves_a_conversation_managed(
    number: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_lenient(MESSAGES) as (sent, stage):
        for turns in range(6):
            raw = json.dumps(request(MESSAGES, talk(turns, "@"))).encode().replace(b'"/src/@.py"', number)
            assert (await send(stage, MESSAGES, raw)).status == 200
        assert await stage.events_until(EpochBegan)
        for body in sent():
            assert json_values.is_valid(body)
            assert json_values.read(body)
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []


@EACH
@pytest.mark.parametrize("value", [b"[" * 5000 + b"]" * 5000, b"tru", b"'x'"], ids=["deep", "no literal", "no string"])
async def test_unreadable_message_is_sent_unchanged_for_the_provider_to_judge(
    written: Written, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """In the middle of a managed conversation, where the proxy once answered with an error of its own."""
    async with open_lenient(written) as (sent, stage):
        assert (await send(stage, written, raw_of(request(written, talk(0, ""))))).status == 200
        body = request(written, talk(0, ""))
        body[written.dialect.array].append({"role": "assistant", "content": "@"})
        raw = json.dumps(body).encode().replace(b'"@"', value)
        await send(stage, written, raw)
        assert sent()[-1] == raw
        *_, began = await stage.events_until(TurnBegan, 2)
        assert str(began.opaque).startswith("a message")
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []


@EACH
@pytest.mark.parametrize("block", ['"words"', "5", "null", '["words"]'])
@pytest.mark.parametrize("role", ["user", "assistant"])
async def test_content_block_that_is_no_object_is_sent_unchanged_for_the_provider_to_judge(
    written: Written, block: str, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_lenient(written) as (sent, stage):
        assert (await send(stage, written, raw_of(request(written, talk(0, ""))))).status == 200
        body = request(written, talk(0, ""))
        body[written.dialect.array].append({"role": role, "content": ["@", {"type": "text", "text": "more"}]})
        raw = json.dumps(body).encode().replace(b'"@"', block.encode())
        await send(stage, written, raw)
        assert sent()[-1] == raw
        *_, began = await stage.events_until(TurnBegan, 2)
        assert str(began.opaque) == "a message with a content block that is not an object"
    assert [each.exc_text or each.getMessage() for each in caplog.records if each.exc_info] == []
