"""Compressed requests share one budget for their decoded size; without budget they are forwarded, and others are not
affected. A reply that the provider compressed unasked is decoded in a managed conversation, or passes unchanged.
"""

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
import trio

from mnemosyne.domain.session.events import TurnFinished
from mnemosyne.domain.session.round_events import FallbackSent, Mode
from mnemosyne.domain.window.rounds import NO_ROOM
from mnemosyne.errors import TooMuchAtOnce
from mnemosyne.http.decoded_room import DecodedRoom
from mnemosyne.zstd import ZstdCompressor
from mnemosyne_lab.provider.server import open_standin
from tests.http.managing import Client, bare_stage, model_says, open_stage, open_talk, text, think
from tests.http.proxying import RecordedTurns, open_proxy
from tests.http.raw_client import exchange
from tests.http.rounds import Round, call
from tests.http.test_reply_copy import UNUSUAL, in_members

ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": lambda data: ZstdCompressor().compress(data, ZstdCompressor.FLUSH_FRAME),
}

BODY = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello? " * 500}]}
RAW = json.dumps(BODY).encode()


async def test_decoded_bodies_share_one_budget_and_return_their_part_from_any_thread() -> None:
    room = DecodedRoom(most=100)
    leases = [room.take(40), room.take(60)]
    assert (leases.count(None), room.take(1), room.held) == (0, None, 100)
    await trio.to_thread.run_sync(lambda: leases.pop() is None)
    assert room.held == 40
    leases.clear()
    assert room.held == 0
    assert room.take(100) is not None


async def test_body_waits_for_budget_and_then_passes_alone_undecoded_while_the_next_is_refused() -> None:
    room = DecodedRoom(most=100, patience=0)
    first = await room.wait(100)
    beyond = await room.wait(90)
    assert (first.is_beyond, beyond.is_beyond) == (False, True)
    with pytest.raises(TooMuchAtOnce, match="Try again in a moment"):
        await room.wait(1)
    del beyond
    assert (await room.wait(1)).is_beyond
    del first
    assert not (await room.wait(1)).is_beyond


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_observed_request_without_budget_is_forwarded_unchanged_and_not_recorded(encoding: str) -> None:
    turns, body = RecordedTurns(), ENCODINGS[encoding](RAW)
    headers = [(b"content-encoding", encoding.encode()), (b"anthropic-version", b"2023-06-01"), (b"x-api-key", b"k")]
    async with open_standin(strict=False) as standin, open_proxy(standin.url, turns) as proxy:
        for most in (len(RAW) - 1, len(RAW)):
            proxy.decoded.most = most
            await exchange(proxy.url, body=body, headers=headers)
            assert standin.exchanges[-1].body == body
            assert turns.calls[:1] == ([] if most < len(RAW) else ["sent"])


class Compressing(Client):
    """A client that compresses its requests."""

    encoding = "gzip"

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().raw_headers(), (b"content-encoding", self.encoding.encode())]

    def body(self) -> bytes:
        return ENCODINGS[self.encoding](super().body())


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "br"])
async def test_managed_request_without_budget_is_sent_without_thinking_and_recorded(encoding: str) -> None:
    rule = {"replies": [model_says(think(), text("There.")), model_says(text("Yes.")), model_says(text("No."))]}
    async with open_stage(rule, breaks=["R10"]) as stage:
        client = Compressing(stage.url)
        client.encoding = encoding
        await client.turn(text("Where is it? " * 40))
        await stage.events_until(TurnFinished)
        stage.proxy.decoded.most, stage.proxy.decoded.patience = 1, 0
        await client.turn(text("And now?"))
        assert [event.why for event in await stage.events_until(FallbackSent)] == [NO_ROOM]
        assert b'"thinking","thinking"' not in stage.standin.messages[-1].body.replace(b" ", b"")
        stage.proxy.decoded.most = 10_000_000
        await client.turn(text("And then?"))
        assert [each.status for each in stage.standin.messages] == [200, 200, 200]


