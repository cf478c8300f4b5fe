"""The summaries that the sessions of this process want from a helper model, in a queue that never blocks a session.

Losing a request only loses the summary: the next rewrite requests it again from another process.
"""

from collections import OrderedDict
from contextlib import suppress
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.messages import Identity
from mnemosyne.domain.objects.work import DeferredSummary
from mnemosyne.domain.ports import Ticket
from mnemosyne.errors import LogFailed

MOST = 1_024
"""Maximum number of waiting requests; beyond that, the oldest one is dropped."""


@attrs.frozen
class SummaryRequest:
    """A summary that a session wants."""

    identity: Identity
    deferred: DeferredSummary


class SummaryQueue:
    """The requests of one process."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[UUID, str], tuple[SummaryRequest, Ticket]] = OrderedDict()
        self._some = trio.Event()

    def put(self, request: SummaryRequest, ticket: Ticket) -> None:
        """Add a request. The ``ticket`` promises that the summary's source becomes durable."""
        self._waiting[request.identity.stream, request.deferred.object] = request, ticket
        if len(self._waiting) > MOST:
            self._waiting.popitem(last=False)
        self._some.set()

    async def take(self) -> SummaryRequest:
        """Wait for a request whose contents are durable, and remove it."""
        while True:
            while not self._waiting:
                self._some = trio.Event()
                await self._some.wait()
            _, (request, ticket) = self._waiting.popitem(last=False)
            with suppress(LogFailed):
                await ticket.durable()
                return request
