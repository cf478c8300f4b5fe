"""Whatever bytes a stranger sends, the server answers in HTTP/1.1 or closes the connection, and continues. A chunked
body reads as the same bytes at every network cut, and short chunks make few events.
"""

import json
import logging
from urllib.parse import urlsplit

import h11
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.http import gateway, serving
from mnemosyne.http.plain_http import PlainHttp, join_chunks
from mnemosyne.http.unfinished import Unfinished
from mnemosyne_lab.provider.server import open_standin
from tests.http.proxying import open_proxy
from tests.http.raw_client import connect, exchange
from tests.http.streams import cut
from tests.http.test_gateway import WHOLE
from tests.waiting import DEADLINE, until

SCRIPT = {"rules": [{"reply": {"text": "All is well."}}]}
UPGRADE = b"Connection: Upgrade\r\nUpgrade: %b\r\n"
WEBSOCKET = UPGRADE % b"websocket" + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"


async def read_reply(url: str, sent: bytes) -> bytes:
    """Everything that the server sends for these bytes until it closes the connection."""
    parts = urlsplit(url)
    assert parts.hostname
    got = b""
    with trio.fail_after(DEADLINE):
        async with await trio.open_tcp_stream(parts.hostname, parts.port or 80) as stream:
            await stream.send_all(sent.replace(b"HOST", parts.netloc.encode()))
            while piece := await stream.receive_some(65536):
                got += piece
    return got


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"CONNECT localhost:443 HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
        (b"GET http://localhost/v1/messages HTTP/1.1\r\nHost: HOST\r\n\r\n", 400),
        (
            b"POST /v1/messages HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\n{}\r\n0\r\n\r\n",
            400,
        ),
        (b"POST /v1/messages HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5, 6\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /v1/messages HTTP/1.1\r\nHost: HOST\r\n" + WEBSOCKET + b"\r\n", 426),
        (b"GET /v1/messages HTTP/1.1\r\nHost: HOST\r\n" + WEBSOCKET + b"\r\n\x81\x05hello", 426),
    ],
    ids=["connect", "absolute", "two lengths", "odd length", "odd coding", "http2", "tls", "websocket", "its frames"],
)
async def test_foreign_protocol_gets_an_error_in_the_providers_format_and_no_traceback(
    sent: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_standin(SCRIPT) as standin, open_proxy(standin.url) as proxy:
        head, _, body = (await read_reply(proxy.url, sent)).partition(b"\r\n\r\n")
        assert (await exchange(proxy.url, body=WHOLE)).status == 200
        assert len(standin.exchanges) == 1
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert json.loads(body)["type"] == "error"
    assert [each for each in caplog.records if each.exc_info or each.levelno >= logging.ERROR] == []


async def test_fault_in_one_connection_ends_only_that_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_standin(SCRIPT) as standin, open_proxy(standin.url) as proxy:
        with monkeypatch.context() as patching:
            patching.setattr(PlainHttp, "_create_stream", _fails)
            assert await read_reply(proxy.url, b"GET / HTTP/1.1\r\nHost: HOST\r\n\r\n") == b""
        assert (await exchange(proxy.url, body=WHOLE)).status == 200
    assert "a connection failed and is closed" in caplog.text


async def _fails(*_: object) -> None:
    raise RuntimeError("a bug")


async def test_closed_connection_is_released_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "KEEP_ALIVE_SECONDS", 1_000_000)
    async with open_standin(SCRIPT) as standin, open_proxy(standin.url) as proxy, connect(proxy.url) as connection:
        await connection.send("POST", "/v1/messages", WHOLE)
        assert (await connection.receive()).status == 200
        await trio.testing.wait_all_tasks_blocked(0.01)  # now the server waits for the next request
        await connection.stream.send_eof()
        with trio.fail_after(DEADLINE):
            assert await connection.stream.receive_some() == b""


async def test_stalled_body_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "STALLED_SECONDS", 0.05)
    async with open_standin(SCRIPT) as standin, open_proxy(standin.url) as proxy:
        got = await read_reply(proxy.url, b"POST /v1/messages HTTP/1.1\r\nHost: HOST\r\nContent-Length: 50\r\n\r\n{")
    assert got.startswith(b"HTTP/1.1 408")
    assert b"no data of the request body arrived" in got


async def test_endless_bodies_delay_others_only_while_they_are_open() -> None:
    room = Unfinished(most=100_000)
    async with open_standin(SCRIPT) as standin, open_proxy(standin.url, unfinished=room) as proxy:
        parts = urlsplit(proxy.url)
        assert parts.hostname
        async with await trio.open_tcp_stream(parts.hostname, parts.port or 80) as stream:
            head = b"POST /v1/messages HTTP/1.1\r\nHost: %b\r\nContent-Length: 200000\r\n\r\n" % parts.netloc.encode()
            await stream.send_all(head + b"x" * 99_000)
            await until(lambda: room.held > 99_000)
            refused = await exchange(proxy.url, body=WHOLE + b" " * 2_000)
        await until(lambda: room.held == 0)
        assert (await exchange(proxy.url, body=WHOLE + b" " * 2_000)).status == 200
    assert refused.status == 503
    assert "Try again" in json.loads(refused.body)["error"]["message"]


HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\nX-After: 1\r\n\r\n"

join_chunks()


def events_of(pieces: list[bytes]) -> list[h11.Event]:
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    events: list[h11.Event] = []
    for piece in filter(None, pieces):
        connection.receive_data(piece)
        while isinstance(event := connection.next_event(), h11.Event):
            events.append(event)
            if isinstance(event, h11.EndOfMessage):
                return events
    return events


def body_of(events: list[h11.Event]) -> bytes:
    return b"".join(bytes(event.data) for event in events if isinstance(event, h11.Data))


CHUNKS = st.lists(st.binary(min_size=1, max_size=5) | st.binary(min_size=4000, max_size=5000), max_size=8)


@given(CHUNKS, st.sampled_from([b"", b";name=value"]), st.lists(st.integers(0, 9000), max_size=6))
def test_body_is_the_same_at_every_cut(chunks: list[bytes], extension: bytes, places: list[int]) -> None:
    wire = HEAD + b"".join(b"%X%s\r\n%s\r\n" % (len(each), extension, each) for each in chunks) + END
    events = events_of(cut(wire, places))
    assert body_of(events) == b"".join(chunks)
    assert isinstance(events[-1], h11.EndOfMessage)
    assert list(events[-1].headers) == [(b"x-after", b"1")]


def test_short_chunks_that_arrive_together_are_one_event() -> None:
    events = events_of([HEAD + b"1\r\n\r\r\n" * 5000 + END])
    assert body_of(events) == b"\r" * 5000
    assert len(events) == 3


@pytest.mark.parametrize("wrong", [b"1\r\nxy\r\n", b"g\r\nx\r\n", b"-1\r\nx\r\n", b"1\nx\r\n", b"1\r\nx\r\n\r\n"])
def test_invalid_chunk_after_short_ones_is_refused(wrong: bytes) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        events_of([HEAD + b"1\r\nx\r\n" * 3 + wrong + END])