async def test_one_of_many_managed_requests_without_budget_waits_and_is_finally_refused() -> None:
    async with bare_stage({"replies": [model_says(text("Yes."))]}, mode=Mode.MANAGE) as stage:
        room = stage.proxy.decoded
        room.most, room.patience = 1, 0
        held = room.take(50, beyond=True)
        client = Compressing(stage.url)
        refusal = await client.turn(text("Hello?"))
        assert refusal["status"] == 503
        assert stage.standin.messages == []
        del held
        client.history.clear()
        await client.turn(text("Hello?"))
        assert client.replies[-1].status == 200


Json = dict[str, Any]

ASKS = Round([text("Let me look. "), call("memory_query", question="what?")], "tool_use")
SAYS = Round([text("There it is, in the file.")])


def raw(body: bytes, encoding: str, *, streamed: bool, status: int = 200) -> Json:
    kind = "text/event-stream" if streamed else "application/json"
    headers = [["content-type", kind], ["content-encoding", encoding]]
    return {"raw": {"status": status, "base64": base64.b64encode(body).decode(), "headers": headers}}


@pytest.mark.parametrize(("kind", "streamed"), [(kind, number % 2 == 0) for number, kind in enumerate(UNUSUAL)])
async def test_hidden_call_is_read_in_any_encoding(kind: str, streamed: bool) -> None:
    encoding, encode = UNUSUAL[kind]
    body = encode(ASKS.stream() if streamed else ASKS.whole())
    async with open_stage({"when": {"request": 1}, "reply": raw(body, encoding, streamed=streamed)}) as stage:
        client = stage.client(stream=streamed)
        message = await client.turn(text("Where is it?"))
        assert stage.standin.messages[0].header("accept-encoding") == "identity"
        assert message["content"][0]["text"].startswith("Let me look. ")
        assert len(message["content"]) == 2
        assert len(stage.standin.messages) == 2
        assert b"memory_query" not in client.replies[0].body
        assert client.replies[0].header(b"content-encoding") is None


UNREADABLE: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "an unknown encoding": ("lzma", lambda data: data[::-1]),
    "an unknown one in a known one": ("exi, gzip", gzip.compress),
    "not the one that is named": ("gzip", zlib.compress),
    "none at all": ("br", lambda data: data),
}


@pytest.mark.parametrize(("kind", "streamed"), [(kind, number % 2 == 0) for number, kind in enumerate(UNREADABLE)])
async def test_undecodable_reply_passes_unchanged_and_the_session_continues(kind: str, streamed: bool) -> None:
    encoding, encode = UNREADABLE[kind]
    body = encode(SAYS.stream() if streamed else SAYS.whole())
    async with open_stage({"when": {"request": 1}, "reply": raw(body, encoding, streamed=streamed)}) as stage:
        client = stage.client(stream=streamed)
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        await client.send()
        assert client.replies[0].status == 200
        assert client.replies[0].body == body
        assert client.replies[0].header(b"content-encoding") == encoding.encode()
        client.history += [
            {"role": "assistant", "content": SAYS.content},
            {"role": "user", "content": [text("Go on.")]},
        ]
        assert "content" in await client.send()


async def test_error_in_an_unknown_encoding_passes_unchanged() -> None:
    async with open_talk({"reply": raw(b"who knows", "lzma", streamed=False, status=429)}) as (_, client):
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        await client.send()
        [reply] = client.replies
        assert (reply.status, reply.body, reply.header(b"content-encoding")) == (429, b"who knows", b"lzma")


@pytest.mark.parametrize("encode", [gzip.compress, in_members(gzip.compress), brotli.compress], ids=["1", "2", "br"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_reply_cut_in_its_compressed_data_is_not_complete(
    encode: Callable[[bytes], bytes], streamed: bool
) -> None:
    encoding = "br" if encode is brotli.compress else "gzip"
    body = encode(SAYS.stream()[:-60] if streamed else SAYS.whole())[:-5]
    async with open_talk({"reply": raw(body, encoding, streamed=streamed)}, stream=streamed) as (_, client):
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        await client.send()
        [reply] = client.replies
        assert reply.cut or reply.status != 200
