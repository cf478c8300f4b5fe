"""Unpaired surrogates in replies: the client gets the bytes, the record rebuilds them, and managing continues."""

import json
from collections.abc import Callable
from typing import cast

import pytest

from mnemosyne.domain.objects.events import ObjectCreated
from mnemosyne.domain.session.events import TurnBegan, TurnFinished
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire import json_values
from mnemosyne_lab.provider.server import Standin
from tests.actors.support import StoppableLog, open_process
from tests.domain.wire.dialects import Call, Exchange, ModelReply, Written
from tests.http.managing import Stage
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.test_bad_input import request, send
from tests.http.test_dialects import EACH

MARK = "\ue000"
HALVES = {"high": "\\ud83d", "low": "\\ude00", "two in the wrong order": "\\ude00\\ud83d"}


def in_text(odd: str) -> ModelReply:
    return ModelReply(f"Look {odd} here.")


def in_thinking(odd: str) -> ModelReply:
    return ModelReply("Look.", f"Hm {odd} so.")


def in_a_call(odd: str) -> ModelReply:
    return ModelReply("Look.", "", [Call(f"call_{odd}", f"bash{odd}", {f"command{odd}": f"cat {odd}"}, "done " * 200)])


@EACH
@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES.keys())
@pytest.mark.parametrize("where", [in_text, in_thinking, in_a_call])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_unpaired_surrogate_in_a_reply_reaches_the_client_and_is_sent_back(
    written: Written,
    half: str,
    where: Callable[[str], ModelReply],
    streamed: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
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
