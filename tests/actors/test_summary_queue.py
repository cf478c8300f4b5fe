"""Requests for summaries wait in order, each object once, and never block a session."""

import attrs
import pytest
import trio

from mnemosyne.actors import summary_queue
from mnemosyne.actors.summary_queue import SummaryQueue, SummaryRequest
from mnemosyne.domain.objects.work import missing_of
from mnemosyne.errors import LogUnavailable
from tests.actors.support import IDENTITY
from tests.domain.objects.test_work import created, fold


def request(name: str) -> SummaryRequest:
    state = fold(created(name))
    owed = missing_of(state.objects[name], state)
    assert owed is not None
    return SummaryRequest(IDENTITY, owed)


@attrs.frozen
class Settled:
    """A ticket whose outcome is known (domain.ports.Ticket)."""

    error: LogUnavailable | None = None
    version: int = 1
    settled: bool = True

    async def durable(self) -> int:
        if self.error is not None:
            raise self.error
        return self.version


async def test_requests_are_taken_in_order_and_an_object_is_requested_once() -> None:
    queue = SummaryQueue()
    for name in ("a", "b", "a"):
        queue.put(request(name), Settled())
    assert [(await queue.take()).deferred.object for _ in range(2)] == ["a", "b"]
    with trio.move_on_after(0) as scope:
        await queue.take()
    assert scope.cancelled_caught


async def test_a_request_whose_contents_were_not_recorded_is_dropped() -> None:
    queue = SummaryQueue()
    queue.put(request("a"), Settled(LogUnavailable("away")))
    queue.put(request("b"), Settled())
    assert (await queue.take()).deferred.object == "b"


async def test_beyond_its_length_the_queue_drops_the_oldest_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_queue, "MOST", 2)
    queue = SummaryQueue()
    for name in ("a", "b", "c"):
        queue.put(request(name), Settled())
    assert [(await queue.take()).deferred.object for _ in range(2)] == ["b", "c"]
