"""Spans are sent to a collector; an absent collector delays no turn."""

import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from mnemosyne.app import tracing
from mnemosyne.app.tracing import SpanSender
from mnemosyne.domain.ports import Append
from mnemosyne.errors import LogUnavailable
from tests.adapters.log_support import until
from tests.services.test_spans import STREAM, began, finished
from tests.services.test_tally import append


@attrs.define
class Collector:
    """A collector that answers each POST with ``status``."""

    status: int = 200
    url: str = ""
    taken: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)

    async def serve(self, stream: trio.SocketStream) -> None:
        received = b""
        async for data in stream:
            received += data
            head, _, body = received.partition(b"\r\n\r\n")
            found = re.search(rb"(?i)content-length: (\d+)", head)
            length = int(found[1]) if found else None
            if length is not None and len(body) >= length:
                self.taken.append((head.split()[1].decode(), json.loads(body[:length])))
                received = b""
                await stream.send_all(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\n\r\n" % self.status)


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, collector.serve, 0, host="127.0.0.1"))
        collector.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield collector
        nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "SEND_SECONDS", 0.02)


def turn() -> Append:
    return append(began(10), finished(40))


async def test_the_spans_of_a_turn_are_sent_as_a_collector_reads_them() -> None:
    async with collecting() as collector, trio.open_nursery() as nursery:
        sender = SpanSender(collector.url, lambda: 5_000_000)
        nursery.start_soon(sender.run)
        sender.note(turn(), 42, 0.5, None)
        sender.note(turn(), 42, 0.5, LogUnavailable("away"))
        await until(lambda: bool(collector.taken))
        nursery.cancel_scope.cancel()
    ((path, message),) = collector.taken
    assert path == "/v1/traces"
    (found,) = message["resourceSpans"]
    assert {"key": "service.name", "value": {"stringValue": "mnemosyne"}} in found["resource"]["attributes"]
    chat, append_ = found["scopeSpans"][0]["spans"]
    assert (len(chat["traceId"]), len(chat["spanId"]), "parentSpanId" in chat) == (32, 16, False)
    assert (append_["traceId"], append_["parentSpanId"]) == (chat["traceId"], chat["spanId"])
    assert (chat["startTimeUnixNano"], chat["endTimeUnixNano"]) == ("10000", "40000")
    assert (append_["startTimeUnixNano"], append_["endTimeUnixNano"]) == ("4500000000", "5000000000")
    assert {"key": "gen_ai.conversation.id", "value": {"stringValue": str(STREAM)}} in chat["attributes"]
    assert {"key": "mnemosyne.turn", "value": {"intValue": "3"}} in chat["attributes"]


async def test_a_refusing_collector_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="mnemosyne")
    async with collecting() as collector, trio.open_nursery() as nursery:
        collector.status = 503
        sender = SpanSender(collector.url, lambda: 5_000_000)
        nursery.start_soon(sender.run)
        for _ in range(2):
            sender.note(turn(), 42, 0.5, None)
            await until(lambda: bool(collector.taken))
            collector.taken.clear()
        collector.status = 200
        sender.note(turn(), 42, 0.5, None)
        await until(lambda: "sent again" in caplog.text)
        nursery.cancel_scope.cancel()
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "Spans are being dropped",
        "Spans are sent again; 4 were dropped.",
    ]


async def test_waiting_spans_are_bounded_and_an_absent_collector_is_survived(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "MOST_WAITING", 3)
    sender = SpanSender("http://127.0.0.1:9", lambda: 5_000_000)
    for _ in range(9):
        sender.note(turn(), 42, 0.5, None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.run)
        await until(lambda: "Spans are being dropped: no answer from http://127.0.0.1:9/v1/traces" in caplog.text)
        nursery.cancel_scope.cancel()
