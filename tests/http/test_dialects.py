"""A conversation in any dialect passes byte for byte, is recorded as sent, and is described in the same words."""

import json
from collections.abc import Sequence

import pytest

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.session.events import SessionStarted, TurnBegan, TurnFinished
from mnemosyne.domain.session.round_events import Mode
from tests.actors.support import StoppableLog, assembled, events_of, open_process
from tests.domain.wire.dialects import WRITTEN, Written, bodies, replies
from tests.http.playback import open_playback
from tests.http.proxying import open_proxy
from tests.http.raw_client import exchange
from tests.profiles import cover, rarely

PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
DIALECTS = {written.dialect.name: written for written in WRITTEN}
EACH = pytest.mark.parametrize("written", DIALECTS.values(), ids=DIALECTS)
CLIENTS = {
    "messages": [(b"user-agent", b"claude-cli/2.1.329 (external)"), (b"x-claude-code-session-id", b"s")],
    "chat": [(b"user-agent", b"opencode/1.18.33 ai-sdk"), (b"x-session-id", b"s")],
    "responses": [(b"user-agent", b"codex_exec/0.169.0 (Linux)"), (b"session-id", b"s")],
}


async def talk(
    written: Written, log: StoppableLog, *, streamed: bool, mode: Mode = Mode.OBSERVE, path: str = "{}"
) -> list[bytes]:
    """Hold a conversation through the proxy on another spelling of the dialect's path; return the replies."""
    kind = "text/event-stream" if streamed else "application/json"
    said = [written.stream(each) if streamed else json.dumps(written.whole(each)).encode() for each in replies()]
    path = path.format(PATHS[written.dialect.name])
    headers = [(b"content-type", b"application/json"), *CLIENTS[written.dialect.name]]
    async with (
        open_playback([(kind, each) for each in said]) as provider,
        open_process(log) as process,
        open_proxy(provider.url, process.opener, mode=mode) as proxy,
    ):
        got = [await exchange(proxy.url, path, body, headers=headers) for body in bodies(written)]
        assert {target for _, target, *_ in provider.requests} == {path}
        sent = [body for *_, body in provider.requests]
        assert (sent == bodies(written)) is (mode is Mode.OBSERVE)
    assert [each.body for each in got] == said
    return said


@EACH
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_every_request_is_recorded_and_every_reply_parsed(written: Written, streamed: bool) -> None:
    log = StoppableLog()
    await talk(written, log, streamed=streamed)
    (stream,) = await log.streams()
    events = await events_of(log, stream)
    [started] = [each for each in events if isinstance(each, SessionStarted)]
    assert (started.client, started.external_id) == (
        {"messages": "claude-code", "chat": "opencode", "responses": "codex"}[written.dialect.name],
        "s",
    )
    began = [each for each in events if isinstance(each, TurnBegan)]
    assert [each.opaque for each in began] == [None] * len(bodies(written))
    assert [each.echo.value for each in began if each.echo is not None] == ["same"] * (len(began) - 1)
    history = time_travel.history_of("s", await log.read(stream))
    rebuilt = [
        await assembled(log, time_travel.body_of(history, each.body_version), stream) for each in history.attempts
    ]
    assert rebuilt == bodies(written)
    finished = [each for each in events if isinstance(each, TurnFinished)]
    counts = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    used = [tuple(each.usage[name] for name in counts) for each in finished]
    assert used == [(12, 100, 9)] * len(replies())


SPELLINGS = ("/{}", "//{}//", "{}/", "{}/?beta=true", "/anthropic{}?beta=true", "/gateway/v1/team//openai{}", "/api{}")


@pytest.mark.parametrize("spellings", [SPELLINGS[-2:], *rarely([(SPELLINGS[:-2],)])], ids=["some", "others"])
@pytest.mark.parametrize(
    ("written", "mode"), cover(DIALECTS, {mode.value: mode for mode in (Mode.OBSERVE, Mode.MANAGE)})
)
async def test_other_spelling_of_a_path_is_recognized_and_goes_upstream_unchanged(
    written: Written, mode: Mode, spellings: Sequence[str]
) -> None:
    """``plain_path`` defines the spellings; its own tests cover all of them."""

    async def events_with(path: str) -> list[type]:
        log = StoppableLog()
        await talk(written, log, streamed=True, mode=mode, path=path)
        return [type(each) for each in await events_of(log, *await log.streams())]

    expected = await events_with("{}")
    assert TurnFinished in expected
    for path in spellings:
        assert (path, await events_with(path)) == (path, expected)
