"""Requests and replies pass byte for byte, as on a direct connection, whatever the provider does."""

import gzip
import json
from contextlib import aclosing
from typing import Any

import pytest
import trio

from mnemosyne.http.headers import HOP_BY_HOP
from mnemosyne_lab.provider.server import open_standin
from tests.http.proxying import open_proxy
from tests.http.raw_client import RawReply, connect, exchange
from tests.lab.provider.building import body, user
from tests.waiting import until

STREAMED = json.dumps(body(user("hello"), stream=True)).encode()
WHOLE = json.dumps(body(user("hello"))).encode()

THINK = [{"type": "thinking", "thinking": "Let me look at it."}, {"type": "text", "text": "Here: 12 Boxkämpfer"}]
TOOL = {"type": "tool_use", "name": "Look", "input": {"at": "the thing"}}

FAULTS: dict[str, dict[str, Any]] = {
    "text": {"text": "All is well."},
    "thinking and text": {"content": THINK},
    "parallel tools": {"content": [TOOL, TOOL]},
    "unknown tool": {"content": [{"type": "tool_use", "name": "NoSuchTool", "input": {}}]},
    "unknown block": {"content": [{"type": "hologram", "shape": [1, 2]}]},
    "index gap": {"content": THINK, "faults": [{"kind": "index_gap"}]},
    "restart at index 0": {"content": THINK, "faults": [{"kind": "restart_index"}]},
    "second message_start": {"content": THINK, "faults": [{"kind": "second_message_start", "at": 5}]},
    "tool_use without a tool": {"text": "no tool", "stop_reason": "tool_use"},
    "end_turn with a tool": {"content": [TOOL], "stop_reason": "end_turn"},
    "no message_stop": {"text": "and then", "faults": [{"kind": "no_message_stop"}]},
    "unknown event": {"text": "a", "faults": [{"kind": "event", "at": 2, "data": {"type": "unheard_of"}}]},
    "comment": {"text": "a", "faults": [{"kind": "comment", "at": 2, "text": "still here"}]},
    "zero blocks": {"content": [], "text": None},
    "error event": {"text": "begun", "faults": [{"kind": "error_event", "at": 4}]},
    "cut in mid-stream": {"text": "begun and never done", "faults": [{"kind": "cut", "at": 4}]},
    "cut inside a frame": {"text": "begun and never done", "faults": [{"kind": "cut", "at": 4, "inside": 9}]},
    "reset in mid-stream": {"text": "begun", "faults": [{"kind": "cut", "at": 3, "reset": True}]},
    "429": {"failure": {"status": 429, "retry_after": 2}},
    "529": {"failure": {"status": 529}},
    "500": {"failure": {"status": 500}},
    "401": {"failure": {"status": 401}},
    "413": {"failure": {"status": 413}},
    "prompt too long": {"failure": {"status": 400, "message": "prompt is too long: 210000 tokens > 200000 maximum"}},
    "window exceeded": {"text": "long", "stop_reason": "model_context_window_exceeded"},
    "refusal": {"text": "", "stop_reason": "refusal", "stop_details": {"category": "cyber"}},
    "pause_turn": {"text": "wait", "stop_reason": "pause_turn"},
    "max_tokens": {"content": [TOOL], "stop_reason": "max_tokens"},
    "byte by byte": {"content": THINK, "transport": {"framing": "byte"}},
    "odd pieces": {"content": THINK, "transport": {"framing": [3, 50, 1, 7]}},
    "compressed": {"content": THINK, "transport": {"gzip": True}},
    "redirect": {"raw": {"status": 307, "headers": [("Location", "https://elsewhere.example/v1/messages")]}},
    "no content": {"raw": {"status": 204}},
    "not JSON": {"raw": {"status": 502, "headers": [("Content-Type", "text/html")], "body": "<h1>Bad gateway</h1>"}},
    "odd header": {"raw": {"status": 200, "headers": [("X-Odd", "caf\xe9"), ("X-Odd", "twice")], "body": "x"}},
}


def end_to_end(reply: RawReply) -> list[tuple[bytes, bytes]]:
    """The comparable headers: without hop-by-hop headers, dates and framing."""
    ours = HOP_BY_HOP | {b"date", b"content-length"}
    return [(name, value) for name, value in reply.headers if name.lower() not in ours]


@pytest.mark.parametrize("request_body", [STREAMED, WHOLE], ids=["streamed", "whole"])
async def test_client_gets_exactly_the_reply_of_a_direct_connection(request_body: bytes) -> None:
    script = {"rules": [{"when": {"request": at}, "reply": reply} for at, reply in enumerate(FAULTS.values(), 1)]}
    headers = [(b"anthropic-version", b"2023-06-01"), (b"x-api-key", b"k"), (b"Accept-Encoding", b"gzip")]
    async with open_standin(script) as one, open_standin(script) as other, open_proxy(other.url) as proxy:
        for fault in FAULTS:
            direct = await exchange(one.url, body=request_body, headers=headers)
            proxied = await exchange(proxy.url, body=request_body, headers=headers)
            assert (proxied.status, proxied.body, proxied.cut) == (direct.status, direct.body, direct.cut), fault
            assert end_to_end(proxied) == end_to_end(direct), fault


