"""In a managed conversation, the proxy decodes a reply that the provider compressed unasked, or passes it unchanged."""

import base64
import gzip
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest

from tests.http.managing import Client, open_stage, text
from tests.http.rounds import Round, call
from tests.http.test_reading import UNUSUAL, in_members

Json = dict[str, Any]

ASKS = Round([text("Let me look. "), call("memory_query", question="what?")], "tool_use")
SAYS = Round([text("There it is, in the file.")])


def raw(body: bytes, encoding: str, *, streamed: bool, status: int = 200) -> Json:
    kind = "text/event-stream" if streamed else "application/json"
    headers = [["content-type", kind], ["content-encoding", encoding]]
    return {"raw": {"status": status, "base64": base64.b64encode(body).decode(), "headers": headers}}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", UNUSUAL)
async def test_hidden_call_is_read_in_any_encoding(kind: str, streamed: bool) -> None:
    encoding, encode = UNUSUAL[kind]
    body = encode(ASKS.stream() if streamed else ASKS.whole())
    async with open_stage({"when": {"request": 1}, "reply": raw(body, encoding, streamed=streamed)}) as stage:
        client = Client(stage.url, stream=streamed)
        message = await client.turn(text("Where is it?"))
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


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", UNREADABLE)
async def test_undecodable_reply_passes_unchanged_and_the_session_continues(kind: str, streamed: bool) -> None:
    encoding, encode = UNREADABLE[kind]
    body = encode(SAYS.stream() if streamed else SAYS.whole())
    async with open_stage({"when": {"request": 1}, "reply": raw(body, encoding, streamed=streamed)}) as stage:
        client = Client(stage.url, stream=streamed)
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
        await stage.rounds()


async def test_error_in_an_unknown_encoding_passes_unchanged() -> None:
    async with open_stage({"reply": raw(b"who knows", "lzma", streamed=False, status=429)}) as stage:
        client = Client(stage.url)
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
    async with open_stage({"reply": raw(body, encoding, streamed=streamed)}) as stage:
        client = Client(stage.url, stream=streamed)
        client.history.append({"role": "user", "content": [text("Where is it?")]})
        await client.send()
        [reply] = client.replies
        assert reply.cut or reply.status != 200
