"""Has a helper model summarize objects that a rewrite shows at L1, for the L2 of a later rewrite.

The model's answer is data: it is checked (``renditions.accept``) before it is used.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol
from uuid import UUID

import attrs
import trio

from mnemosyne.actors.helper_calls import HelperBudget, HelperCalls, charge_on_failure
from mnemosyne.actors.messages import Identity, SummaryMade
from mnemosyne.domain.objects.full_text import full_parts
from mnemosyne.domain.objects.work import DeferredSummary
from mnemosyne.domain.ports import ContentStore, Ticket
from mnemosyne.domain.summaries.forms import Written, measure_losses, request_of
from mnemosyne.domain.summaries.helper_model import HelperModel
from mnemosyne.domain.summaries.renditions import (
    Accepted,
    ProposedRendition,
    RenditionRequest,
    UnusableAnswer,
    accept,
    parse_candidate,
    prompt_for,
)
from mnemosyne.domain.text.parts import TextPart, join
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece, Recipe
from mnemosyne.errors import LogFailed, MnemosyneError

log = logging.getLogger(__name__)

LONGEST_FOR_A_MODEL = 300_000
"""Maximum length in characters of a text to summarize: a summary of a longer one is not worth its price."""

AT_ONCE = 2
"""Number of concurrent summaries."""

ANSWER_SECONDS = 60.0
"""Time limit for one answer."""

PAUSES = (1.0, 4.0)
"""Seconds before the second and the third attempt."""


MOST_WAITING = 1_024
"""Maximum number of waiting requests; beyond that, the oldest one is dropped."""


@attrs.frozen
class SummaryRequest:
    """A summary that a session wants."""

    identity: Identity
    deferred: DeferredSummary


class SummaryQueue:
    """The requests of one process. Losing a request only loses the summary: the next rewrite requests it again."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[UUID, str], tuple[SummaryRequest, Ticket]] = OrderedDict()
        self._some = trio.Event()

    def put(self, request: SummaryRequest, ticket: Ticket) -> None:
        """Add a request. The ``ticket`` promises that the summary's source becomes durable."""
        self._waiting[request.identity.stream, request.deferred.object] = request, ticket
        if len(self._waiting) > MOST_WAITING:
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


class WaitingSummaries(Protocol):
    """The summaries that sessions want from a helper model, in this process or another."""

    async def wait_for_summary(self) -> SummaryRequest:
        """Wait for a request and take it; everything that the summary is made of is durable."""
        ...

    async def tell(self, identity: Identity, made: SummaryMade) -> bool:
        """Report a summary to its session; return whether it is recorded."""
        ...


class Summarizer:
    """Has a ``model`` write summaries within a budget. ``now`` gives µs of UTC, ``new_id`` a correlation id."""

    def __init__(
        self,
        model: HelperModel,
        budget: HelperBudget,
        contents: ContentStore,
        now: Callable[[], int],
        new_id: Callable[[], str],
        *,
        seconds: float = ANSWER_SECONDS,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._calls = HelperCalls(model, budget, seconds=seconds, pauses=pauses)
        self._budget = budget
        self._contents = contents
        self._now = now
        self._new_id = new_id
        self._slots = trio.Semaphore(AT_ONCE)
        self._cpu = trio.CapacityLimiter(1)  # one thread at a time: the event loop has to share the interpreter

    async def run(self, sessions: WaitingSummaries) -> None:
        """Write the requested summaries until cancelled. A failed summary does not end the loop."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._slots.acquire()
                request = await sessions.wait_for_summary()
                nursery.start_soon(self._summarize, sessions, request)

    async def _summarize(self, sessions: WaitingSummaries, request: SummaryRequest) -> None:
        identity, deferred = request.identity, request.deferred
        try:
            written = await self._read_and_write(identity, deferred)
            if written is not None:
                await self._report(sessions, identity, deferred, written)
        except (MnemosyneError, ValueError) as error:
            log.info("object %s of session %s is not summarized: %s", deferred.object, identity.stream, error)
        except Exception:
            log.exception("object %s of session %s could not be summarized", deferred.object, identity.stream)
        finally:
            self._slots.release()

    async def _report(
        self, sessions: WaitingSummaries, identity: Identity, deferred: DeferredSummary, written: Written
    ) -> None:
        command, data = written.command(deferred, self._now()), written.text.encode()
        recorded = False
        try:
            recorded = await sessions.tell(
                identity, SummaryMade(command=command, data=data, correlation_id=self._new_id())
            )
        finally:
            (self._budget.release if recorded else self._budget.charge)(written.nanodollars)

    async def _read_and_write(self, identity: Identity, deferred: DeferredSummary) -> Written | None:
        made_of = recipe.apply(Recipe(), recipe.decode(deferred.content))
        digests = {piece.digest for piece in made_of.pieces if isinstance(piece, Piece)}
        wanted = digests if deferred.detailed is None else {*digests, deferred.detailed}
        found = await self._contents.fetch(identity.stream, sorted(wanted))
        content = recipe.assemble(made_of.pieces, found.__getitem__)
        parts = await trio.to_thread.run_sync(full_parts, content, deferred.by_user, abandon_on_cancel=True)
        return await self.write(
            deferred, parts, None if deferred.detailed is None else found[deferred.detailed].decode()
        )

    async def write(
        self, deferred: DeferredSummary, parts: tuple[TextPart, ...], detailed: str | None
    ) -> Written | None:
        """The model's summary of a text with these parts, whose L1 is ``detailed``; None if it cannot be used.

        The cost of a summary stays reserved in the budget until it is recorded.
        """
        full = join(parts)
        request = request_of(deferred, full, parts)
        if not full.strip() or len(full) > LONGEST_FOR_A_MODEL:
            return None
        reply = await self._calls.ask(prompt_for(request), lambda text: _read(request, text))
        candidate = reply.found
        if candidate is None:
            self._budget.charge(reply.nanodollars)
            return None

        def finish() -> Written:
            return measure_losses(
                deferred,
                full,
                detailed,
                candidate,
                helper=self._calls.name,
                nanodollars=reply.nanodollars,
            )

        with charge_on_failure(self._budget, lambda: reply.nanodollars):
            return await trio.to_thread.run_sync(finish, abandon_on_cancel=True, limiter=self._cpu)


def _read(request: RenditionRequest, answer: str) -> ProposedRendition | None:
    """The model's answer as a rendition; None if it is rejected."""
    try:
        candidate = parse_candidate(answer)
    except UnusableAnswer:
        verdict: object = None
    else:
        text = candidate.text.encode("utf-8", "replace").decode()
        candidate = attrs.evolve(candidate, text=text)
        verdict = accept(request, candidate)
    if isinstance(verdict, Accepted):
        return candidate
    # Do not log the reason: it may quote file contents.
    log.debug("the helper's answer was rejected")
    return None