async def test_provider_that_closes_without_a_reply_is_asked_once_and_gives_an_error() -> None:
    async with open_standin({"rules": [{"reply": {"faults": [{"kind": "cut_before_reply"}]}}]}) as standin:
        async with open_proxy(standin.url) as proxy:
            reply = await exchange(proxy.url, body=WHOLE)
        assert len(standin.exchanges) == 1
    assert reply.status == 502
    assert json.loads(reply.body)["error"]["type"] == "api_error"


REQUESTS = [
    ("POST", "/v1/messages?beta=true", STREAMED),
    ("POST", "/v1/messages/count_tokens", WHOLE),
    ("POST", "/v1/messages", b"{not json"),
    ("POST", "/v1/messages", b""),
    ("POST", "/v1/messages", gzip.compress(WHOLE, mtime=0)),
    ("POST", "/v1/threads", b'{"thread":{"type":"create"}}'),
    ("GET", "/v1/models?limit=1000", b""),
    ("HEAD", "/api/hello", b""),
    ("DELETE", "/v1/files/file_1", b""),
    ("PUT", "/no/such//route/../here;x=1?a=%2F&b", b"\x00\xff"),
    ("PROPFIND", "/", b""),
    ("OPTIONS", "/v1/messages", b""),
]


@pytest.mark.parametrize(("method", "target", "content"), REQUESTS, ids=lambda value: str(value)[:40])
async def test_any_request_reaches_the_provider_unchanged_but_for_headers_to_the_proxy(
    method: str, target: str, content: bytes
) -> None:
    headers = [(b"X-Api-Key", b"k"), (b"Anthropic-Version", b"2023-06-01"), (b"X-Twice", b"1"), (b"x-twice", b"2")]
    async with open_standin(strict=False) as standin, open_proxy(standin.url) as proxy:
        ours = (b"x-mnemosyne-session", b"mine")
        reply = await exchange(proxy.url, target, content, method=method, headers=[ours, *headers])
        [seen] = standin.exchanges
    assert (seen.method, seen.target, seen.body) == (method, target, content)
    assert [pair for pair in seen.headers if pair[0] not in (b"Host", b"Content-Length")] == headers
    assert int(seen.header("content-length") or 0) == len(content)
    assert reply.status == seen.status


async def test_path_without_a_version_gets_the_providers_version() -> None:
    async with open_standin() as standin, open_proxy(standin.url) as proxy:
        reply = await exchange(proxy.url, "/messages?beta=true", WHOLE)
        assert (reply.status, standin.exchanges[0].target) == (200, "/v1/messages?beta=true")


async def test_chunked_request_arrives_complete() -> None:
    async with open_standin() as standin, open_proxy(standin.url) as proxy:
        async with connect(proxy.url) as connection:
            head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nanthropic-version: 2023-06-01\r\nx-api-key: k\r\n"
            halves = [WHOLE[:20], WHOLE[20:]]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(half), half) for half in halves)
            await connection.stream.send_all(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
            received = bytearray()
            async for data in connection.stream:
                received += data
                if b"message" in received and received.endswith(b"}"):
                    break
        assert standin.exchanges[0].body == WHOLE


async def test_every_delta_is_forwarded_before_the_next_one_arrives() -> None:
    script = {"rules": [{"reply": {"text": "x" * 240, "pace": {"between": 3600, "characters": 24}}}]}
    opened = trio.Event()
    async with open_standin(script) as standin, open_proxy(standin.url) as proxy, connect(proxy.url) as connection:
        await connection.send("POST", "/v1/messages", STREAMED)
        reply = RawReply()
        async with aclosing(connection.pieces(reply)) as pieces:
            async for _ in pieces:
                if b"content_block_start" in reply.body:
                    opened.set()
                    break  # the first delta is an hour away, and the frames before it are here
    assert opened.is_set()


@pytest.mark.parametrize("pace", ["first", "between"], ids=["before the reply", "in mid-reply"])
async def test_client_disconnect_closes_the_provider_stream(pace: str) -> None:
    script = {"rules": [{"reply": {"text": "x" * 100_000, "pace": {pace: 3600}}}]}
    async with open_standin(script) as standin, open_proxy(standin.url) as proxy:
        async with connect(proxy.url) as connection:
            await connection.send("POST", "/v1/messages", STREAMED)
            await until(lambda: bool(standin.exchanges))
            if pace == "between":
                async with aclosing(connection.pieces(RawReply())) as pieces:
                    await anext(pieces)
        await until(lambda: not proxy.progress.running)
        assert not standin.exchanges[0].complete


async def test_stale_pooled_connection_is_replaced_unnoticed_by_the_client() -> None:
    script = {"rules": [{"reply": {"text": "hello", "transport": {"close_after": True}}}]}
    async with open_standin(script) as standin, open_proxy(standin.url) as proxy:
        for _ in range(5):
            assert (await exchange(proxy.url, body=WHOLE)).status == 200
        assert len(standin.exchanges) == 5


async def test_several_exchanges_share_a_connection() -> None:
    async with open_standin() as standin, open_proxy(standin.url) as proxy, connect(proxy.url) as connection:
        for _ in range(3):
            await connection.send("POST", "/v1/messages", STREAMED)
            assert (await connection.receive()).status == 200
        assert len({seen.connection for seen in standin.exchanges}) == 1
