"""Servers that give several calls one id: their conversations are still rewritten, each result with its call."""

import json
from collections.abc import Callable

import pytest

from mnemosyne.domain.session.round_events import EpochBegan, WindowFilled
from mnemosyne.domain.window.epochs import SHARED_ID
from tests.domain.wire.dialects import Call, Exchange, ModelReply, Written
from tests.http.test_bad_input import request, send
from tests.http.test_dialects import EACH
from tests.http.test_odd_json import MESSAGES, open_lenient


@EACH
@pytest.mark.parametrize(
    "name",
    [lambda number: "call", lambda number: f"call_{number % 2}", lambda number: f"call_{number if number != 2 else 0}"],
    ids=["one for all", "two in turn", "one repeated"],
)
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
