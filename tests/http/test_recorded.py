"""After a recorded error, the client does at once what it did when it was recorded."""

from typing import Any

import attrs
import pytest

from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.exchange import UpstreamRequest
from mnemosyne.http.messages_route import PATHS
from mnemosyne.http.recorded import STOPPED, RecordedUpstream
from mnemosyne.services.recorded_replies import RecordedReply


@attrs.define
class OneReply:
    """A replay with one reply to everything."""

    reply: RecordedReply
    programs: set[str] = attrs.field(factory=set)

    async def find(self, body: bytes, dialect: Dialect) -> RecordedReply | None:
        return self.reply


async def ask(path: bytes, status: int | None, **more: bool) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body of the answer to a client."""
    found = {"streamed": True, "is_repeated": False, "is_stopped": False} | more
    reply = RecordedReply(status=status, body=b'{"error":{}}', complete=True, waited=0, took=0, **found)
    replay: Any = OneReply(reply)
    request = UpstreamRequest("POST", path, (), b"{}")
    async with RecordedUpstream(replay).exchange(request, lambda: None) as answer:
        body = b"".join([chunk async for chunk in answer.chunks()])
        return answer.head.status, dict(answer.head.headers), body


async def test_client_retries_a_request_only_if_it_did_when_recorded() -> None:
    _, headers, _ = await ask(b"/v1/responses", 429, is_repeated=True)
    assert (headers[b"retry-after"], headers[b"x-should-retry"]) == (b"0", b"true")
    _, headers, _ = await ask(b"/v1/messages", 529)
    assert (headers.get(b"retry-after"), headers[b"x-should-retry"]) == (None, b"false")


@pytest.mark.parametrize("path", PATHS)
async def test_client_that_stopped_waiting_gets_an_error_that_it_does_not_retry(path: bytes) -> None:
    status, headers, body = await ask(path, None, is_stopped=True)
    assert (status, headers[b"x-should-retry"]) == (PATHS[path].over_budget[0], b"false")
    assert STOPPED.encode() in body
