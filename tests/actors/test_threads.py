"""Slow work on a request runs in a thread, and other sessions do not wait for it.

Counted, not timed: the thread of each body layout, and whether another session runs meanwhile.
"""

import threading
from typing import Any

import pytest

from mnemosyne.actors.loaded import MANY_PLACES
from mnemosyne.actors.managed_turn import ManagedTurn
from mnemosyne.actors.threads import HUGE, LARGE, is_much, read_in_thread
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window import upstream_history
from mnemosyne.domain.wire import body_layout, transcript
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.transcript import TranscriptReading
from tests.actors.support import OK, Process, StoppableLog, headers, open_process, reply, request
from tests.domain.recorded import dumps

MANY_BLOCKS = [{"type": "text", "text": "x"}] * 2_600
MANY_KEYS = {f"key{number}": "x" * 50 for number in range(1_100)}
HOSTILE = {
    "blocks": dumps({"model": "m", "messages": [{"role": "user", "content": MANY_BLOCKS}], "tools": [{"name": "n"}]}),
    "keys": dumps({"model": "m", **MANY_KEYS, "messages": [{"role": "user", "content": "hi"}], "tools": [{}]}),
    "a line": request("abc, " * 14_000),
    "no JSON": b"{" + b'"api_key": ' * 6_500,
    "another dialect": dumps({"input": [{"role": "user", "content": "hi"}] * 2_200, "model": "m"}),
}


@pytest.fixture
def on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of bytes in each body layout on the loop's thread."""
    loop, found, lay_out = threading.get_ident(), list[int](), body_layout.lay_out

    def watched(raw: bytes, before: Any, head: int, tail: int, dialect: Dialect) -> body_layout.BodyLayout:
        if threading.get_ident() == loop:
            found.append(len(raw) - head - tail if before is not None else len(raw))
        return lay_out(raw, before, head, tail, dialect)

    monkeypatch.setattr(body_layout, "lay_out", watched)
    return found


async def turn(process: Process, raw: bytes, *given: tuple[str, str], mode: Mode = Mode.OBSERVE) -> None:
    sent = process.opener.open_turn(given, raw, MESSAGES, None, mode)
    await sent.prepare()
    sent.note_sent()
    await sent.note_begun()
    await sent.note_finished(OK, reply("ok"))


@pytest.mark.parametrize(
    ("mode", "named"),
    [
        pytest.param(mode, named, marks=[] if (mode is Mode.MANAGE) == named else pytest.mark.soak)
        for mode in (Mode.OBSERVE, Mode.MANAGE)
        for named in (True, False)
    ],
)
@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
async def test_large_body_is_not_parsed_on_the_loop(
    raw: bytes, mode: Mode, on_the_loop: list[int], *, named: bool
) -> None:
    assert len(raw) >= LARGE
    given = headers() if named else ()
    async with open_process(StoppableLog()) as process:
        await turn(process, request("hi"), *given, mode=mode)
        await turn(process, raw, *given, mode=mode)
    assert on_the_loop
    assert max(on_the_loop) < LARGE


async def test_other_session_runs_while_a_body_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out, others_are_done = body_layout.lay_out, threading.Event()

    def waits_for_others(raw: bytes, *more: Any) -> body_layout.BodyLayout:
        assert len(raw) < LARGE or others_are_done.wait(60)
        return lay_out(raw, *more)

    monkeypatch.setattr(body_layout, "lay_out", waits_for_others)
    async with open_process(StoppableLog()) as process:
        hostile = process.opener.open_turn(headers("hostile"), HOSTILE["blocks"], MESSAGES, None, Mode.OBSERVE)
        hostile.note_sent()
        await turn(process, request("hi"), *headers("another"))
        others_are_done.set()
        await hostile.note_begun()
        await hostile.note_finished(OK, reply("ok"))


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.MANAGE])
async def test_first_request_of_a_session_is_parsed_once(
    mode: Mode, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    read_it, read = transcript.read, list[bytes]()

    def record(raw: bytes, *more: Any, **options: Any) -> TranscriptReading:
        read.append(raw)
        return read_it(raw, *more, **options)

    monkeypatch.setattr(transcript, "read", record)
    begun = request("words " * 20_000, "an answer", "and more")
    async with open_process(StoppableLog()) as process:
        await turn(process, begun, *(headers() if named else ()), mode=mode)
    assert read == [begun]


async def test_only_new_bytes_decide_about_the_thread(on_the_loop: list[int]) -> None:
    long = request(*["words " * 2_000] * 11)
    more = request(*["words " * 2_000] * 11, "and more")
    before = transcript.read(long).transcript
    on_the_loop.clear()
    assert is_much(long)
    assert not is_much(more, before)
    assert not is_much(b"{}")
    assert (await read_in_thread(more, before)).transcript == (await read_in_thread(more)).transcript
    assert len(on_the_loop) == 1


@pytest.mark.release
async def test_message_with_many_blocks_is_composed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first request of a managed conversation: its upstream history, and its body."""
    loop, here = threading.get_ident(), list[str]()

    def watch(place: Any, name: str) -> None:
        made = getattr(place, name)

        def watched(*given: Any, **named: Any) -> Any:
            if threading.get_ident() == loop:
                here.append(name)
            return made(*given, **named)

        monkeypatch.setattr(place, name, watched)

    watch(upstream_history, "first")
    watch(ManagedTurn, "body")
    blocks = [{"type": "text", "text": f"{number} {'word ' * 50}"} for number in range(MANY_PLACES + 1)]
    raw = dumps({"model": "m", "messages": [{"role": "user", "content": blocks}], "tools": [{"name": "n"}]})
    assert len(raw) >= HUGE
    async with open_process(StoppableLog()) as process:
        await turn(process, raw, *headers(), mode=Mode.MANAGE)
    assert here == []
